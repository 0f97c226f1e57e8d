// block_q3_k.wgsl: block of 256: third bits, 2 bits an element, 16 scales of 6 bits, scale (half); d (s - 32) (q - 4).
fn unpack(row: u32, unit: u32) -> array<vec4<f32>, 8> {
  let at = row + unit / 8u * 110u;
  let part = unit % 8u;
  let scale = half_at(at + 108u);
  var w: array<vec4<f32>, 8>;
{{@h=2}}
  {
    let group = part * 2u + {{h}}u;
    let lower = (byte_at(at + 96u + group % 8u) >> (group / 8u * 4u)) & 15u;
    let upper = (byte_at(at + 104u + group % 4u) >> (group / 4u * 2u)) & 3u;
    let s = scale * (f32(lower | (upper << 4u)) - 32.0);
{{@i=4}}
    {
      let q = (word_at(at + 32u + part / 4u * 32u + {{h}}u * 16u + {{i}}u * 4u) >> (part % 4u * 2u)) & 0x03030303u;
      let third = (word_at(at + {{h}}u * 16u + {{i}}u * 4u) >> part) & 0x01010101u;
      w[{{h}} * 4 + {{i}}] = s * (floats_of(q | (third << 2u)) - 4.0);
    }
{{/i}}
  }
{{/h}}
  return w;
}
