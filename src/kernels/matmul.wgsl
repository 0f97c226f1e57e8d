// matmul.wgsl: y[z,m,n] = act(bias[n] + sum over k of a[z,m,k] * b[z,k,n]); plain tensors, batches z broadcast.
// A workgroup of {{threads}} × {{threads}} lanes makes a tile of {{tile}} × {{tile}} results, each lane {{rows}} × {{rows}} of them, from tiles of
// {{depth}} steps of k in workgroup memory, quads along m and along n. Elements outside the bound windows count as zero;
// where this is not the first dispatch it goes on from the sum so far, where it is not the last it leaves the sum.
{{>elementwise}}
{{head}}
const kQuads = {{tile}}u / 4u;  // of a tile's side
{{#last}}
fn epilogue(x: f32) -> f32 {
{{epilogue}}}
{{/last}}
// Where the matrices of batch z begin.
fn a_matrix(z: u32) -> u32 {
{{a_matrix}}}

fn b_matrix(z: u32) -> u32 {
{{b_matrix}}}

fn a_at(matrix: u32, m: u32, k: u32) -> f32 {
  let i = matrix + {{#transpose_a}}k * P.m + m{{/transpose_a}}{{^transpose_a}}m * P.k + k{{/transpose_a}};
  if (m >= P.m || k >= P.k || i - P.a_begin >= P.a_count) {
    return 0.0;
  }
  return {{a_element}};
}

fn b_at(matrix: u32, k: u32, n: u32) -> f32 {
  let i = matrix + {{#transpose_b}}n * P.k + k{{/transpose_b}}{{^transpose_b}}k * P.n + n{{/transpose_b}};
  if (n >= P.n || k >= P.k || i - P.b_begin >= P.b_count) {
    return 0.0;
  }
  return {{b_element}};
}

// Four results of a row from column n on.
fn store(ours: bool, z: u32, m: u32, n: u32, sums: vec4<f32>) {
  for (var l = 0u; l < 4u; l++) {
    let o = (z * P.m + m) * P.n + n + l;
    if (ours && m < P.m && n + l < P.n && o - P.out_begin < P.out_count) {
{{#first}}
      let sum = sums[l]{{#bias}} + bias[P.bias_shift + n + l]{{/bias}};
{{/first}}{{^first}}
      let sum = sums[l] + output[o + P.output_shift];
{{/first}}
      output[o + P.output_shift] = {{#last}}{{store}}{{/last}}{{^last}}sum{{/last}};
    }
  }
}

{{main}}
  let group = group_index(wid, nwg);
  let z = P.first_batch + group / (P.m_tiles * P.n_tiles);
  let m0 = P.first_row + group / P.n_tiles % P.m_tiles * {{tile}}u;
  let n0 = group % P.n_tiles * {{tile}}u;
  let tx = lane % {{threads}}u;
  let ty = lane / {{threads}}u;
  let a_first = a_matrix(z);
  let b_first = b_matrix(z);
{{@q=quads}}{{@c=4}}{{@j=quads}}
  var y{{q}}_{{c}}_{{j}} = vec4<f32>(0.0);
{{/j}}{{/c}}{{/q}}
  for (var k0 = 0u; k0 < P.k; k0 += {{depth}}u) {
    workgroupBarrier();
    for (var e = lane; e < {{tile}}u * {{depth}}u; e += {{wg}}u) {
{{#transpose_a}}
      let m = e % {{tile}}u;
      let k = e / {{tile}}u;
{{/transpose_a}}{{^transpose_a}}
      let m = e / {{depth}}u;
      let k = e % {{depth}}u;
{{/transpose_a}}
      a_tile[k * kQuads + m / 4u][m % 4u] = a_at(a_first, m0 + m, k0 + k);
    }
    for (var e = lane; e < {{tile}}u * {{depth}}u; e += {{wg}}u) {
{{#transpose_b}}
      let n = e / {{depth}}u;
      let k = e % {{depth}}u;
{{/transpose_b}}{{^transpose_b}}
      let n = e % {{tile}}u;
      let k = e / {{tile}}u;
{{/transpose_b}}
      b_tile[k * kQuads + n / 4u][n % 4u] = b_at(b_first, k0 + k, n0 + n);
    }
    workgroupBarrier();
    for (var k = 0u; k < {{depth}}u; k++) {
{{@j=quads}}
      let a{{j}} = a_tile[k * kQuads + ty + {{j}}u * {{threads}}u];
      let b{{j}} = b_tile[k * kQuads + tx + {{j}}u * {{threads}}u];
{{/j}}
{{@q=quads}}{{@c=4}}{{@j=quads}}
      y{{q}}_{{c}}_{{j}} = fma(vec4<f32>(a{{q}}[{{c}}]), b{{j}}, y{{q}}_{{c}}_{{j}});
{{/j}}{{/c}}{{/q}}
    }
  }
  // Lanes that lie beyond the matrix or in another window make nothing.
{{@q=quads}}{{@c=4}}{{@j=quads}}
  store(group < P.groups, z, m0 + (ty + {{q}}u * {{threads}}u) * 4u + {{c}}u, n0 + (tx + {{j}}u * {{threads}}u) * 4u, y{{q}}_{{c}}_{{j}});
{{/j}}{{/c}}{{/q}}
}
