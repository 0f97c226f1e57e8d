// half_rows.wgsl: rows of x [rows, k] as halves, each times the power of two that makes its largest number less than 2^15:
// halves hold what the rows hold, however large or small. result: a row of {{eights}} vec4 of eight halves, zeros behind k,
// and one more vec4 that begins with what sums over the row are to be multiplied by. A workgroup makes a row.
{{head}}
// Quad u of a row: zeros behind its end.
fn quad(row: u32, u: u32) -> vec4<f32> {
{{#quads}}
  let found = x[row * (P.k / 4u) + min(u, P.k / 4u - 1u) + P.x_shift];
  return select(vec4<f32>(0.0), found, u * 4u < P.k);
{{/quads}}{{^quads}}
  let at = row * P.k + P.x_shift;
  let i = min(vec4<u32>(u * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(P.k - 1u));
  return select(vec4<f32>(0.0), vec4<f32>(x[at + i.x], x[at + i.y], x[at + i.z], x[at + i.w]),
                vec4<u32>(u * 4u) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(P.k));
{{/quads}}
}

{{main}}
  let group = group_index(wid, nwg);
  // The same for the whole group.
  if (group >= P.groups) {
    return;
  }
  let row = P.first_row + group;
  // Bits of magnitudes are in their order.
  var most = vec4<u32>(0u);
  for (var u = lane; u < {{eights}}u * 2u; u += {{wg}}u) {
    most = max(most, bitcast<vec4<u32>>(quad(row, u)) & vec4<u32>(0x7fffffffu));
  }
  largest[lane] = max(max(most.x, most.y), max(most.z, most.w));
  workgroupBarrier();
  for (var half = {{wg}}u / 2u; half > 0u; half /= 2u) {
    if (lane < half) {
      largest[lane] = max(largest[lane], largest[lane + half]);
    }
    workgroupBarrier();
  }
  let exponent = i32(largest[0] >> 23u) - 127;
  let shift = clamp(14 - exponent, -113, 113);
  let scale = bitcast<f32>(u32(127 + shift) << 23u);
  let at = row * ({{eights}}u + 1u) + P.result_shift;
  for (var e = lane; e < {{eights}}u; e += {{wg}}u) {
    let a = quad(row, e * 2u) * scale;
    let b = quad(row, e * 2u + 1u) * scale;
    result[at + e] = vec4<u32>(pack2x16float(a.xy), pack2x16float(a.zw), pack2x16float(b.xy), pack2x16float(b.zw));
  }
  if (lane == 0u) {
    result[at + {{eights}}u] = vec4<u32>(u32(127 - shift) << 23u, 0u, 0u, 0u);
  }
}
