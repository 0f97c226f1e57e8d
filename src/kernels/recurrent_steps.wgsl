// recurrent_steps.wgsl: {{title}} over steps `begin` to `end` of time; gates [B,S,{{gates}}H], weight [H,{{gates}}H], output [B,S,{{kept}}H],
// before the first step start [B,{{kept}}H]. One workgroup for each sequence: its state lies in workgroup memory from step to
// step.
{{>elementwise}}
{{head}}
// Which step of time comes k-th.
fn step_of(k: u32) -> u32 {
  return {{#reverse}}P.steps - 1u - k{{/reverse}}{{^reverse}}k{{/reverse}};
}

{{main}}
  let group = group_index(wid, nwg);
  let mine = group < P.batch;
  let b = min(group, P.batch - 1u);
  let wide = {{gates}}u * P.hidden;
  let kept = {{kept}}u * P.hidden;
  for (var u = lane; u < kept; u += {{wg}}u) {
    if (P.begin == 0u) {
      state[u] = start[b * kept + u + P.start_shift];
    } else {
      state[u] = output[(b * P.steps + step_of(P.begin - 1u)) * kept + u + P.output_shift];
    }
  }
  workgroupBarrier();
  for (var k = P.begin; k < P.end; k++) {
    let row = b * P.steps + step_of(k);
    let here = row * wide + P.gates_shift;
    for (var j = lane; j < wide; j += {{wg}}u) {
{{#bias}}
      var sum = weight[P.hidden * wide + j + P.weight_shift];
{{/bias}}{{^bias}}
      var sum = 0.0;
{{/bias}}
      for (var i = 0u; i < P.hidden; i++) {
        sum += state[i] * weight[i * wide + j + P.weight_shift];
      }
      sums[j] = sum;
    }
    workgroupBarrier();
    for (var u = lane; u < P.hidden; u += {{wg}}u) {
      let s0 = sums[u];
      let s1 = sums[P.hidden + u];
      let s2 = sums[2u * P.hidden + u];
      let g0 = gates[here + u];
      let g1 = gates[here + P.hidden + u];
      let g2 = gates[here + 2u * P.hidden + u];
{{#lstm}}
      let g3 = gates[here + 3u * P.hidden + u];
      let c = act_sigmoid(g1 + s1) * state[P.hidden + u] + act_sigmoid(g0 + s0) * act_tanh(g2 + s2);
      let h = act_sigmoid(g3 + sums[3u * P.hidden + u]) * act_tanh(c);
      state[P.hidden + u] = c;
      if (mine) {
        output[row * kept + P.hidden + u + P.output_shift] = {{store_c}};
      }
{{/lstm}}{{^lstm}}
      let fresh = act_tanh(g2 + act_sigmoid(g0 + s0) * s2);
      let h = fresh + act_sigmoid(g1 + s1) * (state[u] - fresh);
{{/lstm}}
      state[u] = h;
      if (mine) {
        output[row * kept + u + P.output_shift] = {{store_h}};
      }
    }
    workgroupBarrier();
  }
}
