// attention.wgsl: result[h][i] = Σ_j p_ij v[j], p = softmax over the keys j of scale q_i·k_j. One workgroup makes {{rows}}
// queries of one head and goes over the keys in tiles of {{columns}}, with a running maximum and sum (the scores of a tile
// never leave the workgroup). The queries are held all the time, four to a vec4; k comes in parts of {{deep}} vec4, v in
// parts of {{held}} keys. A thread has {{quads}} quads of queries × {{keys}} keys of a tile of scores, then as many queries ×
// {{wide}} vec4 of the result. Scores are held times log2(e), which powers of two need; the queries carry that and the scale.
{{>elementwise}}
{{head}}
const kLowest = -3.4028234663852886e38;
const kRows = {{rows}}u;
const kColumns = {{columns}}u;
const kAcross = {{across}}u;  // threads that share queries
const kQuads = {{rows}}u / 4u;
const kDeep = {{deep}}u;
const kHeld = {{held}}u;
const kWide = {{wide}}u;

fn query_unit(row: u32, base: u32, unit: u32, count: u32) -> vec4<f32> {
  return select(vec4<f32>(0.0), q[(base + min(row, count - 1u)) * P.depth + unit + P.q_shift], row < count);
}

// Element e of a part of k from unit d on, and of a part of v; zero beyond the last.
fn key_unit(base: u32, tile: u32, d: u32, e: u32) -> vec4<f32> {
  let row = tile + e / kDeep;
  let unit = d + e % kDeep;
{{#whole}}
  // Scores of keys beyond the last are not looked at.
  return k[(base + min(row, P.keys - 1u)) * P.depth + unit + P.k_shift];
{{/whole}}{{^whole}}
  var value = vec4<f32>(0.0);
  if (row < P.keys && unit < P.depth && e < kColumns * kDeep) {
    value = k[(base + row) * P.depth + unit + P.k_shift];
  }
  return value;
{{/whole}}
}

fn value_unit(base: u32, row: u32, e: u32) -> vec4<f32> {
  let at = row + e / (kAcross * kWide);
  let unit = e % (kAcross * kWide);
  var value = vec4<f32>(0.0);
  if (at < P.keys && unit < P.value_depth && e < kHeld * kAcross * kWide) {
    value = v[(base + at) * P.value_depth + unit + P.v_shift];
  }
  return value;
}

{{main}}
  let group = group_index(wid, nwg);
  let tiles = (P.queries + kRows - 1u) / kRows;
  let inside = group / tiles < P.heads;
  let head = P.first_head + min(group / tiles, P.heads - 1u);
  let batch = head / P.all_heads;
  let shared_head = batch * P.kv_heads + head % P.all_heads * P.kv_heads / P.all_heads;
  let first = group % tiles * kRows;
  let across = lane % kAcross;
  let down = lane / kAcross * {{quads}}u;  // quad of queries
  let q_base = head * P.queries;
  let k_base = shared_head * P.keys;
{{>attention_keys}}
  for (var e = lane; e < kQuads * P.depth; e += {{wg}}u) {
    let row = first + e % kQuads * 4u;
    let unit = e / kQuads;
    let a = query_unit(row, q_base, unit, P.queries);
    let b = query_unit(row + 1u, q_base, unit, P.queries);
    let c = query_unit(row + 2u, q_base, unit, P.queries);
    let d = query_unit(row + 3u, q_base, unit, P.queries);
    let at = unit * 4u * kQuads + e % kQuads;
{{@m=four}}
    qs[at + {{m}}u * kQuads] = vec4<f32>(a[{{m}}], b[{{m}}], c[{{m}}], d[{{m}}]) * bitcast<f32>(P.scale);
{{/m}}
  }
{{@a=quads}}
  var most{{a}} = vec4<f32>(kLowest);
  var sum{{a}} = vec4<f32>(0.0);
{{@n=wide}}{{@r=four}}
  var o{{a}}_{{r}}_{{n}} = vec4<f32>(0.0);
{{/r}}{{/n}}{{/a}}
  // Parts of k and v are fetched while those before are multiplied.
{{@l=key_loads}}
  var next_k{{l}} = key_unit(k_base, key_begin, 0u, lane + {{l}}u * {{wg}}u);
{{/l}}{{@l=value_loads}}
  var next_v{{l}} = vec4<f32>(0.0);
{{/l}}
  for (var tile = key_begin; tile < key_end; tile += kColumns) {
    // s_j_a holds the scores of quad a of the queries for key tile + across + j * kAcross.
{{@j=keys}}{{@a=quads}}
    var s{{j}}_{{a}} = vec4<f32>(0.0);
{{/a}}{{/j}}
    for (var d = 0u; d < P.depth; d += kDeep) {
      workgroupBarrier();
{{@l=key_loads}}
      {
        let e = lane + {{l}}u * {{wg}}u;
        if (e < kColumns * kDeep) {
          pool[e % kDeep * (kColumns + 1u) + e / kDeep] = next_k{{l}};
        }
      }
{{/l}}
      workgroupBarrier();
      if (d + kDeep < P.depth) {
{{@l=key_loads}}
        next_k{{l}} = key_unit(k_base, tile, d + kDeep, lane + {{l}}u * {{wg}}u);
{{/l}}
      } else {
{{@l=value_loads}}
        next_v{{l}} = value_unit(k_base, tile, lane + {{l}}u * {{wg}}u);
{{/l}}
      }
{{#whole}}
{{@c=deep}}
      {
        let c = {{c}}u;
        let at = (d + c) * 4u * kQuads + down;
{{>attention_scores}}
      }
{{/c}}
{{/whole}}{{^whole}}
      let units = min(kDeep, P.depth - d);
      for (var c = 0u; c < units; c++) {
        let at = (d + c) * 4u * kQuads + down;
{{>attention_scores}}
      }
{{/whole}}
    }
{{@j=keys}}
    let key{{j}} = tile + across + {{j}}u * kAcross;
{{@a=quads}}
{{#softcap}}
    s{{j}}_{{a}} = act_tanh(s{{j}}_{{a}}) * bitcast<f32>(P.softcap);
{{/softcap}}
{{#picky}}
    var seen{{j}}_{{a}} = vec4<f32>(0.0);
{{@r=four}}
    {
      let at = min(first + (down + {{a}}u) * 4u + {{r}}u, P.queries - 1u);
      let last = min(key{{j}}, P.keys - 1u);
      var seen = key{{j}} < P.keys;
{{#causal}}
      seen = seen && i32(key{{j}}) <= i32(at) + back;
{{/causal}}{{#window}}
      seen = seen && abs(i32(key{{j}}) - i32(at) - back) < i32(P.window);
{{/window}}{{#bias}}
      let more = bias[batch * P.bias_batch + head % P.all_heads * P.bias_head + at * P.bias_query + last * P.bias_key + P.bias_shift];
      // The lowest number hides a key, but where all keys have it they count alike.
      s{{j}}_{{a}}[{{r}}] += select(max(1.44269504 * more, kLowest), more, more < kLowest);
{{/bias}}{{#mask}}
      let element = batch * P.mask_batch + head % P.all_heads * P.mask_head + at * P.mask_query + last * P.mask_key + P.mask_shift;
{{#hidden}}
      if ({{mask_element}} == 0u) {
        s{{j}}_{{a}}[{{r}}] = bitcast<f32>(P.hidden);
      }
{{/hidden}}{{^hidden}}
      seen = seen && {{mask_element}} != 0u;
{{/hidden}}
{{/mask}}
      seen{{j}}_{{a}}[{{r}}] = select(0.0, 1.0, seen);
    }
{{/r}}
    s{{j}}_{{a}} = select(vec4<f32>(kLowest), s{{j}}_{{a}}, seen{{j}}_{{a}} > vec4<f32>(0.0));
{{/picky}}
{{/a}}{{/j}}
{{^picky}}
  if (tile + kColumns > P.keys) {
{{@j=keys}}{{@a=quads}}
    s{{j}}_{{a}} = select(vec4<f32>(kLowest), s{{j}}_{{a}}, key{{j}} < P.keys);
{{/a}}{{/j}}
  }
{{/picky}}
{{@a=quads}}
    var highest{{a}} = s0_{{a}};
{{@j=keys}}
    highest{{a}} = max(highest{{a}}, s{{j}}_{{a}});
{{/j}}
    best[(down + {{a}}u) * (kAcross + 1u) + across] = highest{{a}};
{{/a}}
    workgroupBarrier();
{{@a=quads}}
    for (var i = 0u; i < kAcross; i++) {
      highest{{a}} = max(highest{{a}}, best[(down + {{a}}u) * (kAcross + 1u) + i]);
    }
    highest{{a}} = max(highest{{a}}, most{{a}});
    let faded{{a}} = exp2(most{{a}} - highest{{a}});
    most{{a}} = highest{{a}};
    sum{{a}} *= faded{{a}};
{{@j=keys}}
    let p{{j}}_{{a}} = exp2(s{{j}}_{{a}} - most{{a}}){{#picky}} * seen{{j}}_{{a}}{{/picky}};
    sum{{a}} += p{{j}}_{{a}};
    ps[(across + {{j}}u * kAcross) * (kQuads + 1u) + down + {{a}}u] = p{{j}}_{{a}};
{{/j}}{{@n=wide}}{{@r=four}}
    o{{a}}_{{r}}_{{n}} *= faded{{a}}[{{r}}];
{{/r}}{{/n}}{{/a}}
    for (var held = 0u; held < kColumns; held += kHeld) {
      workgroupBarrier();
{{@l=value_loads}}
      {
        let e = lane + {{l}}u * {{wg}}u;
        if (e < kHeld * kAcross * kWide) {
          pool[e] = next_v{{l}};
        }
      }
{{/l}}
      workgroupBarrier();
      if (held + kHeld < kColumns) {
{{@l=value_loads}}
        next_v{{l}} = value_unit(k_base, tile + held + kHeld, lane + {{l}}u * {{wg}}u);
{{/l}}
      } else {
{{@l=key_loads}}
        next_k{{l}} = key_unit(k_base, tile + kColumns, 0u, lane + {{l}}u * {{wg}}u);
{{/l}}
      }
      for (var i = 0u; i < kHeld; i++) {
{{@n=wide}}
        let v{{n}} = pool[i * kAcross * kWide + across + {{n}}u * kAcross];
{{/n}}{{@a=quads}}
        let p{{a}} = ps[(held + i) * (kQuads + 1u) + down + {{a}}u];
{{@n=wide}}{{@r=four}}
        o{{a}}_{{r}}_{{n}} = fma(vec4<f32>(p{{a}}[{{r}}]), v{{n}}, o{{a}}_{{r}}_{{n}});
{{/r}}{{/n}}{{/a}}
      }
    }
  }
  workgroupBarrier();
{{@a=quads}}
  best[(down + {{a}}u) * (kAcross + 1u) + across] = sum{{a}};
{{/a}}
  workgroupBarrier();
  if (!inside) {
    return;
  }
{{@a=quads}}
  var total{{a}} = vec4<f32>(0.0);
  for (var i = 0u; i < kAcross; i++) {
    total{{a}} += best[(down + {{a}}u) * (kAcross + 1u) + i];
  }
{{@n=wide}}{{@r=four}}
  if (first + (down + {{a}}u) * 4u + {{r}}u < P.queries && across + {{n}}u * kAcross < P.value_depth) {
    // A query that sees no key has no sum.
    let y = select(vec4<f32>(0.0), o{{a}}_{{r}}_{{n}} / total{{a}}[{{r}}], total{{a}}[{{r}}] > 0.0);
    result[(q_base + first + (down + {{a}}u) * 4u + {{r}}u) * P.value_depth + across + {{n}}u * kAcross + P.result_shift] = {{store}};
  }
{{/r}}{{/n}}{{/a}}
}
