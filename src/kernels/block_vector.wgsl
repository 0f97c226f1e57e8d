// block_vector.wgsl: y[r, n] = act(bias[n] + sum over k of x[r, k] * w[n, k]) for few rows r; w in raw blocks of a GGUF
// file ({{format}}), row by row. A team of {{lanes}} lanes makes {{rows}} results n of each of {{columns}} rows r: lanes take units of
// 32 elements in turn, and add up what they have in workgroup memory.
{{#normed}}
// x is divided by its root mean square and multiplied by gamma: the first when the sums are there.
{{/normed}}{{#gated}}
// w holds the rows of a gate, and then as many others: y = act(gate) * other.
{{/gated}}{{#experts}}
// Row r of y is made by expert experts[r] of w, from row r / P.shared_by of x.
{{/experts}}
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

{{#normed}}
fn gamma_quad(q: u32) -> vec4<f32> {
{{#gamma_quads}}
  return gamma[min(q, P.k / 4u - 1u) + P.gamma_shift];
{{/gamma_quads}}{{^gamma_quads}}
  let k = min(vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(P.k - 1u)) + P.gamma_shift;
  return vec4<f32>(gamma[k.x], gamma[k.y], gamma[k.z], gamma[k.w]);
{{/gamma_quads}}
}

{{/normed}}
{{main}}
  let group = group_index(wid, nwg);
  let across = lane % {{lanes}}u;
  let team = lane / {{lanes}}u;
  let first = P.first_r + group / P.row_groups * {{columns}}u;
{{#experts}}
  let expert = u32(clamp(experts[min(first, P.last_r) + P.experts_shift], 0, i32(P.expert_count) - 1));
  let base = expert * P.expert_rows;
{{/experts}}{{^experts}}
  let base = 0u;
{{/experts}}
{{@c=columns}}
  let r{{c}} = min(first + {{c}}u, P.last_r){{#experts}} / P.shared_by{{/experts}};
{{/c}}
{{#normed}}{{@c=columns}}
  var square{{c}} = 0.0;
{{/c}}{{/normed}}
  for (var turn = 0u; turn < P.turns; turn++) {
    let start = P.n_begin + ((group % P.row_groups * P.turns + turn) * {{teams}}u + team) * {{pairs}}u;
{{@i=rows}}
    let n{{i}} = base + start + {{#gated}}{{i}}u % {{pairs}}u + {{i}}u / {{pairs}}u * P.half{{/gated}}{{^gated}}{{i}}u{{/gated}};
    let row{{i}} = (min(max(n{{i}}, P.first_n), P.last_n) - P.first_n) * P.row_bytes + P.w_begin;
{{@c=columns}}
    var sum{{i}}_{{c}} = vec4<f32>(0.0);
{{/c}}{{/i}}
{{#staged}}
    // Quads of {{span}} units of x, which all teams read: [q][unit], a unit more than there are, so that banks differ.
    for (var begin = 0u; begin < P.units; begin += {{span}}u) {
      workgroupBarrier();
      // A span that holds all of x stays for the next rows.
      for (var e = lane + select({{span}}u * 8u, 0u, turn == 0u); e < {{span}}u * 8u; e += {{wg}}u) {
{{@c=columns}}
        let found{{c}} = x_quad(r{{c}}, begin * 8u + e);
{{#normed}}
        square{{c}} += select(0.0, dot(found{{c}}, found{{c}}), (begin * 8u + e) * 4u < P.k);
{{/normed}}
        x_tile[({{c}}u * 8u + e % 8u) * ({{span}}u + 1u) + e / 8u] = found{{c}}{{#normed}} * gamma_quad(begin * 8u + e){{/normed}};
{{/c}}
      }
      workgroupBarrier();
      for (var own = across; own < min({{span}}u, P.units - begin); own += {{lanes}}u) {
        let unit = begin + own;
{{/staged}}{{^staged}}
    {
      for (var unit = across; unit < P.units; unit += {{lanes}}u) {
{{/staged}}
{{@c=columns}}{{@q=8}}
        let x{{c}}_{{q}} = {{#staged}}x_tile[({{c}}u * 8u + {{q}}u) * ({{span}}u + 1u) + own]{{/staged}}{{^staged}}x_quad(r{{c}}, unit * 8u + {{q}}u){{/staged}};
{{/q}}{{/c}}
{{#scaled}}
{{@c=columns}}
        let x{{c}} = x{{c}}_0 + x{{c}}_1 + x{{c}}_2 + x{{c}}_3 + x{{c}}_4 + x{{c}}_5 + x{{c}}_6 + x{{c}}_7;
{{/c}}
{{@i=rows}}
        {
          let w = scaled(row{{i}}, unit);
{{@c=columns}}
          var own{{c}} = w.q[0] * x{{c}}_0;
          own{{c}} = fma(w.q[1], x{{c}}_1, own{{c}});
          own{{c}} = fma(w.q[2], x{{c}}_2, own{{c}});
          own{{c}} = fma(w.q[3], x{{c}}_3, own{{c}});
          own{{c}} = fma(w.q[4], x{{c}}_4, own{{c}});
          own{{c}} = fma(w.q[5], x{{c}}_5, own{{c}});
          own{{c}} = fma(w.q[6], x{{c}}_6, own{{c}});
          own{{c}} = fma(w.q[7], x{{c}}_7, own{{c}});
          sum{{i}}_{{c}} = fma(vec4<f32>(w.scale), own{{c}}, fma(vec4<f32>(w.least), x{{c}}, sum{{i}}_{{c}}));
{{/c}}
        }
{{/i}}
{{/scaled}}{{^scaled}}
{{@i=rows}}
        {
          let w = unpack(row{{i}}, unit);
{{@q=8}}{{@c=columns}}
          sum{{i}}_{{c}} = fma(w[{{q}}], x{{c}}_{{q}}, sum{{i}}_{{c}});
{{/c}}{{/q}}
        }
{{/i}}
{{/scaled}}
      }
    }
{{@i=rows}}{{@c=columns}}
    stage[({{i}}u * {{columns}}u + {{c}}u) * {{wg}}u + lane] = dot(sum{{i}}_{{c}}, vec4<f32>(1.0));
{{/c}}{{/i}}
{{#normed}}{{@c=columns}}
    if (turn == 0u) {
      squares[{{c}}u * {{wg}}u + lane] = square{{c}};
    }
{{/c}}
    workgroupBarrier();
    for (var half = select(0u, {{wg}}u / 2u, turn == 0u); half > 0u; half /= 2u) {
      if (lane < half) {
{{@c=columns}}
        squares[{{c}}u * {{wg}}u + lane] += squares[{{c}}u * {{wg}}u + lane + half];
{{/c}}
      }
      workgroupBarrier();
    }
{{/normed}}
    workgroupBarrier();
    for (var half = {{lanes}}u / 2u; half > 0u; half /= 2u) {
      if (across < half) {
        for (var v = lane; v < {{rows}}u * {{columns}}u * {{wg}}u; v += {{wg}}u) {
          stage[v] += stage[v + half];
        }
      }
      workgroupBarrier();
    }
    for (var v = across; v < {{pairs}}u * {{columns}}u; v += {{lanes}}u) {
      let n = start + v / {{columns}}u;
      let r = first + v % {{columns}}u;
{{#gated}}
      if (group < P.groups && n < P.half && r <= P.last_r) {
{{/gated}}{{^gated}}
      let inside = base + n >= P.first_n && base + n <= P.last_n && n < P.expert_rows;
      if (group < P.groups && inside && r <= P.last_r) {
{{/gated}}
        let o = r * P.n + P.column + n;
{{#normed}}
        let scale = inverseSqrt(squares[v % {{columns}}u * {{wg}}u] / f32(P.k) + bitcast<f32>(P.eps));
{{/normed}}
        let own = stage[v * {{wg}}u + team * {{lanes}}u]{{#normed}} * scale{{/normed}}{{#bias}} + bias[P.bias_shift + P.column + n]{{/bias}};
{{#gated}}
        let other = stage[(v + {{pairs}}u * {{columns}}u) * {{wg}}u + team * {{lanes}}u] * scale{{#bias}} + bias[P.bias_shift + P.half + n]{{/bias}};
        let sum = {{act}}(own) * other;
{{/gated}}{{^gated}}
        let sum = own;
{{/gated}}
        output[o + P.output_shift] = {{store}};
      }
    }
  }
}
