// matmul_matrix.wgsl: y[z,m,n] = act(bias[n] + sum over k of a[z,m,k] * b[z,k,n]) by matrix units: halves are multiplied,
// sums are f32. Plain tensors, read in eights along their rows, singles rounded to halves on the way; batches z broadcast.
// A workgroup makes a tile of {{tile_m}} × {{tile_n}} results from {{depth}} steps of k at a time in workgroup memory,
// rows as they lie in memory and {{a_row}} and {{b_row}} vec4 of eight halves apart; the next are read while the last are
// multiplied. A subgroup makes {{sub_m}} × {{sub_n}} results. Sums go out through workgroup memory.
{{enable_matrices}}
{{>elementwise}}
{{head}}
{{>halves_of}}
// Eight halves from element i on, of which the row has `left`; zeros behind them.
fn read_a(i: u32, left: u32) -> vec4<u32> {
{{#a_halves}}
  return vec4<u32>(a[i / 4u + P.a_shift], a[i / 4u + 1u + P.a_shift]);
{{/a_halves}}{{#a_singles}}
  return halves_of(a[i / 4u + P.a_shift], a[i / 4u + 1u + P.a_shift]);
{{/a_singles}}{{#a_ragged}}
  var e: array<f32, 8>;
{{@j=8}}
  if ({{j}}u < left) {
    let at = i + {{j}}u + P.a_shift;
    e[{{j}}] = {{a_element}};
  }
{{/j}}
  return halves_of(vec4<f32>(e[0], e[1], e[2], e[3]), vec4<f32>(e[4], e[5], e[6], e[7]));
{{/a_ragged}}
}
fn read_b(i: u32, left: u32) -> vec4<u32> {
{{#b_halves}}
  return vec4<u32>(b[i / 4u + P.b_shift], b[i / 4u + 1u + P.b_shift]);
{{/b_halves}}{{#b_singles}}
  return halves_of(b[i / 4u + P.b_shift], b[i / 4u + 1u + P.b_shift]);
{{/b_singles}}{{#b_ragged}}
  var e: array<f32, 8>;
{{@j=8}}
  if ({{j}}u < left) {
    let at = i + {{j}}u + P.b_shift;
    e[{{j}}] = {{b_element}};
  }
{{/j}}
  return halves_of(vec4<f32>(e[0], e[1], e[2], e[3]), vec4<f32>(e[4], e[5], e[6], e[7]));
{{/b_ragged}}
}
fn epilogue(x: {{T}}{{extra_arguments}}) -> {{T}} {
{{epilogue}}}
// Where the matrices of batch z begin.
fn a_matrix(z: u32) -> u32 {
{{a_matrix}}}

fn b_matrix(z: u32) -> u32 {
{{b_matrix}}}

// Eight e of the tile of a from (m0, k0) on: along k, or of a transposed operand along m.
fn a_eight(matrix: u32, m0: u32, k0: u32, e: u32) -> vec4<u32> {
{{#transpose_a}}
  let m = m0 + e % ({{tile_m}}u / 8u) * 8u;
  let k = k0 + e / ({{tile_m}}u / 8u);
  let i = matrix + k * P.m + m;
{{/transpose_a}}{{^transpose_a}}
  let m = m0 + e / ({{depth}}u / 8u);
  let k = k0 + e % ({{depth}}u / 8u) * 8u;
  let i = matrix + m * P.k + k;
{{/transpose_a}}
  if (m >= P.m || k >= P.k) {
    return vec4<u32>(0u);
  }
  return read_a(i, {{#transpose_a}}P.m - m{{/transpose_a}}{{^transpose_a}}P.k - k{{/transpose_a}});
}

// The same of b: along n, or of a transposed operand along k.
fn b_eight(matrix: u32, k0: u32, n0: u32, e: u32) -> vec4<u32> {
{{#transpose_b}}
  let n = n0 + e / ({{depth}}u / 8u);
  let k = k0 + e % ({{depth}}u / 8u) * 8u;
  let i = matrix + n * P.k + k;
{{/transpose_b}}{{^transpose_b}}
  let n = n0 + e % ({{tile_n}}u / 8u) * 8u;
  let k = k0 + e / ({{tile_n}}u / 8u);
  let i = matrix + k * P.n + n;
{{/transpose_b}}
  if (k >= P.k || n >= P.n) {
    return vec4<u32>(0u);
  }
  return read_b(i, {{#transpose_b}}P.k - k{{/transpose_b}}{{^transpose_b}}P.n - n{{/transpose_b}});
}

{{main}}
  let group = group_index(wid, nwg);
  // The same for the whole group.
  if (group >= P.groups) {
    return;
  }
  let z = group / (P.m_tiles * P.n_tiles);
  // Eight rows of tiles go side by side through the columns, so that what they read stays in the cache.
  let in_batch = group % (P.m_tiles * P.n_tiles);
  let band = in_batch / (8u * P.n_tiles) * 8u;
  let in_band = min(8u, P.m_tiles - band);
  let m0 = (band + in_batch % (8u * P.n_tiles) % in_band) * {{tile_m}}u;
  let n0 = in_batch % (8u * P.n_tiles) / in_band * {{tile_n}}u;
  let row = subgroup / {{across}}u * {{sub_m}}u;
  let column = subgroup % {{across}}u * {{sub_n}}u;
  let a_first = a_matrix(z);
  let b_first = b_matrix(z);
{{@i=matrices_m}}{{@j=matrices_n}}
  var sum{{i}}_{{j}} = subgroup_matrix_result<f32, {{n}}, {{m}}>();
{{/j}}{{/i}}
{{@i=loads_a}}
  var next_a{{i}} = a_eight(a_first, m0, 0u, lane + {{i}}u * {{wg}}u);
{{/i}}{{@i=loads_b}}
  var next_b{{i}} = b_eight(b_first, 0u, n0, lane + {{i}}u * {{wg}}u);
{{/i}}
  for (var k0 = 0u; k0 < P.k; k0 += {{depth}}u) {
    workgroupBarrier();
{{@i=loads_a}}
    {
      let e = lane + {{i}}u * {{wg}}u;
      a_tile[e / {{a_eights}}u * {{a_row}}u + e % {{a_eights}}u] = next_a{{i}};
    }
{{/i}}{{@i=loads_b}}
    {
      let e = lane + {{i}}u * {{wg}}u;
      b_tile[e / {{b_eights}}u * {{b_row}}u + e % {{b_eights}}u] = next_b{{i}};
    }
{{/i}}
    workgroupBarrier();
    if (k0 + {{depth}}u < P.k) {
{{@i=loads_a}}
      next_a{{i}} = a_eight(a_first, m0, k0 + {{depth}}u, lane + {{i}}u * {{wg}}u);
{{/i}}{{@i=loads_b}}
      next_b{{i}} = b_eight(b_first, k0 + {{depth}}u, n0, lane + {{i}}u * {{wg}}u);
{{/i}}
    }
{{@s=steps}}
    {
{{@j=matrices_n}}
{{#transpose_b}}
      let b{{j}} = subgroupMatrixLoad<subgroup_matrix_right<f16, {{n}}, {{k}}>, col_major>(&b_tile, (column + {{j}}u * {{n}}u) * {{b_row}}u + {{s}}u * {{k}}u / 8u, {{b_row}}u);
{{/transpose_b}}{{^transpose_b}}
      let b{{j}} = subgroupMatrixLoad<subgroup_matrix_right<f16, {{n}}, {{k}}>, row_major>(&b_tile, {{s}}u * {{k}}u * {{b_row}}u + (column + {{j}}u * {{n}}u) / 8u, {{b_row}}u);
{{/transpose_b}}
{{/j}}
{{@i=matrices_m}}
{{#transpose_a}}
      let a{{i}} = subgroupMatrixLoad<subgroup_matrix_left<f16, {{k}}, {{m}}>, col_major>(&a_tile, {{s}}u * {{k}}u * {{a_row}}u + (row + {{i}}u * {{m}}u) / 8u, {{a_row}}u);
{{/transpose_a}}{{^transpose_a}}
      let a{{i}} = subgroupMatrixLoad<subgroup_matrix_left<f16, {{k}}, {{m}}>, row_major>(&a_tile, (row + {{i}}u * {{m}}u) * {{a_row}}u + {{s}}u * {{k}}u / 8u, {{a_row}}u);
{{/transpose_a}}
{{@j=matrices_n}}
      sum{{i}}_{{j}} = subgroupMatrixMultiplyAccumulate(a{{i}}, b{{j}}, sum{{i}}_{{j}});
{{/j}}{{/i}}
    }
{{/s}}
  }
  let quad = place % {{quads}}u;
{{@i=matrices_m}}{{@j=matrices_n}}
  workgroupBarrier();
  subgroupMatrixStore<row_major>(&sums, subgroup * {{m}}u * {{sum_row}}u, sum{{i}}_{{j}}, {{sum_row}});
  workgroupBarrier();
  for (var v = place / {{quads}}u; v < {{m}}u; v += {{lanes}}u / {{quads}}u) {
    let m = m0 + row + {{i}}u * {{m}}u + v;
    let n = n0 + column + {{j}}u * {{n}}u + quad * 4u;
    if (m < P.m && n < P.n) {
{{#wide}}
      let o = ((z * P.m + m) * P.n + n) / 4u;
      let sum = sums[(subgroup * {{m}}u + v) * {{sum_row}}u + quad]{{#bias}} + bias[P.bias_shift + n / 4u]{{/bias}};
      output[o + P.output_shift] = {{store}};
{{/wide}}{{^wide}}
      let quad_sums = sums[(subgroup * {{m}}u + v) * {{sum_row}}u + quad];
      for (var l = 0u; l < min(4u, P.n - n); l++) {
        let o = (z * P.m + m) * P.n + n + l;
        let sum = quad_sums[l]{{#bias}} + bias[P.bias_shift + n + l]{{/bias}};
        output[o + P.output_shift] = {{store}};
      }
{{/wide}}
    }
  }
{{/j}}{{/i}}
{{#checks_rounded}}
  if (is_beyond) {
    report(0u, 0u);
  }
{{/checks_rounded}}
}
