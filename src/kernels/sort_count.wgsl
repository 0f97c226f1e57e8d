// sort_count.wgsl: counts[row][digit][tile] = how many keys of a tile of {{tile}} have that digit, the bits from P.low_bit
// on; keys lie as [row][extent], and a row has P.row_tiles tiles, the last one shorter. One workgroup counts one tile.
{{head}}
{{>order_key}}

{{main}}
  let index = group_index(wid, nwg);
  let inside = index < P.tiles;
  let tile = P.first_tile + select(0u, index, inside);
  let row = tile / P.row_tiles;
  let in_row = tile % P.row_tiles;
  let begin = row * P.extent + in_row * {{tile}}u;
  let count = min({{tile}}u, P.extent - in_row * {{tile}}u);
  for (var d = lane; d < {{digits}}u; d += {{wg}}u) {
    atomicStore(&found[d], 0u);
  }
  workgroupBarrier();
  for (var i = lane; i < count; i += {{wg}}u) {
    let key = order_key(keys[begin + i + P.keys_shift], P.kind);
    atomicAdd(&found[(key >> P.low_bit) & P.last_digit], 1u);
  }
  workgroupBarrier();
  if (inside) {
    for (var d = lane; d < {{digits}}u; d += {{wg}}u) {
      counts[(row * {{digits}}u + d) * P.row_tiles + in_row + P.counts_shift] = atomicLoad(&found[d]);
    }
  }
}
