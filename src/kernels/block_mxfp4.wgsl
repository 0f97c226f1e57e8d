// block_mxfp4.wgsl: block of 32: exponent (byte), floats of 4 bits, doubled; 2^(e - 128) q.
// Floats of 4 bits, doubled: a sign, and 0 to 4, 6, 8 or 12.
fn looked_up(nibbles: u32) -> vec4<f32> {
  let q = bytes_of(nibbles);
  let size = q & vec4<u32>(7u);
  let many = vec4<f32>(select(select(size, size * 2u - 4u, size > vec4<u32>(4u)), vec4<u32>(12u), size == vec4<u32>(7u)));
  return select(many, -many, q > vec4<u32>(7u));
}

fn unpack(row: u32, unit: u32) -> array<vec4<f32>, 8> {
  let at = row + unit * 17u;
  let exponent = byte_at(at);
  // Below the smallest normal number the bits are those of a subnormal one.
  let scale = bitcast<f32>(select((exponent - 1u) << 23u, 0x00200000u << exponent, exponent < 2u));
  var w: array<vec4<f32>, 8>;
{{@i=4}}
  {
    let q = word_at(at + 1u + {{i}}u * 4u);
    w[{{i}}] = scale * looked_up(q & 0x0f0f0f0fu);
    w[{{i}} + 4] = scale * looked_up((q >> 4u) & 0x0f0f0f0fu);
  }
{{/i}}
  return w;
}
