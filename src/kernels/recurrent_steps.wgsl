// recurrent_steps.wgsl: {{title}} over steps `begin` to `end` of time; gates [B,S,{{gates}}H], weight [H,{{gates}}H], output [B,S,{{kept}}H],
// before the first step start [B,{{kept}}H]. One workgroup for each sequence: its state lies in workgroup memory from step to
// step. Each row of gates is summed in {{parts}} parts, columns of the weight in units of {{U}}.
{{>elementwise}}
{{head}}
// Which step of time comes k-th.
fn step_of(k: u32) -> u32 {
  return {{#reverse}}P.steps - 1u - k{{/reverse}}{{^reverse}}k{{/reverse}};
}

// What row j of the gates comes to.
fn summed(j: u32) -> f32 {
  var sum = 0.0;
  for (var part = 0u; part < {{parts}}u; part++) {
    sum += sums[part * P.units + {{#quads}}j / 4u][j % 4u]{{/quads}}{{^quads}}j]{{/quads}};
  }
  return sum;
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
    for (var item = lane; item < P.units * {{parts}}u; item += {{wg}}u) {
      let unit = item % P.units + P.weight_shift;
      let by = {{parts}}u * P.units;
      var i = item / P.units;
      var sum = {{U}}(0.0);
{{#bias}}
      if (i == 0u) {
        sum = weight[P.hidden * P.units + unit];
      }
{{/bias}}
      // Four loads at a time are on their way.
      for (; i + 3u * {{parts}}u < P.hidden; i += 4u * {{parts}}u) {
        let at = i * P.units + unit;
        let w0 = weight[at];
        let w1 = weight[at + by];
        let w2 = weight[at + 2u * by];
        let w3 = weight[at + 3u * by];
        sum += state[i] * w0 + state[i + {{parts}}u] * w1 + state[i + 2u * {{parts}}u] * w2 + state[i + 3u * {{parts}}u] * w3;
      }
      for (; i < P.hidden; i += {{parts}}u) {
        sum += state[i] * weight[i * P.units + unit];
      }
      sums[item] = sum;
    }
    workgroupBarrier();
    for (var u = lane; u < P.hidden; u += {{wg}}u) {
      let s0 = summed(u);
      let s1 = summed(P.hidden + u);
      let s2 = summed(2u * P.hidden + u);
      let g0 = gates[here + u];
      let g1 = gates[here + P.hidden + u];
      let g2 = gates[here + 2u * P.hidden + u];
{{#lstm}}
      let g3 = gates[here + 3u * P.hidden + u];
      let c = act_sigmoid(g1 + s1) * state[P.hidden + u] + act_sigmoid(g0 + s0) * act_tanh(g2 + s2);
      let h = act_sigmoid(g3 + summed(3u * P.hidden + u)) * act_tanh(c);
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
