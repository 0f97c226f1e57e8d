// block_words.wgsl: bytes of raw GGUF blocks, `weights` of u32, at any place; `at` counts bytes of the binding.
fn word_at(at: u32) -> u32 {
{{#aligned}}
  return weights[at / 4u];
{{/aligned}}{{^aligned}}
  let shift = at % 4u * 8u;
  return (weights[at / 4u] >> shift) | ((weights[at / 4u + 1u] << (31u - shift)) << 1u);
{{/aligned}}
}

fn byte_at(at: u32) -> u32 {
  return (weights[at / 4u] >> (at % 4u * 8u)) & 255u;
}

// A half at an even place.
fn half_at(at: u32) -> f32 {
  return unpack2x16float(weights[at / 4u] >> (at % 4u * 8u)).x;
}

// The four bytes of a word.
fn bytes_of(word: u32) -> vec4<u32> {
  return (vec4<u32>(word) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u);
}

// The same as floats: as the last bits of 2^23 + byte, since conversions take longer than sums.
fn floats_of(word: u32) -> vec4<f32> {
  return bitcast<vec4<f32>>(bytes_of(word) | vec4<u32>(0x4b000000u)) - vec4<f32>(8388608.0);
}

fn signed_of(word: u32) -> vec4<f32> {
  return floats_of(word ^ 0x80808080u) - vec4<f32>(128.0);
}

// 32 elements as scale * q + least; q from 1 to 2, since bits become such floats without a conversion.
struct Scaled {
  scale: f32,
  least: f32,
  q: array<vec4<f32>, 8>,
}

// 1 + nibble / 16 of the low nibbles of four bytes.
fn nibbles_of(word: u32) -> vec4<f32> {
  let bits = vec4<u32>(word << 19u, word << 11u, word << 3u, word >> 5u);
  return bitcast<vec4<f32>>((bits & vec4<u32>(0x00780000u)) | vec4<u32>(0x3f800000u));
}
