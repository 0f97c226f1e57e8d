// attention_finish.wgsl: what cached_attention added up over several windows of the cache, divided by its sum: sums [head of
// row][values, largest score, sum]; one thread makes one value.
{{head}}
{{main}}
  let index = group_index(wid, nwg) * {{wg}}u + lane;
  if (index >= P.count) {
    return;
  }
  let first = index / P.depth * (P.depth + 2u) + P.sums_shift;
  let sum = sums[first + P.depth + 1u];
  let value = select(sums[first + index % P.depth] / sum, 0.0, sum == 0.0);
  result[index + P.result_shift] = {{store}};
}
