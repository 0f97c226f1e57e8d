// arrange.wgsl: the weights [O][C][kd][kh][kw] and biases [O] of a convolution in the order in which its kernel reads
// them, rows of four output channels (ops/arrange.h lists the orders). One thread makes one row; channels that do not
// exist are zero.
{{head}}
// The row of weights of input channel c at a tap, for four output channels from `output` on.
fn weights_at(output: u32, c: u32, kd: u32, kh: u32, kw: u32) -> vec4<f32> {
  var row = vec4<f32>(0.0);
  for (var l = 0u; l < 4u; l++) {
    if (output + l < P.outputs && c < P.inputs) {
      let tap = (kd * P.taps_h + kh) * P.taps_w + kw;
      let taps = P.planes * P.taps_h * P.taps_w;
      let i = P.weight_shift + ((output + l) * P.inputs + c) * taps + tap;
      row[l] = {{weight_element}};
    }
  }
  return row;
}

fn biases_at(output: u32) -> vec4<f32> {
  var row = vec4<f32>({{#argmax}}-3.4028234663852886e38{{/argmax}}{{^argmax}}0.0{{/argmax}});
  for (var l = 0u; l < 4u; l++) {
    if (output + l < P.outputs) {
      row[l] = {{bias_element}};
    }
  }
  return row;
}

{{main}}
  let row = group_index(wid, nwg) * {{wg}}u + lane;
  if (row >= P.all_rows) {
    return;
  }
{{#matrix}}
  if (row >= P.weight_rows) {
    rows[P.rows_shift + row] = bitcast<vec4<u32>>(biases_at((P.begin + row - P.weight_rows) * 4u));
    return;
  }
  let eights = P.depth / 8u;
  let outputs = P.held * 4u;
  let at = row / eights / outputs;
  let output = P.begin * 4u + at % P.groups_of_quads * outputs + row / eights % outputs;
  let c = at / P.groups_of_quads % (P.lanes / P.depth) * P.depth + row % eights * 8u;
  let tap = at / P.groups_of_quads / (P.lanes / P.depth);
  var eight = array<f32, 8>();
  for (var i = 0u; i < 8u; i++) {
    eight[i] = weights_at(output, c + i, tap / P.taps_w / P.taps_h, tap / P.taps_w % P.taps_h, tap % P.taps_w).x;
  }
  rows[P.rows_shift + row] =
      vec4<u32>(pack2x16float(vec2<f32>(eight[0], eight[1])), pack2x16float(vec2<f32>(eight[2], eight[3])),
                pack2x16float(vec2<f32>(eight[4], eight[5])), pack2x16float(vec2<f32>(eight[6], eight[7])));
{{/matrix}}{{^matrix}}
  if (row >= P.weight_rows) {
    rows[P.rows_shift + row] = biases_at((P.begin + row - P.weight_rows) * 4u);
    return;
  }
{{#direct}}
  let tap = row / P.quads / P.lanes;
  let output = (P.begin + row % P.quads) * 4u;
  rows[P.rows_shift + row] = weights_at(output, row / P.quads % P.lanes, tap / P.taps_w / P.taps_h,
                                        tap / P.taps_w % P.taps_h, tap % P.taps_w);
{{/direct}}
{{#argmax}}
  rows[P.rows_shift + row] = weights_at(row / P.lanes * 4u, row % P.lanes, 0u, 0u, 0u);
{{/argmax}}
{{#winograd}}
  let at = row / P.held / 4u / P.points;
  let point = row / P.held / 4u % P.points + 6u - P.points;
  let output = (P.begin + at % P.groups_of_quads * P.held + row % P.held) * 4u;
  let quad = at / P.groups_of_quads % (P.lanes / 4u);
  let tap = at / P.groups_of_quads / (P.lanes / 4u);
  let c = quad * 4u + row / P.held % 4u;
  let w0 = weights_at(output, c, tap / P.taps_w, 0u, tap % P.taps_w);
  let w1 = weights_at(output, c, tap / P.taps_w, 1u, tap % P.taps_w);
  let w2 = weights_at(output, c, tap / P.taps_w, 2u, tap % P.taps_w);
  // G of F(4,3).
  var y = w2;
  if (point == 0u) {
    y = w0 / 4.0;
  } else if (point == 1u) {
    y = (w0 + w1 + w2) / -6.0;
  } else if (point == 2u) {
    y = (w0 - w1 + w2) / -6.0;
  } else if (point == 3u) {
    y = w0 / 24.0 + w1 / 12.0 + w2 / 6.0;
  } else if (point == 4u) {
    y = w0 / 24.0 - w1 / 12.0 + w2 / 6.0;
  }
  rows[P.rows_shift + row] = y;
{{/winograd}}{{/matrix}}
}
