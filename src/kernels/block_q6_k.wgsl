// block_q6_k.wgsl: block of 256: nibbles, upper 2 bits, 16 scales (signed bytes), scale (half); d s (q - 32).
fn unpack(row: u32, unit: u32) -> array<vec4<f32>, 8> {
  let at = row + unit / 8u * 210u;
  let part = unit % 8u;
  let scale = half_at(at + 208u);
  var w: array<vec4<f32>, 8>;
{{@h=2}}
  {
    let packed = byte_at(at + 192u + part * 2u + {{h}}u);
    let s = scale * f32(bitcast<i32>(packed << 24u) >> 24u);
{{@i=4}}
    {
      let low = word_at(at + part / 4u * 64u + part % 2u * 32u + {{h}}u * 16u + {{i}}u * 4u) >> (part % 4u / 2u * 4u);
      let upper = word_at(at + 128u + part / 4u * 32u + {{h}}u * 16u + {{i}}u * 4u) >> (part % 4u * 2u);
      w[{{h}} * 4 + {{i}}] = s * (floats_of((low & 0x0f0f0f0fu) | ((upper & 0x03030303u) << 4u)) - 32.0);
    }
{{/i}}
  }
{{/h}}
  return w;
}
