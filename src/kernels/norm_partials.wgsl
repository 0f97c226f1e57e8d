// norm_partials.wgsl: mean, sum of squared deviations and count of pieces of a channel map, for norm_finalize.
// x: some quads of some planes of one image, from unit P.first on, or all quads of several images, each P.image_units
// behind the last; a workgroup reads {{group_units}} voxels of one quad. A slab is a quad of an image.
{{head}}
{{>statistics}}
// Voxel i of the planes of one slab, whose first unit is `at`.
fn voxel(at: u32, i: u32) -> vec4<f32> {
  let raw = x[at + i / P.plane_units * P.slab_units + i % P.plane_units];
  return {{unpack}};
}

{{main}}
  let group = group_index(wid, nwg);
  let slab = group / P.quad_groups;
  let at = P.first + P.x_shift + slab / P.quads * P.image_units + slab % P.quads * P.plane_units;
  let base = group % P.quad_groups * {{group_units}}u;
  let end = min(base + {{group_units}}u, P.voxels);
  let pivot = voxel(at, base);
  var sum = vec4<f32>(0.0);
  var square = vec4<f32>(0.0);
  var count = 0.0;
  for (var i = base + lane; i < end; i += {{wg}}u) {
    let e = voxel(at, i) - pivot;
    sum += e;
    square += e * e;
    count += 1.0;
  }
  gather(lane, P.stats + (slab * P.parts + group % P.quad_groups) * 3u, group < P.groups, pivot, sum, square, count);
}
