// splat_blend_back.wgsl: adds the gradient of each splat in each tile to result[place][9]. The light before a splat is
// made again from front to back; the colour behind it is the picture less the colour so far. Every gradient is a sum
// over pixels of one number, by_colour or by_power, times 1, dx, dy, dx², dx dy or dy²: lanes first make those numbers for
// their pixel and all splats of the batch, then sum some pixels of one splat, then all. A dispatch has pixels
// [P.first_pixel, P.first_pixel + {{wg}}) of every tile, so that sums have an order that never changes. pixels: picture
// and gradient [height][width][8].
{{head}}
{{>splat_parts}}

// The gradient of number v of splat j from the sums of its moments.
fn derivative(j: u32, v: u32) -> f32 {
  let s = j * 9u;
  let sum_x = sums[s + 1u];
  let sum_y = sums[s + 2u];
  switch v {
    case 0u: {
      return -(batch[s + 2u] * sum_x + batch[s + 3u] * sum_y);
    }
    case 1u: {
      return -(batch[s + 4u] * sum_y + batch[s + 3u] * sum_x);
    }
    case 2u: {
      return -0.5 * sums[s + 3u];
    }
    case 3u: {
      return -sums[s + 4u];
    }
    case 4u: {
      return -0.5 * sums[s + 5u];
    }
    case 5u: {
      return sums[s] / batch[s + 5u];
    }
    default: {
      return sums[s + v];
    }
  }
}

{{main}}
  let tile = group_index(wid, nwg);
  let corner = vec2<u32>(tile % P.across, tile / P.across) * 16u;
  let in_tile = P.first_pixel + lane;
  let x = corner.x + in_tile % 16u;
  let y = corner.y + in_tile / 16u;
  let inside = tile < P.tiles && x < P.width && y < P.height;
  let at = select(0u, (y * P.width + x) * 8u, inside) + P.pixels_shift;
  var behind = vec3<f32>(pixels[at], pixels[at + 1u], pixels[at + 2u]);
  let left = pixels[at + 3u];
  let by_light = select(0.0, pixels[at + 7u], inside);
  let by_pixel = select(vec3<f32>(), vec3<f32>(pixels[at + 4u], pixels[at + 5u], pixels[at + 6u]), inside);
  for (var c = 0u; c < 3u; c++) {
    gradient[lane * 3u + c] = by_pixel[c];
  }
  let centre = vec2<f32>(f32(x), f32(y)) + 0.5;
  let first_place = u32(lists[min(tile, P.tiles) + P.lists_shift]);
  let end = u32(lists[min(tile + 1u, P.tiles) + P.lists_shift]);
  let threshold = bitcast<f32>(P.threshold);
  var light = 1.0;
  var done = !inside;
  for (var first = first_place; first < end; first += {{batch}}u) {
    if (lane == 0u) {
      atomicStore(&seeing[0], 0u);
    }
    load_batch(first, end, lane);
    workgroupBarrier();
    for (var j = 0u; j < {{batch}}u; j++) {
      var by_colour = 0.0;
      var by_power = 0.0;
      if (!done && first + j < end) {
        let covered = coverage(j, vec2<f32>(batch[j * 9u], batch[j * 9u + 1u]) - centre);
        done = covered > 0.0 && light * (1.0 - covered) < threshold;
        if (covered > 0.0 && !done) {
          by_colour = covered * light;
          let colour = colour_of(j);
          behind -= colour * by_colour;
          let by_covered = dot(by_pixel, colour * light - behind / (1.0 - covered)) - by_light * left / (1.0 - covered);
          by_power = select(by_covered * covered, 0.0, covered >= kMostCovered);
          light *= 1.0 - covered;
        }
      }
      stage[(j * {{wg}}u + lane) * 2u] = by_colour;
      stage[(j * {{wg}}u + lane) * 2u + 1u] = by_power;
    }
    if (!done) {
      atomicStore(&seeing[0], 1u);
    }
    workgroupBarrier();

    // {{batch}} pixels of one splat; gradients of colours are by_colour times that of the pixel.
    let j = lane % {{batch}}u;
    let part = lane / {{batch}}u;
    var some = array<f32, 9>();  // said, since compilers were seen that clear it once, not in every turn
    for (var p = part * {{batch}}u; p < (part + 1u) * {{batch}}u; p++) {
      let by_colour = stage[(j * {{wg}}u + p) * 2u];
      let by_power = stage[(j * {{wg}}u + p) * 2u + 1u];
      let pixel = P.first_pixel + p;
      let away = vec2<f32>(batch[j * 9u], batch[j * 9u + 1u]) -
                 (vec2<f32>(corner + vec2<u32>(pixel % 16u, pixel / 16u)) + 0.5);
      some[0] += by_power;
      some[1] += by_power * away.x;
      some[2] += by_power * away.y;
      some[3] += by_power * away.x * away.x;
      some[4] += by_power * away.x * away.y;
      some[5] += by_power * away.y * away.y;
      for (var c = 0u; c < 3u; c++) {
        some[6u + c] += by_colour * gradient[p * 3u + c];
      }
    }
    workgroupBarrier();
    for (var v = 0u; v < 9u; v++) {
      stage[lane * 9u + v] = some[v];
    }
    workgroupBarrier();
    for (var i = lane; i < {{batch}}u * 9u; i += {{wg}}u) {
      var sum = 0.0;
      for (var q = i / 9u; q < {{wg}}u; q += {{batch}}u) {
        sum += stage[q * 9u + i % 9u];
      }
      sums[i] = sum;
    }
    if (lane == 0u) {
      go_on[0] = atomicLoad(&seeing[0]);
    }
    workgroupBarrier();
    for (var i = lane; i < {{batch}}u * 9u; i += {{wg}}u) {
      let o = first * 9u + i;
      if (tile < P.tiles && first + i / 9u < end && o - P.result_begin < P.result_count) {
        let value = result[o + P.result_shift] + derivative(i / 9u, i % 9u);
        result[o + P.result_shift] = {{store}};
      }
    }
    if (workgroupUniformLoad(&go_on[0]) == 0u) {
      break;
    }
  }
}
