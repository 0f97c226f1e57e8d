// block_f16.wgsl: 32 elements of a row of halves; those behind its end are 0.
fn unpack(row: u32, unit: u32) -> array<vec4<f32>, 8> {
  var w: array<vec4<f32>, 8>;
{{@i=8}}
  {
    let k = unit * 32u + {{i}}u * 4u;
    let at = row + k * 2u;
    w[{{i}}] = select(vec4<f32>(0.0), vec4<f32>(unpack2x16float(word_at(at)), unpack2x16float(word_at(at + 4u))),
                      vec4<u32>(k) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(P.k));
  }
{{/i}}
  return w;
}
