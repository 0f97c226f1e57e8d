// splat_blend.wgsl: picture[y][x] = sum of colour · covered · light over the splats of the tile, the nearest first, and the
// light that is left: light becomes light · (1 - covered); a pixel is done before it would fall below P.threshold. What
// falls outside the bound window of the picture is left to other dispatches.
{{head}}
{{>splat_parts}}

{{main}}
  let index = group_index(wid, nwg);
  let tile = index / {{blocks}}u;
  let in_tile = index % {{blocks}}u * {{wg}}u + lane;
  let x = tile % P.across * 16u + in_tile % 16u;
  let y = tile / P.across * 16u + in_tile / 16u;
  let centre = vec2<f32>(f32(x), f32(y)) + 0.5;
  let first_place = u32(lists[min(tile, P.tiles) + P.lists_shift]);
  let end = u32(lists[min(tile + 1u, P.tiles) + P.lists_shift]);
  let threshold = bitcast<f32>(P.threshold);
  let inside = tile < P.tiles && x < P.width && y < P.height;
  var colour = vec3<f32>();
  var light = 1.0;
  var done = !inside;
  for (var first = first_place; first < end; first += {{batch}}u) {
    if (lane == 0u) {
      atomicStore(&seeing[0], 0u);
    }
    load_batch(first, end, lane);
    workgroupBarrier();
    for (var j = 0u; j < min({{batch}}u, end - first) && !done; j++) {
      let covered = coverage(j, vec2<f32>(batch[j * 9u], batch[j * 9u + 1u]) - centre);
      if (covered == 0.0) {
        continue;
      }
      done = light * (1.0 - covered) < threshold;
      if (!done) {
        colour += colour_of(j) * (covered * light);
        light *= 1.0 - covered;
      }
    }
    if (!done) {
      atomicStore(&seeing[0], 1u);
    }
    workgroupBarrier();
    if (lane == 0u) {
      go_on[0] = atomicLoad(&seeing[0]);
    }
    if (workgroupUniformLoad(&go_on[0]) == 0u) {
      break;
    }
  }
  let at = (y * P.width + x) * 4u;
  let values = vec4<f32>(colour, light);
  for (var c = 0u; c < 4u; c++) {
    if (inside && at + c - P.picture_begin < P.picture_count) {
      picture[at + c + P.picture_shift] = {{store}};
    }
  }
}
