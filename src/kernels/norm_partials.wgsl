// norm_partials.wgsl: mean, sum of squared deviations and count of pieces of a channel map, for norm_finalize.
// in0: some quads of some planes; a workgroup reads {{group_units}} voxels of one quad. Same rows as conv_packed writes.
{{params}}
{{>group_index}}
{{bindings}}
var<workgroup> stage: array<vec4<f32>, {{stage}}>;

// Voxel i of the planes bound, of one quad.
fn voxel(quad: u32, i: u32) -> vec4<f32> {
  let raw = in0[P.in0_skip + i / {{plane_units}}u * {{slab_units}}u + quad * {{plane_units}}u + i % {{plane_units}}u];
  return {{unpack}};
}

@compute @workgroup_size({{wg}})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let group = group_index(wid, nwg);
  let quad = group / P.quad_groups;
  let base = group % P.quad_groups * {{group_units}}u;
  let end = min(base + {{group_units}}u, P.voxels);
  // The pivot keeps digits where the mean is far from zero.
  let pivot = voxel(quad, base);
  var sum = vec4<f32>(0.0);
  var square = vec4<f32>(0.0);
  for (var i = base + lane; i < end; i += {{wg}}u) {
    let e = voxel(quad, i) - pivot;
    sum += e;
    square += e * e;
  }
  stage[lane] = sum;
  stage[lane + {{wg}}u] = square;
  workgroupBarrier();
  for (var half = {{wg}}u / 2u; half > 0u; half /= 2u) {
    if (lane < half) {
      stage[lane] += stage[lane + half];
      stage[lane + {{wg}}u] += stage[lane + half + {{wg}}u];
    }
    workgroupBarrier();
  }
  if (lane == 0u && group < P.groups) {
    let count = f32(end - base);
    let mean = stage[0] / count;
    let row = P.stats + (quad * P.parts + group % P.quad_groups) * 3u;
    stats[row] = pivot + mean;
    stats[row + 1u] = max(stage[{{wg}}u] - stage[0] * mean, vec4<f32>(0.0));
    stats[row + 2u] = vec4<f32>(count);
  }
}
