// block_q8_0.wgsl: block of 32: scale (half), signed bytes; scale q.
fn scaled(row: u32, unit: u32) -> Scaled {
  let at = row + unit * 34u;
  let scale = half_at(at);
  var w: Scaled;
  w.scale = scale * 256.0;
  w.least = scale * -384.0;
{{@i=8}}
  {
    // 1 + (q + 128) / 256
    let word = word_at(at + 2u + {{i}}u * 4u) ^ 0x80808080u;
    let bits = vec4<u32>(word << 15u, word << 7u, word >> 1u, word >> 9u);
    w.q[{{i}}] = bitcast<vec4<f32>>((bits & vec4<u32>(0x007f8000u)) | vec4<u32>(0x3f800000u));
  }
{{/i}}
  return w;
}

fn unpack(row: u32, unit: u32) -> array<vec4<f32>, 8> {
  let at = row + unit * 34u;
  let scale = half_at(at);
  var w: array<vec4<f32>, 8>;
{{@i=8}}
  w[{{i}}] = scale * signed_of(word_at(at + 2u + {{i}}u * 4u));
{{/i}}
  return w;
}
