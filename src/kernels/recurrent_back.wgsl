// recurrent_back.wgsl: gradients of the sums of {{title}} against its direction, output [B,S,5H], from slopes [B,S,{{slopes}}H],
// gradients [B,S,{{kept}}H] and weight [H,{{gates}}H]. One workgroup for each sequence: what the step behind gave lies in workgroup
// memory. {{parts}} lanes share a row of the weight, in units of {{U}}.
{{head}}
// Which step of time comes k-th on the way back.
fn step_of(k: u32) -> u32 {
  return {{#reverse}}k{{/reverse}}{{^reverse}}P.steps - 1u - k{{/reverse}};
}

// Unit j of what the step behind gave.
fn behind_unit(j: u32) -> {{U}} {
  return {{#quads}}{{U}}(behind[4u * j], behind[4u * j + 1u], behind[4u * j + 2u], behind[4u * j + 3u]){{/quads}}{{^quads}}behind[j]{{/quads}};
}

// What came to h through the weight.
fn through(u: u32) -> f32 {
  var sum = 0.0;
  for (var part = 0u; part < {{parts}}u; part++) {
    sum += of_h[u * {{parts}}u + part];
  }
  return sum;
}

{{main}}
  let group = group_index(wid, nwg);
  let mine = group < P.batch;
  let b = min(group, P.batch - 1u);
  let n = P.hidden;
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
    for (var item = lane; item < n * {{parts}}u; item += {{wg}}u) {
      let first = item / {{parts}}u * P.units + P.weight_shift;
      var j = item % {{parts}}u;
      var sum = {{U}}(0.0);
      // Four loads at a time are on their way.
      for (; j + 3u * {{parts}}u < P.units; j += 4u * {{parts}}u) {
        let w0 = weight[first + j];
        let w1 = weight[first + j + {{parts}}u];
        let w2 = weight[first + j + 2u * {{parts}}u];
        let w3 = weight[first + j + 3u * {{parts}}u];
        sum += w0 * behind_unit(j) + w1 * behind_unit(j + {{parts}}u) + w2 * behind_unit(j + 2u * {{parts}}u) +
               w3 * behind_unit(j + 3u * {{parts}}u);
      }
      for (; j < P.units; j += {{parts}}u) {
        sum += weight[first + j] * behind_unit(j);
      }
      of_h[item] = {{#quads}}dot(sum, {{U}}(1.0)){{/quads}}{{^quads}}sum{{/quads}};
    }
    workgroupBarrier();
    for (var u = lane; u < n; u += {{wg}}u) {
{{#lstm}}
      let dh = gradients[g + u] + through(u);
      let dc = gradients[g + n + u] + dh * slopes[s + 4u * n + u] + behind[4u * n + u];
      let all = array<f32, 5>(dc * slopes[s + u], dc * slopes[s + n + u], dc * slopes[s + 2u * n + u],
                              dh * slopes[s + 3u * n + u], dc * slopes[s + 5u * n + u]);
{{/lstm}}{{^lstm}}
      let dh = gradients[g + u] + through(u) + behind[4u * n + u];
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
