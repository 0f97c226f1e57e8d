// recurrent_back.wgsl: gradients of the sums of {{title}} against its direction, output [B,S,5H], from slopes [B,S,{{slopes}}H],
// gradients [B,S,{{kept}}H] and weight [H,{{gates}}H]. One workgroup for each sequence: what the step behind gave lies in workgroup
// memory.
{{head}}
// Which step of time comes k-th on the way back.
fn step_of(k: u32) -> u32 {
  return {{#reverse}}k{{/reverse}}{{^reverse}}P.steps - 1u - k{{/reverse}};
}

{{main}}
  let group = group_index(wid, nwg);
  let mine = group < P.batch;
  let b = min(group, P.batch - 1u);
  let n = P.hidden;
  let wide = {{gates}}u * n;
  for (var u = lane; u < 5u * n; u += {{wg}}u) {
    var number = 0.0;
    if (P.begin > 0u) {
      number = output[(b * P.steps + step_of(P.begin - 1u)) * 5u * n + u + P.output_shift];
    }
    behind[u] = number;
  }
  workgroupBarrier();
  for (var k = P.begin; k < P.end; k++) {
    let row = b * P.steps + step_of(k);
    let s = row * {{slopes}}u * n + P.slopes_shift;
    let g = row * {{kept}}u * n + P.gradients_shift;
    for (var u = lane; u < n; u += {{wg}}u) {
      var sum = gradients[g + u];
      for (var j = 0u; j < wide; j++) {
        sum += weight[u * wide + j + P.weight_shift] * behind[j];
      }
      of_h[u] = sum;
    }
    workgroupBarrier();
    for (var u = lane; u < n; u += {{wg}}u) {
{{#lstm}}
      let dh = of_h[u];
      let dc = gradients[g + n + u] + dh * slopes[s + 4u * n + u] + behind[4u * n + u];
      let all = array<f32, 5>(dc * slopes[s + u], dc * slopes[s + n + u], dc * slopes[s + 2u * n + u],
                              dh * slopes[s + 3u * n + u], dc * slopes[s + 5u * n + u]);
{{/lstm}}{{^lstm}}
      let dh = of_h[u] + behind[4u * n + u];
      let fresh = dh * slopes[s + 2u * n + u];
      let all = array<f32, 5>(fresh * slopes[s + u], dh * slopes[s + n + u], fresh * slopes[s + 3u * n + u], fresh,
                              dh * slopes[s + 4u * n + u]);
{{/lstm}}
{{@q=5}}
      behind[{{q}}u * n + u] = all[{{q}}];
      if (mine) {
        output[(row * 5u + {{q}}u) * n + u + P.output_shift] = {{store}}all[{{q}}]{{store_end}};
      }
{{/q}}
    }
    workgroupBarrier();
  }
}
