// selective_scan.wgsl: h = exp(dt A) h + dt B x, y = Σ C h over the states; x, dt, y [B,S,H], A [H,N], B, C [B,S,N], states
// in units of {{T}}. One thread takes one channel over a part of time, `length` steps, a tile of states after another.
{{#sums}}
// Gives what each part comes to from a state of zeros, and the product of its factors, [B,parts,H,N].
{{/sums}}{{#carried}}
// Each part begins with `carry`, the state before it, [B,parts,H,N].
{{/carried}}
{{head}}
{{main}}
  let index = group_index(wid, nwg) * {{wg}}u + lane;
  if (index >= P.count) {
    return;
  }
  let channel = index % P.channels;
  let part = index / P.channels % P.parts;
  let batch = index / P.channels / P.parts;
  let begin = part * P.length;
  let end = min(begin + P.length, P.steps);
  for (var tile = 0u; tile < P.states; tile += {{tile}}u) {
    let own = channel * P.states + tile + P.rates_shift;
{{@q=tile}}
    let a{{q}} = rates[own + {{q}}u];
{{#carried}}
    var h{{q}} = carry[index * P.states + tile + {{q}}u + P.carry_shift];
{{/carried}}{{^carried}}
    var h{{q}} = {{T}}(0.0);
{{/carried}}
{{/q}}
{{#sums}}
    var time = 0.0;
{{/sums}}
    for (var t = begin; t < end; t++) {
      let step = batch * P.steps + t;
      let at = step * P.channels + channel;
      let row = step * P.states + tile;
      let d = dt[at + P.dt_shift];
      let u = d * x[at + P.x_shift];
{{@q=tile}}
      h{{q}} = exp(d * a{{q}}) * h{{q}} + u * b[row + {{q}}u + P.b_shift];
{{/q}}
{{#sums}}
      time += d;
{{/sums}}{{^sums}}
      var sum = 0.0;
{{#tiles}}
      if (tile > 0u) {
        sum = output[at + P.output_shift];
      }
{{/tiles}}
{{@q=tile}}
      sum += {{#wide}}dot(c[row + {{q}}u + P.c_shift], h{{q}}){{/wide}}{{^wide}}c[row + {{q}}u + P.c_shift] * h{{q}}{{/wide}};
{{/q}}
      output[at + P.output_shift] = {{store}};
{{/sums}}
    }
    let kept = index * P.states + tile;
{{#sums}}
{{@q=tile}}
    sums[kept + {{q}}u + P.sums_shift] = h{{q}};
    products[kept + {{q}}u + P.products_shift] = exp(time * a{{q}});
{{/q}}
{{/sums}}
{{#last}}
{{@q=tile}}
    last[kept + {{q}}u + P.last_shift] = h{{q}};
{{/q}}
{{/last}}
  }
}
