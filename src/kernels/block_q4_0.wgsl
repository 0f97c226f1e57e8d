// block_q4_0.wgsl: block of 32: scale (half), nibbles; scale (q - 8). Low nibbles are the first 16 elements.
fn unpack(row: u32, unit: u32) -> array<vec4<f32>, 8> {
  let at = row + unit * 18u;
  let scale = half_at(at);
  var w: array<vec4<f32>, 8>;
{{@i=4}}
  {
    let q = word_at(at + 2u + {{i}}u * 4u);
    w[{{i}}] = scale * (floats_of(q & 0x0f0f0f0fu) - 8.0);
    w[{{i}} + 4] = scale * (floats_of((q >> 4u) & 0x0f0f0f0fu) - 8.0);
  }
{{/i}}
  return w;
}
