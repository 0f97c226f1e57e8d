// block_matrices.wgsl: y[r, n] = act(bias[n] + sum over k of x[r, k] * w[n, k]) for many rows r by matrix units: both are
// rounded to halves, sums are f32. w in raw blocks of a GGUF file ({{format}}), row by row; x as half_rows.wgsl leaves it.
// A workgroup makes a tile of {{tile_m}} × {{tile_n}} results from 32 steps of k at a time in workgroup memory, where a row
// has four vec4 of eight halves and one more, so that neighbouring rows meet other banks. What comes next is read and
// unpacked while the last is multiplied. A subgroup makes {{sub_m}} × {{sub_n}} results, which go out through workgroup memory.
{{enable_matrices}}
{{>elementwise}}
{{head}}
{{>block_words}}
{{unpack}}
{{>halves_of}}
fn epilogue(x: f32{{extra_arguments}}) -> f32 {
{{epilogue}}}

// Eight e of a part of the tile of x.
fn x_eight(r0: u32, unit: u32, e: u32) -> vec4<u32> {
  return x[min(r0 + e / 4u, P.last_r) * P.x_row + unit * 4u + e % 4u + P.x_shift];
}

// A row of a part of the tile of w.
fn w_row(n: u32, unit: u32) -> array<vec4<u32>, 4> {
  let w = unpack((min(n, P.last_n) - P.first_n) * P.row_bytes + P.w_begin, unit);
  var halves: array<vec4<u32>, 4>;
{{@q=4}}
  halves[{{q}}] = halves_of(w[{{q}}u * 2u], w[{{q}}u * 2u + 1u]);
{{/q}}
  return halves;
}

{{main}}
  let group = group_index(wid, nwg);
  // The same for the whole group.
  if (group >= P.groups) {
    return;
  }
  // Groups that follow one another read the same rows of w.
  let r0 = P.first_r + group % P.r_groups * {{tile_m}}u;
  let n0 = P.first_n + group / P.r_groups * {{tile_n}}u;
  let row = subgroup / {{across}}u * {{sub_m}}u;
  let column = subgroup % {{across}}u * {{sub_n}}u;
{{@i=matrices_m}}{{@j=matrices_n}}
  var sum{{i}}_{{j}} = subgroup_matrix_result<f32, {{n}}, {{m}}>();
{{/j}}{{/i}}
{{@i=loads_x}}
  var next_x{{i}} = x_eight(r0, 0u, lane + {{i}}u * {{wg}}u);
{{/i}}{{@i=loads_w}}
  var next_w{{i}} = w_row(n0 + lane + {{i}}u * {{wg}}u, 0u);
{{/i}}
  for (var unit = 0u; unit < P.units; unit++) {
    workgroupBarrier();
{{@i=loads_x}}
    {
      let e = lane + {{i}}u * {{wg}}u;
      if (e < {{tile_m}}u * 4u) {
        x_tile[e / 4u * 5u + e % 4u] = next_x{{i}};
      }
    }
{{/i}}{{@i=loads_w}}
    {
      let e = lane + {{i}}u * {{wg}}u;
      if (e < {{tile_n}}u) {
{{@q=4}}
        w_tile[e * 5u + {{q}}u] = next_w{{i}}[{{q}}];
{{/q}}
      }
    }
{{/i}}
    workgroupBarrier();
    if (unit + 1u < P.units) {
{{@i=loads_x}}
      next_x{{i}} = x_eight(r0, unit + 1u, lane + {{i}}u * {{wg}}u);
{{/i}}{{@i=loads_w}}
      next_w{{i}} = w_row(n0 + lane + {{i}}u * {{wg}}u, unit + 1u);
{{/i}}
    }
    for (var step = 0u; step < 32u / {{k}}u; step++) {
{{@j=matrices_n}}
      let b{{j}} = subgroupMatrixLoad<subgroup_matrix_right<f16, {{n}}, {{k}}>, col_major>(&w_tile, (column + {{j}}u * {{n}}u) * 5u + step * {{k}}u / 8u, 5u);
{{/j}}{{@i=matrices_m}}
      let a{{i}} = subgroupMatrixLoad<subgroup_matrix_left<f16, {{k}}, {{m}}>, row_major>(&x_tile, (row + {{i}}u * {{m}}u) * 5u + step * {{k}}u / 8u, 5u);
{{@j=matrices_n}}
      sum{{i}}_{{j}} = subgroupMatrixMultiplyAccumulate(a{{i}}, b{{j}}, sum{{i}}_{{j}});
{{/j}}{{/i}}
    }
  }
{{@i=matrices_m}}{{@j=matrices_n}}
  workgroupBarrier();
  subgroupMatrixStore<row_major>(&sums, subgroup * {{m}}u * {{sum_row}}u, sum{{i}}_{{j}}, {{sum_row}});
  workgroupBarrier();
  for (var e = place; e < {{m}}u * {{n}}u / 4u; e += {{lanes}}u) {
    let r = r0 + row + {{i}}u * {{m}}u + e / ({{n}}u / 4u);
    let raw = sums[(subgroup * {{m}}u + e / ({{n}}u / 4u)) * {{sum_row}}u + e % ({{n}}u / 4u)];
    let first = n0 + column + {{j}}u * {{n}}u + e % ({{n}}u / 4u) * 4u;
    let factor = bitcast<f32>(x[min(r, P.last_r) * P.x_row + P.x_row - 1u + P.x_shift].x);
    for (var l = 0u; l < 4u; l++) {
      let n = first + l;
      if (n <= P.last_n && r <= P.last_r) {
        let o = r * P.n + P.column + n;
        let sum = raw[l] * factor{{#bias}} + bias[P.bias_shift + P.column + n]{{/bias}};
        output[o + P.output_shift] = {{store}};
      }
    }
  }
{{/j}}{{/i}}
  if (is_beyond) {
    report(0u, 0u);
  }
}
