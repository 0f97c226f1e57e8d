// sort_scatter.wgsl: every key of a tile goes where its digit, the bits from P.low_bit on, says: places[row][digit][tile]
// is where the first such key of the tile goes, the others follow in their order. One workgroup moves one tile of
// {{tile}} keys; lanes work in teams of {{team}}, each team on a range of its own. In rounds every lane of a team shows
// its digit in a mask of lanes for that digit: the lanes before it there are the equal digits before it. The keys of a
// tile are brought into order in workgroup memory first, so that neighbours write neighbours. What falls outside the
// bound window of the result is left to other dispatches. stage: the counts so far of each
// team and digit, later the tile itself; masks: two turns of them. Both are 0 at first, as workgroup memory is.
{{head}}
{{>order_key}}

fn digit_of(key: u32) -> u32 {
  return (key >> P.low_bit) & P.last_digit;
}

{{main}}
  let index = group_index(wid, nwg);
  let inside = index < P.tiles;
  let tile = P.first_tile + select(0u, index, inside);
  let row = tile / P.row_tiles;
  let in_row = tile % P.row_tiles;
  let begin = row * P.extent + in_row * {{tile}}u;
  let count = select(0u, min({{tile}}u, P.extent - in_row * {{tile}}u), inside);
  let team = lane / {{team}}u;
  let member = lane % {{team}}u;
  let own = team * {{team}}u * {{items}}u + member;
  let first_digit = lane * {{own}}u;
  let counts_digits = first_digit < {{digits}}u;
  var goals: array<u32, {{own}}>;  // where keys of the lane's digits go
  for (var d = 0u; d < {{own}}u && counts_digits; d++) {
    goals[d] = places[(row * {{digits}}u + first_digit + d) * P.row_tiles + in_row + P.places_shift];
  }

  var held: array<u32, {{items}}>;
  var at: array<u32, {{items}}>;
  for (var k = 0u; k < {{items}}u; k++) {
    let i = own + k * {{team}}u;
    let here = i < count;
    var key = 0u;
    if (here) {
      key = order_key(keys[begin + i + P.keys_shift], P.kind);
    }
    held[k] = key;
    let slot = team * {{digits}}u + digit_of(key);
    let mask = (k & 1u) * {{slots}}u + slot;
    if (here) {
      atomicOr(&masks[mask], 1u << member);
    }
    workgroupBarrier();
    let equal = atomicLoad(&masks[mask]);
    let before = stage[slot];
    let lower = countOneBits(equal & ((1u << member) - 1u));
    at[k] = before + lower;
    workgroupBarrier();
    if (here && lower == 0u) {
      stage[slot] = before + countOneBits(equal);
      atomicStore(&masks[mask], 0u);
    }
  }
  workgroupBarrier();

  // Counts of teams become what the teams before have, and digits are counted from the first on.
  var sums: array<u32, {{own}}>;
  var sum = 0u;
  for (var d = 0u; d < {{own}}u && counts_digits; d++) {
    sums[d] = sum;
    for (var t = 0u; t < {{teams}}u; t++) {
      let slot = t * {{digits}}u + first_digit + d;
      let found = stage[slot];
      stage[slot] = sum - sums[d];
      sum += found;
    }
  }
  if (counts_digits) {
    starts[lane] = sum;
  }
  workgroupBarrier();
  var half = 0u;
  for (var apart = 1u; apart < {{counters}}u; apart *= 2u) {
    if (counts_digits) {
      var both = starts[half + lane];
      if (lane >= apart) {
        both += starts[half + lane - apart];
      }
      starts[{{counters}}u - half + lane] = both;
    }
    half = {{counters}}u - half;
    workgroupBarrier();
  }
  var before_all = 0u;
  if (counts_digits) {
    before_all = starts[half + lane] - sum;
  }
  workgroupBarrier();
  // starts: of each digit the first place in the tile, then the way from a place in the tile to that in the result.
  for (var d = 0u; d < {{own}}u && counts_digits; d++) {
    starts[first_digit + d] = before_all + sums[d];
    starts[{{digits}}u + first_digit + d] = goals[d] - (before_all + sums[d]);
  }
  workgroupBarrier();
  for (var k = 0u; k < {{items}}u; k++) {
    let d = digit_of(held[k]);
    at[k] += starts[d] + stage[team * {{digits}}u + d];
  }
  workgroupBarrier();

  for (var k = 0u; k < {{items}}u; k++) {
    if (own + k * {{team}}u < count) {
      stage[at[k]] = held[k];
    }
  }
  workgroupBarrier();
  for (var k = 0u; k < {{items}}u; k++) {
    let i = lane + k * {{wg}}u;
    if (i < count) {
      let key = stage[i];
      let to = starts[{{digits}}u + digit_of(key)] + i;
      held[k] = to;
{{#moves_keys}}
      if (to - P.sorted_begin < P.sorted_count) {
        sorted[to + P.sorted_shift] = bits_of_key(key, P.kind_out);
      }
{{/moves_keys}}
    }
  }
{{#moves_positions}}
  workgroupBarrier();
  for (var k = 0u; k < {{items}}u; k++) {
    let i = own + k * {{team}}u;
    if (i < count) {
      stage[at[k]] = {{#first}}in_row * {{tile}}u + i{{/first}}{{^first}}positions[begin + i + P.positions_shift]{{/first}};
    }
  }
  workgroupBarrier();
  for (var k = 0u; k < {{items}}u; k++) {
    let i = lane + k * {{wg}}u;
    let to = held[k];
    if (i < count && to - P.order_begin < P.order_count) {
      order[to + P.order_shift] = stage[i];
    }
  }
{{/moves_positions}}
}
