// block_bf16.wgsl: 32 elements of a row of singles without their lower halves; those behind its end are 0.
fn unpack(row: u32, unit: u32) -> array<vec4<f32>, 8> {
  var w: array<vec4<f32>, 8>;
{{@i=8}}
  {
    let k = unit * 32u + {{i}}u * 4u;
    let at = row + k * 2u;
    let low = word_at(at);
    let high = word_at(at + 4u);
    let bits = vec4<u32>(low << 16u, low & 0xffff0000u, high << 16u, high & 0xffff0000u);
    w[{{i}}] = bitcast<vec4<f32>>(select(vec4<u32>(0u), bits, vec4<u32>(k) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(P.k)));
  }
{{/i}}
  return w;
}
