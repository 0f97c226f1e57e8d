// delta_rule.wgsl: M = M (diag(w) + aᵀ b) + vᵀ k; rows [B,S,H,5K] hold w, a, b, k and r one after another, v [B,S,H,V]. Rows
// of M have nothing to do with each other: {{lanes}} lanes keep one in registers, {{quads}} quads each, over a part of time,
// `length` steps; the five vectors of {{together}} steps lie in workgroup memory, with zeros beyond K.
{{#sums}}
// Gives what each part does, [B,H,parts,K+V,K]: the product of its transitions, and M from zeros.
{{/sums}}{{#apply}}
// y = M r, [B,S,H,V].
{{/apply}}{{#states}}
// Gives M behind every step, [B,S,H,V,K].
{{/states}}
{{head}}
{{#carried}}
// Quad q of the row of a matrix that begins at `first`.
fn carried(first: u32, q: u32) -> vec4<f32> {
  var quad = vec4<f32>(0.0);
{{#wide}}
  if (4u * q < P.keys) {
    quad = carry[first / 4u + q + P.carry_shift];
  }
{{/wide}}{{^wide}}
  for (var e = 0u; e < 4u; e++) {
    if (4u * q + e < P.keys) {
      quad[e] = carry[first + 4u * q + e + P.carry_shift];
    }
  }
{{/wide}}
  return quad;
}
{{/carried}}
{{#matrix}}
// Writes it.
fn keep(first: u32, q: u32, quad: vec4<f32>) {
{{#wide}}
  if (4u * q < P.keys) {
    matrix[first / 4u + q + P.matrix_shift] = {{store_quad}};
  }
{{/wide}}{{^wide}}
  for (var e = 0u; e < 4u; e++) {
    if (4u * q + e < P.keys) {
      let number = quad[e];
      matrix[first + 4u * q + e + P.matrix_shift] = {{store_number}};
    }
  }
{{/wide}}
}
{{/matrix}}
{{#shared_rows}}

// The sum over the lanes of a row.
fn total(lane: u32, value: f32) -> f32 {
  workgroupBarrier();
  stage[lane] = value;
  workgroupBarrier();
  var sum = 0.0;
  for (var i = 0u; i < {{lanes}}u; i++) {
    sum += stage[lane - lane % {{lanes}}u + i];
  }
  return sum;
}
{{/shared_rows}}

{{main}}
  let group = group_index(wid, nwg);
  let block = group % P.blocks;
  let part = group / P.blocks % P.parts;
  let head = min(group / P.blocks / P.parts, P.heads_total - 1u);
  let mine = group / P.blocks / P.parts < P.heads_total;
  let row = block * {{rows}}u + lane / {{lanes}}u;
  let sub = lane % {{lanes}}u * {{quads}}u;
  let owned = mine && row < P.rows_total;
  let begin = part * P.length;
  let end = min(begin + P.length, P.steps);
{{#sums}}
  let value_row = row - min(row, P.keys);
  let valued = owned && row >= P.keys;
{{/sums}}{{^sums}}
  let value_row = row;
  let valued = owned;
{{/sums}}
{{#carried}}
  let begun = ((head * P.parts + part) * P.rows_total + min(row, P.rows_total - 1u)) * P.keys;
{{/carried}}
{{@q=quads}}
{{#carried}}
  var m{{q}} = carried(begun, sub + {{q}}u);
{{/carried}}{{^carried}}
  var m{{q}} = vec4<f32>(0.0);
{{#sums}}
  if (row < P.keys && row / 4u == sub + {{q}}u) {
    m{{q}}[row % 4u] = 1.0;
  }
{{/sums}}
{{/carried}}
{{/q}}
  for (var base = begin; base < end; base += {{together}}u) {
    workgroupBarrier();
    for (var i = lane; i < {{together}}u * 5u * {{padded4}}u; i += {{wg}}u) {
      let k = base + i / (5u * {{padded4}}u);
      let q = i % {{padded4}}u;
      var quad = vec4<f32>(0.0);
      if (k < end) {
        let t = {{#reverse}}P.steps - 1u - k{{/reverse}}{{^reverse}}k{{/reverse}};
        let at = (head / P.heads * P.steps + t) * P.heads + head % P.heads;
        let first = (at * 5u + i / {{padded4}}u % 5u) * P.keys;
{{#wide}}
        if (4u * q < P.keys) {
          quad = rows[first / 4u + q + P.rows_shift];
        }
{{/wide}}{{^wide}}
        for (var e = 0u; e < 4u; e++) {
          if (4u * q + e < P.keys) {
            quad[e] = rows[first + 4u * q + e + P.rows_shift];
          }
        }
{{/wide}}
      }
      vectors[i] = quad;
    }
    workgroupBarrier();
    for (var k = base; k < min(base + {{together}}u, end); k++) {
      let t = {{#reverse}}P.steps - 1u - k{{/reverse}}{{^reverse}}k{{/reverse}};
      let at = (head / P.heads * P.steps + t) * P.heads + head % P.heads;
      let here = (k - base) * 5u * {{padded4}}u + sub;
      var value = 0.0;
      if (valued) {
        value = v[at * P.values + value_row + P.v_shift];
      }
      var seen = 0.0;
{{@q=quads}}
      seen += dot(m{{q}}, vectors[here + {{padded4}}u + {{q}}u]);
{{/q}}
{{#shared_rows}}
      seen = total(lane, seen);
{{/shared_rows}}
{{@q=quads}}
      m{{q}} = m{{q}} * vectors[here + {{q}}u] + seen * vectors[here + 2u * {{padded4}}u + {{q}}u] +
               value * vectors[here + 3u * {{padded4}}u + {{q}}u];
{{/q}}
{{#apply}}
      var sum = 0.0;
{{@q=quads}}
      sum += dot(m{{q}}, vectors[here + 4u * {{padded4}}u + {{q}}u]);
{{/q}}
{{#shared_rows}}
      sum = total(lane, sum);
{{/shared_rows}}
      if (owned && sub == 0u) {
        output[at * P.values + row + P.output_shift] = {{store}};
      }
{{/apply}}
{{#states}}
      if (owned) {
{{@q=quads}}
        keep((at * P.values + row) * P.keys, sub + {{q}}u, m{{q}});
{{/q}}
      }
{{/states}}
    }
  }
{{#ends}}
  if (owned) {
    let first = ((head * P.parts + part) * P.rows_total + row) * P.keys;
{{@q=quads}}
    keep(first, sub + {{q}}u, m{{q}});
{{/q}}
  }
{{/ends}}
}
