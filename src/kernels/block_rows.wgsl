// block_rows.wgsl: y[i] = scale * row indices[i] of w, in raw blocks of a GGUF file ({{format}}); one thread makes 32
// elements. Rows outside the bound window are left as they are.
{{head}}
{{>block_words}}
{{unpack}}

{{main}}
  let index = group_index(wid, nwg) * {{wg}}u + lane;
  if (index >= P.count * P.units) {
    return;
  }
  let i = P.first + index / P.units;
  let unit = index % P.units;
  let chosen = max(indices[i * P.stride + P.column + P.indices_shift], bitcast<i32>(P.least));
  if (chosen < 0 || chosen >= i32(P.rows)) {
    report(bitcast<u32>(chosen), P.rows);
    return;
  }
  let n = u32(chosen);
  if (n < P.first_n || n > P.last_n) {
    return;
  }
  let w = unpack((n - P.first_n) * P.row_bytes + P.w_begin, unit);
  let scale = bitcast<f32>(P.scale);
{{@q=8}}
  for (var l = 0u; l < 4u; l++) {
    let k = unit * 32u + {{q}}u * 4u + l;
    if (k < P.k) {
      output[i * P.k + k + P.output_shift] = scale * w[{{q}}][l];
    }
  }
{{/q}}
}
