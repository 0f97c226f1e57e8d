// attention.wgsl: result[h][i] = Σ_j p_ij v[j], p = softmax over the keys j of scale q_i·k_j. One workgroup makes {{rows}}
// queries of one head and goes over the keys in tiles of {{columns}}, with a running maximum and sum (the scores of a tile
// never leave the workgroup). q and k come in parts of {{deep}} vec4, v in parts of {{held}} keys. A thread has 4 queries ×
// 4 keys of a tile of scores, then 4 queries × {{wide}} vec4 of the result.
{{>elementwise}}
{{head}}
const kRows = {{rows}}u;
const kColumns = {{columns}}u;
const kAcross = {{columns}}u / 4u;  // threads that share four queries
const kDeep = {{deep}}u;
const kHeld = {{held}}u;
const kWide = {{wide}}u;

{{main}}
  let group = group_index(wid, nwg);
  let tiles = (P.queries + kRows - 1u) / kRows;
  let inside = group / tiles < P.heads;
  let head = P.first_head + min(group / tiles, P.heads - 1u);
  let batch = head / P.all_heads;
  let shared_head = batch * P.kv_heads + head % P.all_heads * P.kv_heads / P.all_heads;
  let first = group % tiles * kRows;
  let across = lane % kAcross;
  let down = lane / kAcross;
  let query = first + down * 4u;
  let q_base = head * P.queries;
  let k_base = shared_head * P.keys;
  // Keys that a query of this tile may see.
  let back = i32(P.keys) - i32(P.queries);
  var key_end = P.keys;
  var key_begin = 0u;
{{#causal}}
  key_end = u32(clamp(i32(first + kRows) + back, 0, i32(P.keys)));
{{/causal}}
{{#window}}
  key_end = min(key_end, u32(clamp(i32(first + kRows) + back + i32(P.window), 0, i32(P.keys))));
  key_begin = u32(max(i32(first) + back - i32(P.window), 0)) / kColumns * kColumns;
{{/window}}
  var most = vec4<f32>(-3.4028234663852886e38);
  var sum = vec4<f32>(0.0);
{{@n=wide}}{{@r=four}}
  var o{{r}}_{{n}} = vec4<f32>(0.0);
{{/r}}{{/n}}
  for (var tile = key_begin; tile < key_end; tile += kColumns) {
    // s_j holds the scores of four queries for key tile + across + j * kAcross.
{{@j=four}}
    var s{{j}} = vec4<f32>(0.0);
    var seen{{j}} = vec4<f32>(0.0);  // 1 where the key is seen
{{/j}}
    for (var d = 0u; d < P.depth; d += kDeep) {
      workgroupBarrier();
      for (var e = lane; e < kRows * kDeep; e += {{wg}}u) {
        let row = first + e / kDeep;
        let unit = d + e % kDeep;
        var value = vec4<f32>(0.0);
        if (row < P.queries && unit < P.depth) {
          value = q[(q_base + row) * P.depth + unit + P.q_shift];
        }
        qs[e % kDeep * kRows + e / kDeep] = value;
      }
      for (var e = lane; e < kColumns * kDeep; e += {{wg}}u) {
        let row = tile + e / kDeep;
        let unit = d + e % kDeep;
        var value = vec4<f32>(0.0);
        if (row < P.keys && unit < P.depth) {
          value = k[(k_base + row) * P.depth + unit + P.k_shift];
        }
        ks[e % kDeep * (kColumns + 1u) + e / kDeep] = value;
      }
      workgroupBarrier();
      for (var c = 0u; c < kDeep; c++) {
{{@r=four}}
        let q{{r}} = qs[c * kRows + down * 4u + {{r}}u];
{{/r}}{{@j=four}}
        let k{{j}} = ks[c * (kColumns + 1u) + across + {{j}}u * kAcross];
        s{{j}} += vec4<f32>(dot(q0, k{{j}}), dot(q1, k{{j}}), dot(q2, k{{j}}), dot(q3, k{{j}}));
{{/j}}
      }
    }
{{@j=four}}
    {
      let key = tile + across + {{j}}u * kAcross;
      s{{j}} = s{{j}} * bitcast<f32>(P.scale);
{{#softcap}}
      s{{j}} = act_tanh(s{{j}} * (1.0 / bitcast<f32>(P.softcap))) * bitcast<f32>(P.softcap);
{{/softcap}}
{{@r=four}}
      {
        let at = min(query + {{r}}u, P.queries - 1u);
        let last = min(key, P.keys - 1u);
        var seen = key < P.keys;
{{#causal}}
        seen = seen && i32(key) <= i32(at) + back;
{{/causal}}{{#window}}
        seen = seen && abs(i32(key) - i32(at) - back) < i32(P.window);
{{/window}}{{#bias}}
        s{{j}}[{{r}}] += bias[batch * P.bias_batch + head % P.all_heads * P.bias_head + at * P.bias_query + last * P.bias_key + P.bias_shift];
{{/bias}}{{#mask}}
        let element = batch * P.mask_batch + head % P.all_heads * P.mask_head + at * P.mask_query + last * P.mask_key + P.mask_shift;
        seen = seen && {{mask_element}} != 0u;
{{/mask}}
        s{{j}}[{{r}}] = select(-3.4028234663852886e38, s{{j}}[{{r}}], seen);
        seen{{j}}[{{r}}] = select(0.0, 1.0, seen);
      }
{{/r}}
    }
{{/j}}
    var highest = max(max(s0, s1), max(s2, s3));
    workgroupBarrier();
    best[down * (kAcross + 1u) + across] = highest;
    workgroupBarrier();
    for (var i = 0u; i < kAcross; i++) {
      highest = max(highest, best[down * (kAcross + 1u) + i]);
    }
    highest = max(highest, most);
    let faded = exp(most - highest);
    most = highest;
    sum *= faded;
{{@j=four}}
    let p{{j}} = exp(s{{j}} - most) * seen{{j}};
    sum += p{{j}};
    ps[(across + {{j}}u * kAcross) * (kRows / 4u + 1u) + down] = p{{j}};
{{/j}}{{@n=wide}}{{@r=four}}
    o{{r}}_{{n}} *= faded[{{r}}];
{{/r}}{{/n}}
    for (var held = 0u; held < kColumns; held += kHeld) {
      workgroupBarrier();
      for (var e = lane; e < kHeld * kAcross * kWide; e += {{wg}}u) {
        let row = tile + held + e / (kAcross * kWide);
        let unit = e % (kAcross * kWide);
        var value = vec4<f32>(0.0);
        if (row < P.keys && unit < P.value_depth) {
          value = v[(k_base + row) * P.value_depth + unit + P.v_shift];
        }
        vs[e] = value;
      }
      workgroupBarrier();
      for (var i = 0u; i < kHeld; i++) {
        let p = ps[(held + i) * (kRows / 4u + 1u) + down];
{{@n=wide}}
        let v{{n}} = vs[i * kAcross * kWide + across + {{n}}u * kAcross];
{{@r=four}}
        o{{r}}_{{n}} = fma(vec4<f32>(p[{{r}}]), v{{n}}, o{{r}}_{{n}});
{{/r}}{{/n}}
      }
    }
  }
  workgroupBarrier();
  best[down * (kAcross + 1u) + across] = sum;
  workgroupBarrier();
  var total = vec4<f32>(0.0);
  for (var i = 0u; i < kAcross; i++) {
    total += best[down * (kAcross + 1u) + i];
  }
  if (!inside) {
    return;
  }
{{@n=wide}}{{@r=four}}
  if (query + {{r}}u < P.queries && across + {{n}}u * kAcross < P.value_depth) {
    // A query that sees no key has no sum.
    let y = select(vec4<f32>(0.0), o{{r}}_{{n}} / total[{{r}}], total[{{r}}] > 0.0);
    result[(q_base + query + {{r}}u) * P.value_depth + across + {{n}}u * kAcross + P.result_shift] = {{store}};
  }
{{/r}}{{/n}}
}
