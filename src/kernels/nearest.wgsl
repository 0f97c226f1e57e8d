// nearest.wgsl: indices and distances [m][k] of the points [n][d] nearest to queries [m][d], nearest first, of equal
// distances the lower index first. {{#dot}}A distance is 1 - q·p.{{/dot}}{{^dot}}A distance is the sum of squared differences.{{/dot}} One thread keeps the list of one query, in
// memory; points come in the order of their indices, so that one that is not nearer than the last of a full list has no
// place. A dispatch sees some of the points; what earlier ones found is in the lists already.
{{head}}
{{main}}
  let index = group_index(wid, nwg) * {{wg}}u + lane;
  if (index >= P.query_count) {
    return;
  }
  let q = P.query_begin + index;
  let list = q * P.k;
  let row = q * P.d + P.queries_shift;
  let own = {{#skip_self}}q{{/skip_self}}{{^skip_self}}0xffffffffu{{/skip_self}};
  var filled = min(P.k, P.point_begin - select(0u, 1u, own < P.point_begin));
  var worst = 0.0;
  if (filled == P.k) {
    worst = distances[list + P.k - 1u + P.distances_shift];
  }
  let end = P.point_begin + P.point_count;
  for (var first = P.point_begin; first < end; first += 4u) {
    let rows = min(vec4<u32>(first) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(end - 1u)) * P.d + P.points_shift;
    var sum = vec4<f32>({{#dot}}1.0{{/dot}}{{^dot}}0.0{{/dot}});
    for (var c = 0u; c < P.d; c++) {
      let near = vec4<f32>(points[rows.x + c], points[rows.y + c], points[rows.z + c], points[rows.w + c]);
{{#dot}}
      sum -= queries[row + c] * near;
{{/dot}}{{^dot}}
      let apart = queries[row + c] - near;
      sum += apart * apart;
{{/dot}}
    }
    for (var j = 0u; j < 4u; j++) {
      let p = first + j;
      let distance = sum[j];
      if (p >= end || p == own || (filled == P.k && !(distance < worst))) {
        continue;
      }
      var at = min(filled, P.k - 1u);
      while (at > 0u && distances[list + at - 1u + P.distances_shift] > distance) {
        distances[list + at + P.distances_shift] = distances[list + at - 1u + P.distances_shift];
        indices[list + at + P.indices_shift] = indices[list + at - 1u + P.indices_shift];
        at--;
      }
      distances[list + at + P.distances_shift] = {{store}};
      indices[list + at + P.indices_shift] = i32(p);
      filled = min(filled + 1u, P.k);
      if (filled == P.k) {
        worst = distances[list + P.k - 1u + P.distances_shift];
      }
    }
  }
}
