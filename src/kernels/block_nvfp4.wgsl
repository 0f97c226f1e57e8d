// block_nvfp4.wgsl: block of 64: 4 scales (4 bits of exponent, 3 of mantissa), floats of 4 bits, doubled.
// Floats of 4 bits, doubled: a sign, and 0 to 4, 6, 8 or 12.
fn looked_up(nibbles: u32) -> vec4<f32> {
  let q = bytes_of(nibbles);
  let size = q & vec4<u32>(7u);
  let many = vec4<f32>(select(select(size, size * 2u - 4u, size > vec4<u32>(4u)), vec4<u32>(12u), size == vec4<u32>(7u)));
  return select(many, -many, q > vec4<u32>(7u));
}

fn scale_of(bits: u32) -> f32 {
  let mantissa = f32(bits & 7u);
  let normal = bitcast<f32>((((bits >> 3u) & 15u) + 120u) << 23u) * (1.0 + mantissa / 8.0);
  return 0.5 * select(select(normal, mantissa / 512.0, (bits & 0x78u) == 0u), 0.0, bits == 0x7fu);
}

fn unpack(row: u32, unit: u32) -> array<vec4<f32>, 8> {
  let at = row + unit / 2u * 36u;
  var w: array<vec4<f32>, 8>;
{{@h=2}}
  {
    let group = unit % 2u * 2u + {{h}}u;
    let scale = scale_of(byte_at(at + group));
{{@i=2}}
    {
      let q = word_at(at + 4u + group * 8u + {{i}}u * 4u);
      w[{{h}} * 4 + {{i}}] = scale * looked_up(q & 0x0f0f0f0fu);
      w[{{h}} * 4 + {{i}} + 2] = scale * looked_up((q >> 4u) & 0x0f0f0f0fu);
    }
{{/i}}
  }
{{/h}}
  return w;
}
