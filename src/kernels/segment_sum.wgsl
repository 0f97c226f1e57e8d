// segment_sum.wgsl: result[i][c] = sum of x[rows[j]][c] over ends[i - 1] <= j < ends[i], in this order. x [m][columns]. One
// thread makes one element. A dispatch sees some rows of x; sums of earlier ones are in the result already.
{{head}}
{{main}}
  let index = group_index(wid, nwg) * {{wg}}u + lane;
  if (index >= P.result_count) {
    return;
  }
  let o = P.result_begin + index;
  let i = o / P.columns;
  let c = o % P.columns;
  var j = 0u;
  if (i > 0u) {
    j = u32(max(ends[i - 1u + P.ends_shift], 0));
  }
  let end = min(u32(max(ends[i + P.ends_shift], 0)), P.row_count);
  var sum = {{#first}}0.0{{/first}}{{^first}}result[o + P.result_shift]{{/first}};
  for (; j < end; j++) {
    let at = u32(rows[j + P.rows_shift]) * P.columns + c;
    if (at - P.x_begin < P.x_count) {
      sum += x[at + P.x_shift];
    }
  }
  result[o + P.result_shift] = {{store}};
}
