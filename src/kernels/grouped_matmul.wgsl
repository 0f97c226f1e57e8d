// grouped_matmul.wgsl: y[m] = x[m] weight[e of m]; x [M,K], weight [E,K,N]{{#transpose}} read as [E,N,K]{{/transpose}}, groups as group_rows gives
// them. A workgroup of {{side}} × {{side}} lanes makes a tile of {{tile}} rows of one expert and as many columns, each lane 4 × 4 of
// them, from tiles of {{depth}} steps of k in workgroup memory.
{{head}}
// Four numbers of a row of x from column k on, zeros beyond its end.
fn x_quad(m: u32, k: u32) -> vec4<f32> {
  var quad = vec4<f32>(0.0);
{{#quads}}
  if (k < P.depth) {
    quad = x[(m * P.depth + k) / 4u + P.x_shift];
  }
{{/quads}}{{^quads}}
  for (var e = 0u; e < 4u; e++) {
    if (k + e < P.depth) {
      quad[e] = x[m * P.depth + k + e + P.x_shift];
    }
  }
{{/quads}}
  return quad;
}

// The same of a matrix of so many rows and columns.
fn w_quad(matrix: u32, row: u32, column: u32, rows: u32, columns: u32) -> vec4<f32> {
  var quad = vec4<f32>(0.0);
  if (row >= rows) {
    return quad;
  }
{{#quads}}
  if (column < columns) {
    quad = weight[(matrix + row * columns + column) / 4u + P.weight_shift];
  }
{{/quads}}{{^quads}}
  for (var e = 0u; e < 4u; e++) {
    if (column + e < columns) {
      quad[e] = weight[matrix + row * columns + column + e + P.weight_shift];
    }
  }
{{/quads}}
  return quad;
}

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
  if (lane < {{tile}}u) {
    own_rows[lane] = u32(groups[P.experts + 1u + min(begin + lane, end - 1u) + P.groups_shift]);
  }
  let row = lane / {{side}}u;
  let column = lane % {{side}}u;
  let matrix = expert * P.depth * P.width;
{{@i=4}}
  var sum{{i}} = vec4<f32>(0.0);
{{/i}}
  for (var k0 = 0u; k0 < P.depth; k0 += {{depth}}u) {
    workgroupBarrier();
    // Quads along k of x, and along n of the weight (along k of one that is transposed).
    for (var i = lane; i < {{tile}}u * {{depth}}u / 4u; i += {{wg}}u) {
      let m = i / ({{depth}}u / 4u);
      let k = i % ({{depth}}u / 4u) * 4u;
      let quad = x_quad(own_rows[m], k0 + k);
{{@e=4}}
      x_tile[(k + {{e}}u) * {{tile}}u + m] = quad[{{e}}];
{{/e}}
    }
    for (var i = lane; i < {{tile}}u * {{depth}}u / 4u; i += {{wg}}u) {
{{#transpose}}
      let n = i / ({{depth}}u / 4u);
      let k = i % ({{depth}}u / 4u) * 4u;
      let quad = w_quad(matrix, n0 + n, k0 + k, P.width, P.depth);
{{@e=4}}
      w_tile[(k + {{e}}u) * {{tile}}u + n] = quad[{{e}}];
{{/e}}
{{/transpose}}{{^transpose}}
      let k = i / ({{tile}}u / 4u);
      let n = i % ({{tile}}u / 4u) * 4u;
      let quad = w_quad(matrix, k0 + k, n0 + n, P.depth, P.width);
{{@e=4}}
      w_tile[k * {{tile}}u + n + {{e}}u] = quad[{{e}}];
{{/e}}
{{/transpose}}
    }
    workgroupBarrier();
    for (var k = 0u; k < {{depth}}u; k++) {
      let left = k * {{tile}}u + row * 4u;
      let right = k * {{tile}}u + column * 4u;
      let w = vec4<f32>(w_tile[right], w_tile[right + 1u], w_tile[right + 2u], w_tile[right + 3u]);
{{@i=4}}
      sum{{i}} += x_tile[left + {{i}}u] * w;
{{/i}}
    }
  }
  let n = n0 + column * 4u;
{{@i=4}}
  if (begin + row * 4u + {{i}}u < end) {
    let first = own_rows[row * 4u + {{i}}u] * P.width + n;
{{#quads}}
    if (n < P.width) {
      let number = sum{{i}};
      output[first / 4u + P.output_shift] = {{store}};
    }
{{/quads}}{{^quads}}
{{@j=4}}
    if (n + {{j}}u < P.width) {
      let number = sum{{i}}[{{j}}];
      output[first + {{j}}u + P.output_shift] = {{store}};
    }
{{/j}}
{{/quads}}
  }
{{/i}}
}
