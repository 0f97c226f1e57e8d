// block_q5_1.wgsl: block of 32: scale, least (halves), fifth bits, nibbles; scale q + least.
// Four bits of a word, as bytes of 16.
fn fifth_bits(bits: u32) -> u32 {
  return ((bits & 1u) << 4u) | ((bits & 2u) << 11u) | ((bits & 4u) << 18u) | ((bits & 8u) << 25u);
}

fn unpack(row: u32, unit: u32) -> array<vec4<f32>, 8> {
  let at = row + unit * 24u;
  let scale = half_at(at);
  let least = half_at(at + 2u);
  let fifths = word_at(at + 4u);
  var w: array<vec4<f32>, 8>;
{{@i=4}}
  {
    let q = word_at(at + 8u + {{i}}u * 4u);
    w[{{i}}] = scale * floats_of((q & 0x0f0f0f0fu) | fifth_bits(fifths >> ({{i}}u * 4u))) + least;
    w[{{i}} + 4] = scale * floats_of(((q >> 4u) & 0x0f0f0f0fu) | fifth_bits(fifths >> (16u + {{i}}u * 4u))) + least;
  }
{{/i}}
  return w;
}
