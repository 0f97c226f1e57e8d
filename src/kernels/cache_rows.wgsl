// cache_rows.wgsl: heads of queries, keys and values side by side in the rows of `x`. Queries and keys are normed and
// turned in place; keys and values go to the rows of the cache that `turns` names, keys before values. One workgroup
// takes one head of one row. Of inactive rows (a negative position) nothing is written.
{{head}}
{{main}}
  let group = min(group_index(wid, nwg), P.groups - 1u);
  let all_heads = P.heads + 2u * P.kv_heads;
  let head = P.first_head + group % P.head_count;
  let row = group / P.head_count;
  let first = row * all_heads * P.depth + head * P.depth;
  let width = P.half * 2u + 2u;
  let turn = row * width + P.turns_shift;
  let position = turns[turn + width - 1u];
  for (var d = lane; d < P.depth; d += {{wg}}u) {
    held[d] = x[first + d + P.x_shift];
  }
{{#rotate}}
{{#norm}}
  {
    workgroupBarrier();
    var sum = 0.0;
    for (var d = lane; d < P.depth; d += {{wg}}u) {
      sum += held[d] * held[d];
    }
    stage[lane] = sum;
    workgroupBarrier();
    for (var half = {{wg}}u / 2u; half > 0u; half /= 2u) {
      if (lane < half) {
        stage[lane] += stage[lane + half];
      }
      workgroupBarrier();
    }
    let spread = inverseSqrt(stage[0] / f32(P.depth) + bitcast<f32>(P.eps));
    let offset = select(0u, P.depth, head >= P.heads);
    for (var d = lane; d < P.depth && head < P.heads + P.kv_heads; d += {{wg}}u) {
      held[d] *= spread * gamma[offset + d + P.gamma_shift];
    }
  }
{{/norm}}
  workgroupBarrier();
  for (var i = lane; i < P.half && head < P.heads + P.kv_heads; i += {{wg}}u) {
    let c = turns[turn + 2u * i];
    let s = turns[turn + 2u * i + 1u];
{{#halves}}
    let p = i;
    let q = i + P.half;
{{/halves}}{{^halves}}
    let p = 2u * i;
    let q = 2u * i + 1u;
{{/halves}}
    let a = held[p];
    let b = held[q];
    held[p] = a * c - b * s;
    held[q] = b * c + a * s;
  }
{{/rotate}}
  workgroupBarrier();
{{#rotate}}
  if (head < P.heads + P.kv_heads) {
    for (var d = lane; d < P.depth; d += {{wg}}u) {
      x[first + d + P.x_shift] = held[d];
    }
  }
{{/rotate}}
{{#store}}
  let to = u32(max(turns[turn + width - 2u] + position, 0.0));
  let inside = head >= P.heads && position >= 0.0 && to >= P.first_row && to < P.end_row;
  let at = to * P.row_units + (head - min(head, P.heads)) * P.head_units + P.cache_shift;
{{#singles}}
  for (var d = lane; d < P.depth && inside; d += {{wg}}u) {
    cache[at + d] = held[d];
  }
{{/singles}}{{#half_floats}}
  for (var d = lane; d < P.depth / 2u && inside; d += {{wg}}u) {
    cache[at + d] = pack2x16float(vec2<f32>(held[2u * d], held[2u * d + 1u]));
  }
{{/half_floats}}{{#bytes}}
  var most = 0.0;
  for (var d = lane; d < P.depth; d += {{wg}}u) {
    most = max(most, abs(held[d]));
  }
  stage[lane] = most;
  workgroupBarrier();
  for (var half = {{wg}}u / 2u; half > 0u; half /= 2u) {
    if (lane < half) {
      stage[lane] = max(stage[lane], stage[lane + half]);
    }
    workgroupBarrier();
  }
  let scale = stage[0] / 127.0;
  let inverse = select(127.0 / stage[0], 0.0, stage[0] == 0.0);
  if (lane == 0u && inside) {
    cache[at] = bitcast<u32>(scale);
  }
  for (var d = lane; d < P.depth / 4u && inside; d += {{wg}}u) {
    let four = vec4<f32>(held[4u * d], held[4u * d + 1u], held[4u * d + 2u], held[4u * d + 3u]);
    let q = bitcast<vec4<u32>>(vec4<i32>(round(four * inverse))) & vec4<u32>(255u);
    cache[at + 1u + d] = q.x | (q.y << 8u) | (q.z << 16u) | (q.w << 24u);
  }
{{/bytes}}
{{/store}}
}
