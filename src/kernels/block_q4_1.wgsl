// block_q4_1.wgsl: block of 32: scale, least (halves), nibbles; scale q + least.
fn unpack(row: u32, unit: u32) -> array<vec4<f32>, 8> {
  let at = row + unit * 20u;
  let scale = half_at(at);
  let least = half_at(at + 2u);
  var w: array<vec4<f32>, 8>;
{{@i=4}}
  {
    let q = word_at(at + 4u + {{i}}u * 4u);
    w[{{i}}] = scale * floats_of(q & 0x0f0f0f0fu) + least;
    w[{{i}} + 4] = scale * floats_of((q >> 4u) & 0x0f0f0f0fu) + least;
  }
{{/i}}
  return w;
}
