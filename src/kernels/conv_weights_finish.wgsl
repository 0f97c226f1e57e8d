// conv_weights_finish.wgsl: weight[o, i, tap] = Σ over chunks of sums[chunk, item, t, o % 4][i % 4], see conv_weights.
// One lane makes one element; those of other items stay as they are.
{{head}}
{{main}}
  let local = group_index(wid, nwg) * {{wg}}u + lane;
  if (local >= P.count) {
    return;
  }
  let e = P.first + local;
  let t = e % {{taps}}u;
  let slow = e / {{taps}}u % P.slow_taps;
  let i = e / ({{taps}}u * P.slow_taps) % P.channels;
  let o = e / ({{taps}}u * P.slow_taps * P.channels);
  let item = (slow * P.out_quads + o / 4u) * P.in_quads + i / 4u;
  if (item < P.first_item || item >= P.end_item) {
    return;
  }
  let items = P.end_item - P.first_item;
  var sum = 0.0;
  for (var chunk = 0u; chunk < P.chunks; chunk++) {
    sum += sums[(((chunk * items + item - P.first_item) * {{taps}}u + t) * 4u + o % 4u) * 4u + i % 4u];
  }
  output[e + P.output_shift] = sum;
}
