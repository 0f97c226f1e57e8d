// grouped_matmul.wgsl: y[m] = x[m] weight[e of m]; x [M,K], weight [E,K,N]{{#transpose}} read as [E,N,K]{{/transpose}}, groups as group_rows gives
// them. A workgroup of {{side}} × {{side}} lanes makes a tile of {{tile}} rows of one expert and as many columns, each lane 4 × 4 of
// them, from tiles of {{depth}} steps of k in workgroup memory.
{{head}}
{{main}}
  let group = group_index(wid, nwg);
  let n0 = group % P.column_tiles * {{tile}}u;
  if (lane == 0u) {
    // The expert whose rows these are, and the first and the end of them; none of the last groups.
    found[0] = P.experts;
    var left = group / P.column_tiles;
    for (var e = 0u; e < P.experts; e++) {
      let begin = u32(groups[e + P.groups_shift]);
      let end = u32(groups[e + 1u + P.groups_shift]);
      let tiles = (end - begin + {{tile}}u - 1u) / {{tile}}u;
      if (left < tiles) {
        found[0] = e;
        found[1] = begin + left * {{tile}}u;
        found[2] = min(found[1] + {{tile}}u, end);
        break;
      }
      left -= tiles;
    }
  }
  let expert = workgroupUniformLoad(&found[0]);
  if (expert >= P.experts) {
    return;
  }
  let begin = found[1];
  let end = found[2];
  let row = lane / {{side}}u;
  let column = lane % {{side}}u;
  let matrix = expert * P.depth * P.width + P.weight_shift;
{{@i=4}}
  var sum{{i}} = vec4<f32>(0.0);
{{/i}}
  for (var k0 = 0u; k0 < P.depth; k0 += {{depth}}u) {
    workgroupBarrier();
    for (var i = lane; i < {{tile}}u * {{depth}}u; i += {{wg}}u) {
      let m = begin + i / {{depth}}u;
      let k = k0 + i % {{depth}}u;
      var number = 0.0;
      if (m < end && k < P.depth) {
        number = x[u32(groups[P.experts + 1u + m + P.groups_shift]) * P.depth + k + P.x_shift];
      }
      x_tile[i % {{depth}}u * {{tile}}u + i / {{depth}}u] = number;
    }
    for (var i = lane; i < {{tile}}u * {{depth}}u; i += {{wg}}u) {
{{#transpose}}
      let n = n0 + i / {{depth}}u;
      let k = k0 + i % {{depth}}u;
      let at = i % {{depth}}u * {{tile}}u + i / {{depth}}u;
{{/transpose}}{{^transpose}}
      let n = n0 + i % {{tile}}u;
      let k = k0 + i / {{tile}}u;
      let at = i;
{{/transpose}}
      var number = 0.0;
      if (n < P.width && k < P.depth) {
        number = weight[matrix + {{#transpose}}n * P.depth + k{{/transpose}}{{^transpose}}k * P.width + n{{/transpose}}];
      }
      w_tile[at] = number;
    }
    workgroupBarrier();
    for (var k = 0u; k < {{depth}}u; k++) {
      let here = k * {{tile}}u;
      let w = vec4<f32>(w_tile[here + column], w_tile[here + column + {{side}}u], w_tile[here + column + 2u * {{side}}u],
                        w_tile[here + column + 3u * {{side}}u]);
{{@i=4}}
      sum{{i}} += x_tile[here + row + {{i}}u * {{side}}u] * w;
{{/i}}
    }
  }
{{@i=4}}
  let m{{i}} = begin + row + {{i}}u * {{side}}u;
  if (m{{i}} < end) {
    let first = u32(groups[P.experts + 1u + m{{i}} + P.groups_shift]) * P.width;
{{@j=4}}
    if (n0 + column + {{j}}u * {{side}}u < P.width) {
      let number = sum{{i}}[{{j}}];
      output[first + n0 + column + {{j}}u * {{side}}u + P.output_shift] = {{store}};
    }
{{/j}}
  }
{{/i}}
}
