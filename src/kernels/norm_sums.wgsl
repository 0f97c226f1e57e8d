// norm_sums.wgsl: Σ g and Σ g (x - mean) over pieces of a channel map, for norm_sums_finish: rows of two vec4.
// x and g: some quads of some planes of one image, from unit P.first on, or all quads of several images, each
// P.image_units behind the last; a workgroup reads {{group_units}} voxels of one quad. A slab is a quad of an image.
{{head}}
{{>pair_sum}}
fn x_at(unit: u32) -> vec4<f32> {
  let raw = x[unit + P.x_shift];
  return {{unpack_x}};
}

fn g_at(unit: u32) -> vec4<f32> {
  let raw = g[unit + P.g_shift];
  return {{unpack_g}};
}

// The mean of channel c of an image; there are none beyond the last.
fn mean_of(image: u32, c: u32) -> f32 {
  return statistics[P.statistics_shift + (image * P.channels + min(c, P.channels - 1u)) * 2u];
}

{{main}}
  let group = group_index(wid, nwg);
  let slab = group / P.quad_groups;
  let at = P.first + slab / P.quads * P.image_units + slab % P.quads * P.plane_units;
  let image = min(P.image + slab / P.quads, P.images - 1u);
  let base = group % P.quad_groups * {{group_units}}u;
  let end = min(base + {{group_units}}u, P.voxels);
  let c = (P.first_quad + slab % P.quads) * 4u;
  let mean = vec4<f32>(mean_of(image, c), mean_of(image, c + 1u), mean_of(image, c + 2u), mean_of(image, c + 3u));
  var first = vec4<f32>(0.0);
  var second = vec4<f32>(0.0);
  for (var i = base + lane; i < end; i += {{wg}}u) {
    let unit = at + i / P.plane_units * P.slab_units + i % P.plane_units;
    let slope = g_at(unit);
    first += slope;
    second += slope * (x_at(unit) - mean);
  }
  sum_pair(lane, first, second);
  if (lane == 0u && group < P.groups) {
    let row = P.sums + (slab * P.parts + group % P.quad_groups) * 2u;
    sums[row] = firsts[0];
    sums[row + 1u] = seconds[0];
  }
}
