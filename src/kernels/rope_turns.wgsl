// rope_turns.wgsl: of every row i of `rows` (token, first, position, …) the cosines and sines of position * speeds, in
// pairs, times a scale; then first and position. One thread makes one element.
{{>elementwise}}
{{head}}
{{main}}
  let index = group_index(wid, nwg) * {{wg}}u + lane;
  let width = P.half * 2u + 2u;
  if (index >= P.count * width) {
    return;
  }
  let row = index / width * P.stride;
  let c = index % width;
  let position = rows[row + 2u + P.rows_shift];
  if (c >= P.half * 2u) {
    turns[index + P.turns_shift] = f32(select(position, rows[row + 1u + P.rows_shift], c == P.half * 2u));
    return;
  }
{{#turning}}
  let angle = f32(max(position, 0)) * speeds[c / 2u + P.speeds_shift];
  turns[index + P.turns_shift] = bitcast<f32>(P.scale) * select(act_sin(angle), act_cos(angle), c % 2u == 0u);
{{/turning}}
}
