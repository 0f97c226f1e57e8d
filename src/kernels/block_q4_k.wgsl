// block_q4_k.wgsl: block of 256: scale, least (halves), 8 scales and minima of 6 bits, nibbles; d s q - m l.
// d s and m l of a part of 32 elements.
fn part_scales(at: u32, part: u32) -> vec2<f32> {
  let scales = unpack2x16float(weights[at / 4u]);
  // 6 bits each in 12 bytes.
  let a = word_at(at + 4u);
  let b = word_at(at + 8u);
  let c = word_at(at + 12u);
  let shift = part % 4u * 8u;
  let low = vec2<u32>(a >> shift, b >> shift) & vec2<u32>(63u);
  let upper = (vec2<u32>(a >> (shift + 6u), b >> (shift + 6u)) & vec2<u32>(3u)) << vec2<u32>(4u);
  let high = (vec2<u32>(c >> shift, c >> (shift + 4u)) & vec2<u32>(15u)) | upper;
  return scales * vec2<f32>(select(high, low, part < 4u));
}

fn scaled(row: u32, unit: u32) -> Scaled {
  let at = row + unit / 8u * 144u;
  let part = unit % 8u;
  let s = part_scales(at, part);
  var w: Scaled;
  w.scale = s.x * 16.0;
  w.least = s.x * -16.0 - s.y;
{{@i=8}}
  w.q[{{i}}] = nibbles_of(word_at(at + 16u + part / 2u * 32u + {{i}}u * 4u) >> (part % 2u * 4u));
{{/i}}
  return w;
}

fn unpack(row: u32, unit: u32) -> array<vec4<f32>, 8> {
  let at = row + unit / 8u * 144u;
  let part = unit % 8u;
  let s = part_scales(at, part);
  var w: array<vec4<f32>, 8>;
{{@i=8}}
  w[{{i}}] = s.x * floats_of(((word_at(at + 16u + part / 2u * 32u + {{i}}u * 4u) >> (part % 2u * 4u)) & 0x0f0f0f0fu)) - s.y;
{{/i}}
  return w;
}
