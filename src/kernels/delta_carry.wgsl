// delta_carry.wgsl: M before each part of time, carry [B,H,parts,V,K], and behind the last, [B,H,V,K]: M = M T + D with the
// sums of the parts, [B,H,parts,K+V,K]: K rows of T, then V of D. A workgroup takes one row of M, a lane some columns.
{{head}}
{{main}}
  let group = group_index(wid, nwg);
  let head = min(group / P.values, P.heads_total - 1u);
  let row = group % P.values;
  let mine = group / P.values < P.heads_total;
  for (var j = lane; j < P.keys; j += {{wg}}u) {
{{#start}}
    m[j] = start[(head * P.values + row) * P.keys + j + P.start_shift];
{{/start}}{{^start}}
    m[j] = 0.0;
{{/start}}
  }
  workgroupBarrier();
  for (var part = 0u; part < P.parts; part++) {
    let block = head * P.parts + part;
    let sums_at = block * (P.keys + P.values) * P.keys + P.sums_shift;
    for (var j = lane; j < P.keys; j += {{wg}}u) {
      if (mine) {
        carry[(block * P.values + row) * P.keys + j + P.carry_shift] = m[j];
      }
      var sum = sums[sums_at + (P.keys + row) * P.keys + j];
      // Four loads at a time are on their way.
      var i = 0u;
      for (; i + 3u < P.keys; i += 4u) {
        let at = sums_at + i * P.keys + j;
        let s0 = sums[at];
        let s1 = sums[at + P.keys];
        let s2 = sums[at + 2u * P.keys];
        let s3 = sums[at + 3u * P.keys];
        sum += m[i] * s0 + m[i + 1u] * s1 + m[i + 2u] * s2 + m[i + 3u] * s3;
      }
      for (; i < P.keys; i++) {
        sum += m[i] * sums[sums_at + i * P.keys + j];
      }
      next[j] = sum;
    }
    workgroupBarrier();
    for (var j = lane; j < P.keys; j += {{wg}}u) {
      m[j] = next[j];
    }
    workgroupBarrier();
  }
{{#last}}
  for (var j = lane; j < P.keys; j += {{wg}}u) {
    if (mine) {
      last[(head * P.values + row) * P.keys + j + P.last_shift] = m[j];
    }
  }
{{/last}}
}
