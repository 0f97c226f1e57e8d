// grouped_weights.wgsl: out[e] = Σ over the rows of expert e of xᵀ y; x [M,K], y [M,N], groups as group_rows gives them,
// output [E,K,N]. A workgroup of {{side}} × {{side}} lanes makes a tile of {{tile}} × {{tile}} of one expert, each lane 4 × 4 of them, from
// {{depth}} rows at a time in workgroup memory, in their order.
{{head}}
{{main}}
  let group = group_index(wid, nwg);
  let n0 = group % P.column_tiles * {{tile}}u;
  let first_k = group / P.column_tiles % P.row_tiles * {{tile}}u;
  let e = group / P.column_tiles / P.row_tiles;
  let expert = min(e, P.experts - 1u);
  if (lane == 0u) {
    found[0] = u32(groups[expert + P.groups_shift]);
    found[1] = u32(groups[expert + 1u + P.groups_shift]);
  }
  let begin = workgroupUniformLoad(&found[0]);
  let end = workgroupUniformLoad(&found[1]);
  let row = lane / {{side}}u;
  let column = lane % {{side}}u;
{{@i=4}}
  var sum{{i}} = vec4<f32>(0.0);
{{/i}}
  for (var m0 = begin; m0 < end; m0 += {{depth}}u) {
    workgroupBarrier();
    for (var i = lane; i < {{tile}}u * {{depth}}u; i += {{wg}}u) {
      let m = m0 + i / {{tile}}u;
      let k = first_k + i % {{tile}}u;
      let n = n0 + i % {{tile}}u;
      var left = 0.0;
      var right = 0.0;
      if (m < end) {
        let own = u32(groups[P.experts + 1u + m + P.groups_shift]);
        if (k < P.depth) {
          left = x[own * P.depth + k + P.x_shift];
        }
        if (n < P.width) {
          right = y[own * P.width + n + P.y_shift];
        }
      }
      x_tile[i] = left;
      w_tile[i] = right;
    }
    workgroupBarrier();
    for (var m = 0u; m < {{depth}}u; m++) {
      let here = m * {{tile}}u;
      let w = vec4<f32>(w_tile[here + column], w_tile[here + column + {{side}}u], w_tile[here + column + 2u * {{side}}u],
                        w_tile[here + column + 3u * {{side}}u]);
{{@i=4}}
      sum{{i}} += x_tile[here + row + {{i}}u * {{side}}u] * w;
{{/i}}
    }
  }
{{@i=4}}
  let k{{i}} = first_k + row + {{i}}u * {{side}}u;
  if (e < P.experts && k{{i}} < P.depth) {
{{@j=4}}
    if (n0 + column + {{j}}u * {{side}}u < P.width) {
      let number = sum{{i}}[{{j}}];
      output[(e * P.depth + k{{i}}) * P.width + n0 + column + {{j}}u * {{side}}u + P.output_shift] = {{store}};
    }
{{/j}}
  }
{{/i}}
}
