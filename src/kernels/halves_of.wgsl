// halves_of.wgsl: eight floats as halves. What is finite and more than a half holds is remembered, and told at the end.
var<private> is_beyond = false;

fn halves_of(a: vec4<f32>, b: vec4<f32>) -> vec4<u32> {
  // From the first number over 65504 on, by the bits, and before infinity.
  let least = vec4<u32>(0x477fe001u);
  let finite = vec4<u32>(0x7f800000u) - least;
  let over_a = (bitcast<vec4<u32>>(abs(a)) - least) < finite;
  let over_b = (bitcast<vec4<u32>>(abs(b)) - least) < finite;
  is_beyond = is_beyond || any(over_a | over_b);
  return vec4<u32>(pack2x16float(a.xy), pack2x16float(a.zw), pack2x16float(b.xy), pack2x16float(b.zw));
}
