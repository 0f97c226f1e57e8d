// sort_scatter.wgsl: every key of a tile goes where its digit, the bits from P.low_bit on, says: places[row][digit][tile]
// is where the first such key of the tile goes, the others follow in their order. One workgroup moves one tile of
// {{tile}} keys; lanes work in teams of {{team}}, each team on a range of its own. In rounds every lane of a team shows
// its digit in a mask of lanes for that digit: the lanes before it there are the equal digits before it. The keys of a
// tile are brought into order in workgroup memory first, so that neighbours write neighbours. What falls outside the
// bound window of the result is left to other dispatches. stage: two masks of turns, then the counts so far, of each
// team and digit; later the tile itself.
{{head}}
{{>order_key}}

fn digit_of(key: u32) -> u32 {
  return (key >> P.low_bit) & P.last_digit;
}

fn load_key(i: u32) -> u32 {
  let bits = keys[i + P.keys_shift];
  return {{#first}}order_key(bits){{/first}}{{^first}}bits{{/first}};
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
  for (var i = lane; i < {{slots}}u * 3u; i += {{wg}}u) {
    atomicStore(&stage[i], 0u);
  }
  workgroupBarrier();

  var held: array<u32, {{items}}>;
  var at: array<u32, {{items}}>;
  for (var k = 0u; k < {{items}}u; k++) {
    let i = own + k * {{team}}u;
    let here = i < count;
    var key = 0u;
    if (here) {
      key = load_key(begin + i);
    }
    held[k] = key;
    let slot = team * {{digits}}u + digit_of(key);
    let mask = (k & 1u) * {{slots}}u + slot;
    if (here) {
      atomicOr(&stage[mask], 1u << member);
    }
    workgroupBarrier();
    let equal = atomicLoad(&stage[mask]);
    let before = atomicLoad(&stage[2u * {{slots}}u + slot]);
    let lower = countOneBits(equal & ((1u << member) - 1u));
    at[k] = before + lower;
    workgroupBarrier();
    if (here && lower == 0u) {
      atomicStore(&stage[2u * {{slots}}u + slot], before + countOneBits(equal));
      atomicStore(&stage[mask], 0u);
    }
  }
  workgroupBarrier();

  // Counts of teams become what the teams before have, and digits are counted from the first on.
  for (var d = lane; d < {{digits}}u; d += {{wg}}u) {
    var sum = 0u;
    for (var t = 0u; t < {{teams}}u; t++) {
      let slot = 2u * {{slots}}u + t * {{digits}}u + d;
      let found = atomicLoad(&stage[slot]);
      atomicStore(&stage[slot], sum);
      sum += found;
    }
    starts[d] = sum;
  }
  workgroupBarrier();
  var half = 0u;
  for (var apart = 1u; apart < {{digits}}u; apart *= 2u) {
    for (var d = lane; d < {{digits}}u; d += {{wg}}u) {
      var sum = starts[half + d];
      if (d >= apart) {
        sum += starts[half + d - apart];
      }
      starts[{{digits}}u - half + d] = sum;
    }
    half = {{digits}}u - half;
    workgroupBarrier();
  }
  let away = {{digits}}u - half;  // where starts hold the way from a place in the tile to that in the result
  for (var d = lane; d < {{digits}}u; d += {{wg}}u) {
    let start = select(0u, starts[half + max(d, 1u) - 1u], d > 0u);
    starts[away + d] = places[(row * {{digits}}u + d) * P.row_tiles + in_row + P.places_shift] - start;
  }
  for (var k = 0u; k < {{items}}u; k++) {
    let d = digit_of(held[k]);
    let start = select(0u, starts[half + max(d, 1u) - 1u], d > 0u);
    at[k] += start + atomicLoad(&stage[2u * {{slots}}u + team * {{digits}}u + d]);
  }
  workgroupBarrier();

  for (var k = 0u; k < {{items}}u; k++) {
    if (own + k * {{team}}u < count) {
      atomicStore(&stage[at[k]], held[k]);
    }
  }
  workgroupBarrier();
  for (var k = 0u; k < {{items}}u; k++) {
    let i = lane + k * {{wg}}u;
    if (i < count) {
      let key = atomicLoad(&stage[i]);
      let to = starts[away + digit_of(key)] + i;
      held[k] = to;
{{#moves_keys}}
      if (to - P.sorted_begin < P.sorted_count) {
        sorted[to + P.sorted_shift] = {{#last}}bits_of_key(key){{/last}}{{^last}}key{{/last}};
      }
{{/moves_keys}}
    }
  }
{{#moves_positions}}
  workgroupBarrier();
  for (var k = 0u; k < {{items}}u; k++) {
    let i = own + k * {{team}}u;
    if (i < count) {
      atomicStore(&stage[at[k]], {{#first}}in_row * {{tile}}u + i{{/first}}{{^first}}positions[begin + i + P.positions_shift]{{/first}});
    }
  }
  workgroupBarrier();
  for (var k = 0u; k < {{items}}u; k++) {
    let i = lane + k * {{wg}}u;
    let to = held[k];
    if (i < count && to - P.order_begin < P.order_count) {
      order[to + P.order_shift] = atomicLoad(&stage[i]);
    }
  }
{{/moves_positions}}
}
