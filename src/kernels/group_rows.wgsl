// group_rows.wgsl: output = where the rows of each expert begin, [groups + 1], then the rows by expert, [M]. One workgroup for
// each expert: its lanes count the rows of those before, then write its own in their order.
{{head}}
// The sum of what all lanes have, and in `before` that of the lanes in front.
fn total(lane: u32, value: u32) -> u32 {
  workgroupBarrier();
  stage[lane] = value;
  workgroupBarrier();
  for (var by = 1u; by < {{wg}}u; by *= 2u) {
    var sum = stage[lane];
    if (lane >= by) {
      sum += stage[lane - by];
    }
    workgroupBarrier();
    stage[lane] = sum;
    workgroupBarrier();
  }
  return stage[{{wg}}u - 1u];
}

{{main}}
  let group = group_index(wid, nwg);
  let mine = group < P.experts;
  var count = 0u;
  for (var m = lane; m < P.rows; m += {{wg}}u) {
    let e = u32(expert[m + P.expert_shift]);
    if (e >= P.experts && group == 0u) {
      report(e, P.experts);
    }
    count += u32(e < group);
  }
  var at = total(lane, count);
  if (mine && lane == 0u) {
    output[group + P.output_shift] = i32(at);
    if (group + 1u == P.experts) {
      output[P.experts + P.output_shift] = i32(P.rows);
    }
  }
  for (var base = 0u; base < P.rows; base += {{wg}}u) {
    let m = base + lane;
    var own = 0u;
    if (m < P.rows) {
      own = u32(u32(expert[m + P.expert_shift]) == group);
    }
    let all = total(lane, own);
    if (mine && own == 1u) {
      output[P.experts + at + stage[lane] + P.output_shift] = i32(m);
    }
    at += all;
  }
}
