// mark_tokens.wgsl: seen[sequence, token] = 1 for every active row (token, first, position, sequence) of `rows`.
{{head}}
{{main}}
  let index = group_index(wid, nwg) * {{wg}}u + lane;
  if (index >= P.count) {
    return;
  }
  let row = index * 4u + P.rows_shift;
  let o = u32(rows[row + 3u]) * P.width + u32(rows[row]);
  if (rows[row + 2u] >= 0 && o >= P.first && o < P.end) {
    seen[o + P.seen_shift] = 1u;
  }
}
