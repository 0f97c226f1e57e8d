// block_q2_k.wgsl: block of 256: 16 scales and minima (nibbles), 2 bits an element, scale, least (halves); d s q - m l.
fn unpack(row: u32, unit: u32) -> array<vec4<f32>, 8> {
  let at = row + unit / 8u * 84u;
  let part = unit % 8u;
  let scale = half_at(at + 80u);
  let least = half_at(at + 82u);
  var w: array<vec4<f32>, 8>;
{{@h=2}}
  {
    let packed = byte_at(at + part * 2u + {{h}}u);
    let s = scale * f32(packed & 15u);
    let m = least * f32(packed >> 4u);
{{@i=4}}
    w[{{h}} * 4 + {{i}}] = s * floats_of((word_at(at + 16u + part / 4u * 32u + {{h}}u * 16u + {{i}}u * 4u) >> (part % 4u * 2u)) & 0x03030303u) - m;
{{/i}}
  }
{{/h}}
  return w;
}
