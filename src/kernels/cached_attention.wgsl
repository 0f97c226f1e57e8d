// cached_attention.wgsl: softmax over the keys j <= position of a row of (q · k[j] * scale), times v[j]; one workgroup
// makes one head of one row and loops over its keys alone, {{wg}} at a time: lanes score a key each, then share quads of the values.
{{#parts}}
// The cache is bound in several windows; each merges its largest score, sum and values into those so far, and
// attention_finish divides.
{{/parts}}
{{#softcap}}
{{>elementwise}}
{{/softcap}}
{{head}}
{{#bytes}}
fn quad_at(at: u32, q: u32) -> vec4<f32> {
  let word = bitcast<i32>(cache[at + 1u + q]);
  return bitcast<f32>(cache[at]) * vec4<f32>((vec4<i32>(word) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u));
}
{{/bytes}}{{^bytes}}
fn quad_at(at: u32, q: u32) -> vec4<f32> {
  let unit = cache[at + q];
  return {{unpack_unit}};
}
{{/bytes}}

fn query_at(i: u32) -> vec4<f32> {
  let at = i + P.x_shift;
  return vec4<f32>(x[at], x[at + 1u], x[at + 2u], x[at + 3u]) * bitcast<f32>(P.scale);
}

{{main}}
  let group = min(group_index(wid, nwg), P.groups - 1u);
  let head = group % P.heads;
  let row = group / P.heads;
  let kv = head * P.kv_heads / P.heads;
  let quads = P.depth / 4u;
  let turn = row * P.width + P.turns_shift + P.width - 2u;
  let position = turns[turn + 1u];
  // Rows of the cache that this row of x sees.
  let sequence = u32(turns[turn]);
  let last = i32(position);
  let oldest = {{#window}}max(last + 1 - i32(P.window), 0){{/window}}{{^window}}0{{/window}};
  let begin = max(sequence + u32(oldest), P.first_row);
  let end = min(sequence + u32(last + 1), P.end_row);
{{#holds_query}}
  for (var q = lane; q < quads; q += {{wg}}u) {
    query[q] = query_at(row * P.x_width + head * P.depth + q * 4u);
  }
{{/holds_query}}
{{#parts}}
  let own = group * (P.depth + 2u) + P.sums_shift;
{{#first}}
  let most_before = -3.4028234663852886e38;
  let sum_before = 0.0;
{{/first}}{{^first}}
  let most_before = sums[own + P.depth];
  let sum_before = sums[own + P.depth + 1u];
{{/first}}
{{/parts}}
  let parts = {{wg}}u / min(quads, {{wg}}u);
  let part = lane / min(quads, {{wg}}u);
  let quad = lane % min(quads, {{wg}}u);
  var most = -3.4028234663852886e38;
  var sum = 0.0;
{{@i=wide}}
  var y{{i}} = vec4<f32>(0.0);
{{/i}}
  for (var tile = begin; tile < end; tile += {{wg}}u) {
    workgroupBarrier();
    let key = tile + lane;
    var score = -3.4028234663852886e38;
    if (key < end) {
      let at = key * P.row_units + kv * P.head_units + P.cache_shift;
      var four = vec4<f32>(0.0);
{{#fours}}
      for (var q = 0u; q < quads; q += 4u) {
{{@u=4}}
        let key{{u}} = quad_at(at, q + {{u}}u);
{{/u}}
{{@u=4}}
        four = fma({{#holds_query}}query[q + {{u}}u]{{/holds_query}}{{^holds_query}}query_at(row * P.x_width + head * P.depth + q * 4u + {{u}}u * 4u){{/holds_query}}, key{{u}}, four);
{{/u}}
      }
{{/fours}}{{^fours}}
      for (var q = 0u; q < quads; q++) {
        four = fma({{#holds_query}}query[q]{{/holds_query}}{{^holds_query}}query_at(row * P.x_width + head * P.depth + q * 4u){{/holds_query}}, quad_at(at, q), four);
      }
{{/fours}}
      score = dot(four, vec4<f32>(1.0));
{{#softcap}}
      score = bitcast<f32>(P.softcap) * act_tanh(score / bitcast<f32>(P.softcap));
{{/softcap}}
    }
    stage[lane] = score;
    workgroupBarrier();
    for (var half = {{wg}}u / 2u; half > 0u; half /= 2u) {
      if (lane < half) {
        stage[lane] = max(stage[lane], stage[lane + half]);
      }
      workgroupBarrier();
    }
    let largest = max(most, stage[0]);
    workgroupBarrier();
    let share = select(0.0, exp(score - largest), key < end);
    shares[lane] = share;
    stage[lane] = share;
    workgroupBarrier();
    for (var half = {{wg}}u / 2u; half > 0u; half /= 2u) {
      if (lane < half) {
        stage[lane] += stage[lane + half];
      }
      workgroupBarrier();
    }
    let less = exp(most - largest);
    sum = sum * less + stage[0];
    most = largest;
{{@i=wide}}
    y{{i}} *= less;
{{/i}}
    let count = min(end - tile, {{wg}}u);
    // Four keys at a time, so that their values come side by side.
    for (var j = part; j < count && part < parts; j += 4u * parts) {
{{@u=4}}
      let j{{u}} = min(j + {{u}}u * parts, count - 1u);
      let share{{u}} = select(0.0, shares[j{{u}}], j + {{u}}u * parts < count);
      let at{{u}} = (tile + j{{u}}) * P.row_units + (P.kv_heads + kv) * P.head_units + P.cache_shift;
{{@i=wide}}
      let value{{u}}_{{i}} = quad_at(at{{u}}, min(quad + {{i}}u * {{wg}}u, quads - 1u));
{{/i}}{{/u}}
{{@u=4}}{{@i=wide}}
      y{{i}} = fma(vec4<f32>(share{{u}}), value{{u}}_{{i}}, y{{i}});
{{/i}}{{/u}}
    }
  }
{{@i=wide}}
  workgroupBarrier();
  made[lane] = y{{i}};
  workgroupBarrier();
  if (part == 0u && quad + {{i}}u * {{wg}}u < quads) {
    var all = made[lane];
    for (var p = 1u; p < parts; p++) {
      all += made[lane + p * quads];
    }
    let at = quad + {{i}}u * {{wg}}u;
{{#parts}}
    let larger = max(most, most_before);
    for (var l = 0u; l < 4u; l++) {
      let o = own + at * 4u + l;
      sums[o] = all[l] * exp(most - larger){{^first}} + sums[o] * exp(most_before - larger){{/first}};
    }
{{/parts}}{{^parts}}
    all = select(all / sum, vec4<f32>(0.0), sum == 0.0);
    for (var l = 0u; l < 4u; l++) {
      let value = all[l];
      result[group * P.depth + at * 4u + l + P.result_shift] = {{store}};
    }
{{/parts}}
  }
{{/i}}
{{#parts}}
  if (lane == 0u) {
    let larger = max(most, most_before);
    sums[own + P.depth] = larger;
    sums[own + P.depth + 1u] = sum * exp(most - larger) + sum_before * exp(most_before - larger);
  }
{{/parts}}
}
