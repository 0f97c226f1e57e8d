// norm_partials.wgsl: mean, sum of squared deviations and count of pieces of a channel map, for norm_finalize.
// x: some quads of some planes, from unit P.first on; a workgroup reads {{group_units}} voxels of one quad.
{{head}}
{{>statistics}}
// Voxel i of the planes bound, of one quad.
fn voxel(quad: u32, i: u32) -> vec4<f32> {
  let raw = x[P.first + P.x_shift + i / P.plane_units * P.slab_units + quad * P.plane_units + i % P.plane_units];
  return {{unpack}};
}

{{main}}
  let group = group_index(wid, nwg);
  let quad = group / P.quad_groups;
  let base = group % P.quad_groups * {{group_units}}u;
  let end = min(base + {{group_units}}u, P.voxels);
  let pivot = voxel(quad, base);
  var sum = vec4<f32>(0.0);
  var square = vec4<f32>(0.0);
  var count = 0.0;
  for (var i = base + lane; i < end; i += {{wg}}u) {
    let e = voxel(quad, i) - pivot;
    sum += e;
    square += e * e;
    count += 1.0;
  }
  gather(lane, P.stats + (quad * P.parts + group % P.quad_groups) * 3u, group < P.groups, pivot, sum, square, count);
}
