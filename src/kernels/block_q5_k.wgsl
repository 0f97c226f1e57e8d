// block_q5_k.wgsl: block of 256: as Q4_K, with fifth bits between scales and nibbles.
fn unpack(row: u32, unit: u32) -> array<vec4<f32>, 8> {
  let at = row + unit / 8u * 176u;
  let part = unit % 8u;
  let scales = unpack2x16float(weights[at / 4u]);
  // 6 bits each in 12 bytes.
  let a = word_at(at + 4u);
  let b = word_at(at + 8u);
  let c = word_at(at + 12u);
  let shift = part % 4u * 8u;
  let low = vec2<u32>(a >> shift, b >> shift) & vec2<u32>(63u);
  let upper = (vec2<u32>(a >> (shift + 6u), b >> (shift + 6u)) & vec2<u32>(3u)) << vec2<u32>(4u);
  let high = (vec2<u32>(c >> shift, c >> (shift + 4u)) & vec2<u32>(15u)) | upper;
  let s = scales * vec2<f32>(select(high, low, part < 4u));
  var w: array<vec4<f32>, 8>;
{{@i=8}}
  w[{{i}}] = s.x * floats_of(((word_at(at + 48u + part / 2u * 32u + {{i}}u * 4u) >> (part % 2u * 4u)) & 0x0f0f0f0fu) | (((word_at(at + 16u + {{i}}u * 4u) >> part) & 0x01010101u) << 4u)) - s.y;
{{/i}}
  return w;
}
