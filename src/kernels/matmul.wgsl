// matmul.wgsl: y[z,m,n] = act(bias[n] + sum over k of a[z,m,k] * b[z,k,n]); plain tensors, batches z broadcast.
// A workgroup of {{threads}} × {{threads}} lanes makes a tile of {{tile}} × {{tile}} results, each lane {{rows}} × {{rows}} of them, from tiles of
// {{depth}} steps of k in workgroup memory: a_tile [lane's row][its rows][k/4] and b_tile [k][n/4] of vec4, of transposed
// operands a_tile [k][m/4] and b_tile [lane's column][its columns][k/4], since quads are written as they were read; there
// structs are one unit apart from a power of two, since lanes beside each other read them. Wide: operands are read and results written in
// quads, the next tiles read while the last are multiplied, and k may be cut into parts whose sums matmul_finish adds.
// Otherwise elements outside the bound windows count as zero; where this is not the first dispatch it goes on from the
// sum so far, where it is not the last it leaves the sum.
{{>elementwise}}
{{head}}
struct ByLane {
  w: array<vec4<f32>, {{rows}} * {{steps}}{{#transpose_b}} + 1{{/transpose_b}}>,
}
struct ByStep {
  w: array<vec4<f32>, {{tile}} / 4>,
}
const kSteps = {{steps}}u;  // quads of a row of a's tile
const kQuads = {{tile}}u / 4u;  // of a row of b_tile
{{#last}}
fn epilogue(x: {{T}}{{extra_arguments}}) -> {{T}} {
{{epilogue}}}
{{/last}}
// Where the matrices of batch z begin.
fn a_matrix(z: u32) -> u32 {
{{a_matrix}}}

fn b_matrix(z: u32) -> u32 {
{{b_matrix}}}

{{#wide}}
// Quad e of the tile of a from (m0, k0) on: four steps of k, or of a transposed operand four rows.
fn a_quad(matrix: u32, m0: u32, k0: u32, e: u32) -> vec4<f32> {
{{#transpose_a}}
  let m = m0 + e % kQuads * 4u;
  let k = k0 + e / kQuads;
  let i = matrix + k * P.m + m;
{{/transpose_a}}{{^transpose_a}}
  let m = m0 + e / kSteps;
  let k = k0 + e % kSteps * 4u;
  let i = matrix + m * P.k + k;
{{/transpose_a}}
  if (m >= P.m || k >= P.k) {
    return vec4<f32>(0.0);
  }
  return a[i / 4u + P.a_shift];
}

fn put_a(e: u32, value: vec4<f32>) {
{{#transpose_a}}
  a_tile[e / kQuads].w[e % kQuads] = value;
{{/transpose_a}}{{^transpose_a}}
  let m = e / kSteps;
  a_tile[m % {{threads}}u].w[m / {{threads}}u * kSteps + e % kSteps] = value;
{{/transpose_a}}
}

// The same of b from (k0, n0) on: four columns, or of a transposed operand four steps of k.
fn b_quad(matrix: u32, k0: u32, n0: u32, e: u32) -> vec4<f32> {
{{#transpose_b}}
  let n = n0 + e / kSteps;
  let k = k0 + e % kSteps * 4u;
  let i = matrix + n * P.k + k;
{{/transpose_b}}{{^transpose_b}}
  let n = n0 + e % kQuads * 4u;
  let k = k0 + e / kQuads;
  let i = matrix + k * P.n + n;
{{/transpose_b}}
  if (k >= P.k || n >= P.n) {
    return vec4<f32>(0.0);
  }
  return b[i / 4u + P.b_shift];
}

fn put_b(e: u32, value: vec4<f32>) {
{{#transpose_b}}
  let n = e / kSteps;
  b_tile[n / 4u % {{threads}}u].w[(n / 4u / {{threads}}u * 4u + n % 4u) * kSteps + e % kSteps] = value;
{{/transpose_b}}{{^transpose_b}}
  b_tile[e / kQuads].w[e % kQuads] = value;
{{/transpose_b}}
}

// Four results of a row from column n on.
fn store(ours: bool, z: u32, m: u32, n: u32, sums: vec4<f32>) {
  if (ours && m < P.m && n < P.n) {
    let o = ((z * P.m + m) * P.n + n) / 4u;
    let sum = sums{{#bias}} + bias[P.bias_shift + n / 4u]{{/bias}};
    output[o + P.output_shift] = {{#last}}{{store}}{{/last}}{{^last}}sum{{/last}};
  }
}
{{/wide}}{{^wide}}
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
      let sum = sums[l]{{#bias}} + {{bias_element}}{{/bias}};
{{/first}}{{^first}}
      let sum = sums[l] + output[o + P.output_shift];
{{/first}}
      output[o + P.output_shift] = {{#last}}{{store}}{{/last}}{{^last}}sum{{/last}};
    }
  }
}
{{/wide}}

{{main}}
  let group = group_index(wid, nwg);
  let z = P.first_batch + group / (P.m_tiles * P.n_tiles){{#parts}} % P.batches{{/parts}};
  let m0 = P.first_row + group / P.n_tiles % P.m_tiles * {{tile}}u;
  let n0 = group % P.n_tiles * {{tile}}u;
  let tx = lane % {{threads}}u;
  let ty = lane / {{threads}}u;
{{#parts}}
  let part = group / (P.m_tiles * P.n_tiles * P.batches);
  let k_begin = part * P.part;
  let k_end = min(P.k, k_begin + P.part);
{{/parts}}{{^parts}}
  let k_begin = 0u;
  let k_end = P.k;
{{/parts}}
  let a_first = a_matrix(z);
  let b_first = b_matrix(z);
{{@q=quads}}{{@i=4}}{{@j=quads}}
  var y{{q}}_{{i}}_{{j}} = vec4<f32>(0.0);
{{/j}}{{/i}}{{/q}}
{{#wide}}
{{@i=loads}}
  var next_a{{i}} = a_quad(a_first, m0, k_begin, lane + {{i}}u * {{wg}}u);
  var next_b{{i}} = b_quad(b_first, k_begin, n0, lane + {{i}}u * {{wg}}u);
{{/i}}
{{/wide}}
  for (var k0 = k_begin; k0 < k_end; k0 += {{depth}}u) {
    workgroupBarrier();
{{#wide}}
{{@i=loads}}
    put_a(lane + {{i}}u * {{wg}}u, next_a{{i}});
    put_b(lane + {{i}}u * {{wg}}u, next_b{{i}});
{{/i}}
    workgroupBarrier();
{{@i=loads}}
    next_a{{i}} = a_quad(a_first, m0, k0 + {{depth}}u, lane + {{i}}u * {{wg}}u);
    next_b{{i}} = b_quad(b_first, k0 + {{depth}}u, n0, lane + {{i}}u * {{wg}}u);
{{/i}}
{{/wide}}{{^wide}}
    for (var e = lane; e < {{tile}}u * {{depth}}u; e += {{wg}}u) {
{{#transpose_a}}
      let m = e % {{tile}}u;
      let k = e / {{tile}}u;
{{/transpose_a}}{{^transpose_a}}
      let m = e / {{depth}}u;
      let k = e % {{depth}}u;
{{/transpose_a}}
{{#transpose_a}}
      a_tile[k].w[m / 4u][m % 4u] = a_at(a_first, m0 + m, k0 + k);
{{/transpose_a}}{{^transpose_a}}
      a_tile[m % {{threads}}u].w[m / {{threads}}u * kSteps + k / 4u][k % 4u] = a_at(a_first, m0 + m, k0 + k);
{{/transpose_a}}
    }
    for (var e = lane; e < {{tile}}u * {{depth}}u; e += {{wg}}u) {
{{#transpose_b}}
      let n = e / {{depth}}u;
      let k = e % {{depth}}u;
{{/transpose_b}}{{^transpose_b}}
      let n = e % {{tile}}u;
      let k = e / {{tile}}u;
{{/transpose_b}}
{{#transpose_b}}
      b_tile[n / 4u % {{threads}}u].w[(n / 4u / {{threads}}u * 4u + n % 4u) * kSteps + k / 4u][k % 4u] =
          b_at(b_first, k0 + k, n0 + n);
{{/transpose_b}}{{^transpose_b}}
      b_tile[k].w[n / 4u][n % 4u] = b_at(b_first, k0 + k, n0 + n);
{{/transpose_b}}
    }
    workgroupBarrier();
{{/wide}}
{{@s=steps}}
    {
{{^transpose_a}}
{{@q=quads}}{{@i=4}}
      let a{{q}}_{{i}} = a_tile[ty].w[({{q}} * 4 + {{i}}) * {{steps}} + {{s}}];
{{/i}}{{/q}}
{{/transpose_a}}
{{#transpose_b}}
{{@j=quads}}{{@i=4}}
      let column{{j}}_{{i}} = b_tile[tx].w[({{j}} * 4 + {{i}}) * {{steps}} + {{s}}];
{{/i}}{{/j}}
{{/transpose_b}}
{{@c=4}}
{{#transpose_a}}
{{@q=quads}}
      let rows{{c}}_{{q}} = a_tile[{{s}} * 4 + {{c}}].w[ty + {{q}}u * {{threads}}u];
{{/q}}
{{/transpose_a}}
{{@j=quads}}
{{#transpose_b}}
      let b{{c}}_{{j}} = vec4<f32>(column{{j}}_0[{{c}}], column{{j}}_1[{{c}}], column{{j}}_2[{{c}}], column{{j}}_3[{{c}}]);
{{/transpose_b}}{{^transpose_b}}
      let b{{c}}_{{j}} = b_tile[{{s}} * 4 + {{c}}].w[tx + {{j}}u * {{threads}}u];
{{/transpose_b}}
{{@q=quads}}{{@i=4}}
      y{{q}}_{{i}}_{{j}} = fma(vec4<f32>({{#transpose_a}}rows{{c}}_{{q}}[{{i}}]{{/transpose_a}}{{^transpose_a}}a{{q}}_{{i}}[{{c}}]{{/transpose_a}}), b{{c}}_{{j}}, y{{q}}_{{i}}_{{j}});
{{/i}}{{/q}}{{/j}}{{/c}}
    }
{{/s}}
  }
  // Lanes that lie beyond the matrix or in another window make nothing.
{{@q=quads}}{{@i=4}}
{{#transpose_a}}
  let m{{q}}_{{i}} = m0 + (ty + {{q}}u * {{threads}}u) * 4u + {{i}}u;
{{/transpose_a}}{{^transpose_a}}
  let m{{q}}_{{i}} = m0 + ty + ({{q}}u * 4u + {{i}}u) * {{threads}}u;
{{/transpose_a}}
{{@j=quads}}
  store(group < P.groups, z{{#parts}} + part * P.batches{{/parts}}, m{{q}}_{{i}}, n0 + (tx + {{j}}u * {{threads}}u) * 4u, y{{q}}_{{i}}_{{j}});
{{/j}}{{/i}}{{/q}}
}
