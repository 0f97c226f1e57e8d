// block_q8_0.wgsl: block of 32: scale (half), signed bytes; scale q.
fn unpack(row: u32, unit: u32) -> array<vec4<f32>, 8> {
  let at = row + unit * 34u;
  let scale = half_at(at);
  var w: array<vec4<f32>, 8>;
{{@i=8}}
  w[{{i}}] = scale * signed_of(word_at(at + 2u + {{i}}u * 4u));
{{/i}}
  return w;
}
