// conv_weights_finish.wgsl: weight[o, i, tap] = Σ over parts of sums[part, item, t, o % 4][i % 4], see conv_weights.
// A workgroup makes {{across}} elements that follow each other in a part, {{deep}} lanes each.
{{head}}
{{main}}
  let items = P.end_item - P.first_item;
  let column = lane % {{across}}u;
  let at = group_index(wid, nwg) * {{across}}u + column;
  let count = items * {{taps}}u * 16u;
  var sum = 0.0;
  for (var part = lane / {{across}}u; part < select(0u, P.parts, at < count); part += {{deep}}u) {
    sum += sums[part * count + at];
  }
  stage[lane] = sum;
  workgroupBarrier();
  let item = P.first_item + at / ({{taps}}u * 16u);
  let t = at / 16u % {{taps}}u;
  let i = item % P.in_quads * 4u + at % 4u;
  let o = item / P.in_quads % P.out_quads * 4u + at / 4u % 4u;
  let e = ((o * P.channels + i) * P.slow_taps + item / (P.in_quads * P.out_quads)) * {{taps}}u + t;
  let ours = at < count && i < P.channels && o < P.results && e >= P.first && e < P.first + P.count;
  if (lane >= {{across}}u || !ours) {
    return;
  }
  var total = 0.0;
  for (var k = 0u; k < {{deep}}u; k++) {
    total += stage[column + k * {{across}}u];
  }
  output[e + P.output_shift] = total;
}
