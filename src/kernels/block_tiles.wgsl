// block_tiles.wgsl: y[r, n] = act(bias[n] + sum over k of x[r, k] * w[n, k]) for many rows r; w in raw blocks of a GGUF
// file ({{format}}), row by row. A workgroup of {{threads}} × {{threads}} lanes makes a tile of {{tile}} × {{tile}} results, each lane 4 × 4 of
// them, from {{tile}} rows of x and of w in workgroup memory, 32 steps of k at a time: [k/4][row] of vec4.
{{>elementwise}}
{{head}}
{{>block_words}}
{{unpack}}
fn epilogue(x: f32{{extra_arguments}}) -> f32 {
{{epilogue}}}

// Quad q of row r of x; 0 behind its end.
fn x_quad(r: u32, q: u32) -> vec4<f32> {
{{#quads}}
  let found = x[min(r * (P.k / 4u) + q, P.x_last) + P.x_shift];
  return {{#ragged}}select(vec4<f32>(0.0), found, q * 4u < P.k){{/ragged}}{{^ragged}}found{{/ragged}};
{{/quads}}{{^quads}}
  let k = q * 4u;
  let at = r * P.k + k + P.x_shift;
  return select(vec4<f32>(0.0), vec4<f32>(x[at], x[at + 1u], x[at + 2u], x[at + 3u]),
                vec4<u32>(k) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(P.k));
{{/quads}}
}

{{main}}
  let group = group_index(wid, nwg);
  let n0 = P.first_n + group % P.row_groups * {{tile}}u;
  let r0 = P.first_r + group / P.row_groups * {{tile}}u;
  let tx = lane % {{threads}}u;
  let ty = lane / {{threads}}u;
{{@i=4}}
  var y{{i}} = vec4<f32>(0.0);
{{/i}}
  for (var unit = 0u; unit < P.units; unit++) {
    workgroupBarrier();
    for (var e = lane; e < {{tile}}u * 8u; e += {{wg}}u) {
      x_tile[e] = x_quad(min(r0 + e % {{tile}}u, P.last_r), unit * 8u + e / {{tile}}u);
    }
    for (var e = lane; e < {{tile}}u; e += {{wg}}u) {
      let w = unpack((min(n0 + e, P.last_n) - P.first_n) * P.row_bytes + P.w_begin, unit);
{{@q=8}}
      w_tile[{{q}}u * {{tile}}u + e] = w[{{q}}];
{{/q}}
    }
    workgroupBarrier();
    for (var q = 0u; q < 8u; q++) {
{{@i=4}}
      let x{{i}} = x_tile[q * {{tile}}u + ty + {{i}}u * {{threads}}u];
      let w{{i}} = w_tile[q * {{tile}}u + tx + {{i}}u * {{threads}}u];
{{/i}}
      let weights0 = vec4<f32>(w0.x, w1.x, w2.x, w3.x);
      let weights1 = vec4<f32>(w0.y, w1.y, w2.y, w3.y);
      let weights2 = vec4<f32>(w0.z, w1.z, w2.z, w3.z);
      let weights3 = vec4<f32>(w0.w, w1.w, w2.w, w3.w);
{{@i=4}}
      y{{i}} = fma(vec4<f32>(x{{i}}.x), weights0, y{{i}});
      y{{i}} = fma(vec4<f32>(x{{i}}.y), weights1, y{{i}});
      y{{i}} = fma(vec4<f32>(x{{i}}.z), weights2, y{{i}});
      y{{i}} = fma(vec4<f32>(x{{i}}.w), weights3, y{{i}});
{{/i}}
    }
  }
  if (group >= P.groups) {
    return;
  }
{{@i=4}}
  for (var j = 0u; j < 4u; j++) {
    let n = n0 + tx + j * {{threads}}u;
    let r = r0 + ty + {{i}}u * {{threads}}u;
    if (n <= P.last_n && r <= P.last_r) {
      let o = r * P.n + P.column + n;
      let sum = y{{i}}[j]{{#bias}} + bias[P.bias_shift + P.column + n]{{/bias}};
      output[o + P.output_shift] = {{store}};
    }
  }
{{/i}}
}
