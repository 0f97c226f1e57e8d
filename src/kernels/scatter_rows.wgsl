// scatter_rows.wgsl: result[row][i] = combine(result[row][i], updates[m][i]) for every m with rows[m] == row, in the order
// of m; plain tensors of 4-byte elements. One thread makes one element and looks at all rows, so that the result does
// not depend on which thread comes first. A dispatch sees a part of the updates: those before are in the result already.
{{head}}
{{main}}
  let index = group_index(wid, nwg) * {{wg}}u + lane;
  if (index >= P.result_count) {
    return;
  }
  let o = P.result_begin + index;
  let row = i32(o / P.inner);
  let column = o % P.inner;
  var value = result[o + P.result_shift];
  for (var m = P.row_begin; m < P.row_end; m++) {
    let at = m * P.inner + column;
    if (rows[m + P.rows_shift] == row && at - P.updates_begin < P.updates_count) {
      let update = updates[at + P.updates_shift];
      value = {{combine}};
    }
  }
  result[o + P.result_shift] = value;
}
