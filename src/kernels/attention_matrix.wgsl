// attention_matrix.wgsl: attention.wgsl by matrix units: queries, keys, values and the parts p are rounded to halves, sums
// and the softmax are f32. A subgroup makes {{m}} queries of one head, a workgroup {{rows}}; it goes over the keys in tiles of
// {{columns}}. Halves lie in workgroup memory row by row: queries, and one after another the keys and values of a tile, which
// are read while the last are multiplied. The scores of a tile go through workgroup memory, where a lane has every
// {{shares}}th eight of a query's.
// p is relative to the score that was the largest when one last passed it by kDrift bits, so that sums rarely have to be
// scaled: a sum over halves up to 2^kDrift is as good as one over those up to 1.
{{enable_matrices}}
{{>elementwise}}
{{head}}
{{>halves_of}}
const kLowest = -3.4028234663852886e38;
const kDrift = 8.0;
const kRows = {{rows}}u;
const kColumns = {{columns}}u;
const kDepth = {{depth_eights}}u;   // eights of a query or key, zeros behind its end
const kValues = {{value_eights}}u;  // of a value
const kKeyRow = kDepth + 1u;        // vec4 of eight halves from row to row: neighbouring rows meet other banks
const kValueRow = kValues + 1u;
const kSumRow = {{columns}}u / 4u + 1u;
const kPartRow = {{columns}}u / 8u + 1u;
const kShares = {{shares}}u;

fn query_eight(base: u32, row: u32, unit: u32) -> vec4<u32> {
  let inside = row < P.queries;
  let at = (base + min(row, P.queries - 1u)) * P.depth + P.q_shift;
  let a = select(vec4<f32>(0.0), q[at + min(unit, P.depth - 1u)], inside && unit < P.depth);
  let b = select(vec4<f32>(0.0), q[at + min(unit + 1u, P.depth - 1u)], inside && unit + 1u < P.depth);
  return halves_of(a * bitcast<f32>(P.scale), b * bitcast<f32>(P.scale));
}

// Scores of keys beyond the last are not looked at.
fn key_eight(base: u32, tile: u32, e: u32) -> vec4<u32> {
  let at = (base + min(tile + e / kDepth, P.keys - 1u)) * P.depth + P.k_shift;
  let unit = e % kDepth * 2u;
  let a = select(vec4<f32>(0.0), k[at + min(unit, P.depth - 1u)], unit < P.depth);
  let b = select(vec4<f32>(0.0), k[at + min(unit + 1u, P.depth - 1u)], unit + 1u < P.depth);
  return halves_of(a, b);
}

fn value_eight(base: u32, tile: u32, e: u32) -> vec4<u32> {
  let row = tile + e / kValues;
  let at = (base + min(row, P.keys - 1u)) * P.value_depth + P.v_shift;
  let unit = e % kValues * 2u;
  let inside = row < P.keys;
  let a = select(vec4<f32>(0.0), v[at + min(unit, P.value_depth - 1u)], inside && unit < P.value_depth);
  let b = select(vec4<f32>(0.0), v[at + min(unit + 1u, P.value_depth - 1u)], inside && unit + 1u < P.value_depth);
  return halves_of(a, b);
}

// Four scores of a query as the softmax takes them, and which of them are seen.
struct Scores {
  s: vec4<f32>,
  seen: vec4<f32>,
}
fn looked_at(raw: vec4<f32>, query: u32, first_key: u32, back: i32, batch: u32, head: u32) -> Scores {
  var s = raw;
{{#softcap}}
  s = act_tanh(s) * bitcast<f32>(P.softcap);
{{/softcap}}
  let keys = vec4<u32>(first_key) + vec4<u32>(0u, 1u, 2u, 3u);
  var seen = keys < vec4<u32>(P.keys);
{{#causal}}
  seen = seen & (vec4<i32>(keys) <= vec4<i32>(i32(query) + back));
{{/causal}}{{#window}}
  seen = seen & (abs(vec4<i32>(keys) - vec4<i32>(i32(query) + back)) < vec4<i32>(i32(P.window)));
{{/window}}{{#spread}}
  let at = min(query, P.queries - 1u);
{{@r=four}}
  {
    let last = min(first_key + {{r}}u, P.keys - 1u);
{{#bias}}
    let more = bias[batch * P.bias_batch + head * P.bias_head + at * P.bias_query + last * P.bias_key + P.bias_shift];
    // The lowest number hides a key, but where all keys have it they count alike.
    s[{{r}}] += select(max(1.44269504 * more, kLowest), more, more < kLowest);
{{/bias}}{{#mask}}
    let element = batch * P.mask_batch + head * P.mask_head + at * P.mask_query + last * P.mask_key + P.mask_shift;
{{#hidden}}
    if ({{mask_element}} == 0u) {
      s[{{r}}] = bitcast<f32>(P.hidden);
    }
{{/hidden}}{{^hidden}}
    seen[{{r}}] = seen[{{r}}] && {{mask_element}} != 0u;
{{/hidden}}
{{/mask}}
  }
{{/r}}
{{/spread}}
  return Scores(select(vec4<f32>(kLowest), s, seen), select(vec4<f32>(0.0), vec4<f32>(1.0), seen));
}

{{main}}
  let group = group_index(wid, nwg);
  // The same for the whole group.
  if (group >= P.groups) {
    return;
  }
  let tiles = (P.queries + kRows - 1u) / kRows;
  let head = P.first_head + group / tiles;
  let batch = head / P.all_heads;
  let shared_head = batch * P.kv_heads + head % P.all_heads * P.kv_heads / P.all_heads;
  let first = group % tiles * kRows;
  let q_base = head * P.queries;
  let k_base = shared_head * P.keys;
{{>attention_keys}}
  for (var e = lane; e < kRows * kDepth; e += {{wg}}u) {
    qs[e / kDepth * kKeyRow + e % kDepth] = query_eight(q_base, first + e / kDepth, e % kDepth * 2u);
  }
  let own = subgroup * {{m}}u;  // the subgroup's first query in the workgroup
  let row = own + place % {{m}}u;
  let share = place / {{m}}u;
  let query = first + row;
  var most = kLowest;
  var sum = 0.0;
{{@j=matrices_v}}
  var o{{j}} = subgroup_matrix_result<f32, {{n}}, {{m}}>();
{{/j}}{{@l=key_loads}}
  var next_k{{l}} = key_eight(k_base, key_begin, lane + {{l}}u * {{wg}}u);
{{/l}}{{@l=value_loads}}
  var next_v{{l}} = vec4<u32>(0u);
{{/l}}
  for (var tile = key_begin; tile < key_end; tile += kColumns) {
    workgroupBarrier();
{{@l=key_loads}}
    {
      let e = lane + {{l}}u * {{wg}}u;
      if (e < kColumns * kDepth) {
        pool[e / kDepth * kKeyRow + e % kDepth] = next_k{{l}};
      }
    }
{{/l}}
    workgroupBarrier();
{{@l=value_loads}}
    next_v{{l}} = value_eight(k_base, tile, lane + {{l}}u * {{wg}}u);
{{/l}}
{{@j=matrices_s}}
    var s{{j}} = subgroup_matrix_result<f32, {{n}}, {{m}}>();
{{/j}}
    for (var step = 0u; step < kDepth * 8u / {{k}}u; step++) {
      let a = subgroupMatrixLoad<subgroup_matrix_left<f16, {{k}}, {{m}}>, row_major>(&qs, own * kKeyRow + step * {{k}}u / 8u, kKeyRow);
{{@j=matrices_s}}
      let b{{j}} = subgroupMatrixLoad<subgroup_matrix_right<f16, {{n}}, {{k}}>, col_major>(&pool, {{j}}u * {{n}}u * kKeyRow + step * {{k}}u / 8u, kKeyRow);
      s{{j}} = subgroupMatrixMultiplyAccumulate(a, b{{j}}, s{{j}});
{{/j}}
    }
{{@j=matrices_s}}
    subgroupMatrixStore<row_major>(&sums, own * kSumRow + {{j}}u * {{n}}u / 4u, s{{j}}, kSumRow);
{{/j}}
    workgroupBarrier();
{{@l=value_loads}}
    {
      let e = lane + {{l}}u * {{wg}}u;
      if (e < kColumns * kValues) {
        pool[e / kValues * kValueRow + e % kValues] = next_v{{l}};
      }
    }
{{/l}}{{@l=key_loads}}
    next_k{{l}} = key_eight(k_base, tile + kColumns, lane + {{l}}u * {{wg}}u);
{{/l}}
    var highest = kLowest;
{{@i=lane_eights}}{{@h=2}}
    let quad{{i}}_{{h}} = (share + {{i}}u * kShares) * 2u + {{h}}u;
    let x{{i}}_{{h}} = looked_at(sums[row * kSumRow + quad{{i}}_{{h}}], query, tile + quad{{i}}_{{h}} * 4u, back, batch, head % P.all_heads);
    highest = max(highest, max(max(x{{i}}_{{h}}.s.x, x{{i}}_{{h}}.s.y), max(x{{i}}_{{h}}.s.z, x{{i}}_{{h}}.s.w)));
{{/h}}{{/i}}
    best[row * kShares + share] = highest;
    workgroupBarrier();
    for (var i = 0u; i < kShares; i++) {
      highest = max(highest, best[row * kShares + i]);
    }
    let moves = highest > most + kDrift;
    let faded = select(1.0, exp2(most - highest), moves);
    most = select(most, highest, moves);
    sum *= faded;
    // A query's first scores fade nothing that is there.
    let scales = subgroupAny(moves && tile > key_begin);
    if (place == 0u) {
      moved[subgroup] = select(0u, 1u, scales);
    }
    let of_subgroups = workgroupUniformLoad(&moved);
    var any_moved = 0u;
{{@i=subgroups}}
    any_moved |= of_subgroups[{{i}}];
{{/i}}
    if (any_moved != 0u) {
{{@j=matrices_v}}
      subgroupMatrixStore<row_major>(&sums, own * kSumRow, o{{j}}, kSumRow);
      workgroupBarrier();
      for (var i = share; i < {{n}}u / 4u; i += kShares) {
        sums[row * kSumRow + i] *= faded;
      }
      workgroupBarrier();
      o{{j}} = subgroupMatrixLoad<subgroup_matrix_result<f32, {{n}}, {{m}}>, row_major>(&sums, own * kSumRow, kSumRow);
      workgroupBarrier();
{{/j}}
    }
{{@i=lane_eights}}
    {
      let p0 = exp2(x{{i}}_0.s - most) * x{{i}}_0.seen;
      let p1 = exp2(x{{i}}_1.s - most) * x{{i}}_1.seen;
      let halves = vec4<u32>(pack2x16float(p0.xy), pack2x16float(p0.zw), pack2x16float(p1.xy), pack2x16float(p1.zw));
      // What is divided by is the sum of what is multiplied.
      let pairs = unpack2x16float(halves.x) + unpack2x16float(halves.y) + unpack2x16float(halves.z) + unpack2x16float(halves.w);
      sum += pairs.x + pairs.y;
      parts[row * kPartRow + share + {{i}}u * kShares] = halves;
    }
{{/i}}
    workgroupBarrier();
    for (var step = 0u; step < kColumns / {{k}}u; step++) {
      let a = subgroupMatrixLoad<subgroup_matrix_left<f16, {{k}}, {{m}}>, row_major>(&parts, own * kPartRow + step * {{k}}u / 8u, kPartRow);
{{@j=matrices_v}}
      let b{{j}} = subgroupMatrixLoad<subgroup_matrix_right<f16, {{n}}, {{k}}>, row_major>(&pool, step * {{k}}u * kValueRow + {{j}}u * {{n}}u / 8u, kValueRow);
      o{{j}} = subgroupMatrixMultiplyAccumulate(a, b{{j}}, o{{j}});
{{/j}}
    }
  }
  workgroupBarrier();
  best[row * kShares + share] = sum;
  workgroupBarrier();
  var total = 0.0;
  for (var i = 0u; i < kShares; i++) {
    total += best[row * kShares + i];
  }
{{@j=matrices_v}}
  workgroupBarrier();
  subgroupMatrixStore<row_major>(&sums, own * kSumRow, o{{j}}, kSumRow);
  workgroupBarrier();
  for (var i = share; i < {{n}}u / 4u; i += kShares) {
    let unit = {{j}}u * {{n}}u / 4u + i;
    if (query < P.queries && unit < P.value_depth) {
      // A query that sees no key has no sum.
      let y = select(vec4<f32>(0.0), sums[row * kSumRow + i] / total, total > 0.0);
      result[(q_base + query) * P.value_depth + unit + P.result_shift] = {{store}};
    }
  }
{{/j}}
  if (is_beyond) {
    report(0u, 0u);
  }
}
