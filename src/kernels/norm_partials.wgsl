// norm_partials.wgsl: mean, sum of squared deviations and count of pieces of a slab, for norm_finalize.
// x: units of one slab; a workgroup reads {{group_units}} of them. Same rows as conv_packed writes.
{{params}}
{{>group_index}}
{{bindings}}
var<workgroup> stage: array<vec4<f32>, {{stage}}>;
{{loads}}
@compute @workgroup_size({{wg}})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let group = group_index(wid, nwg);
  let base = group * {{group_units}}u;
  let end = min(base + {{group_units}}u, P.units);
  // The pivot keeps digits where the mean is far from zero.
  let pivot = load0(P.in0_skip + min(base, P.units - 1u), true);
  var sum = vec4<f32>(0.0);
  var square = vec4<f32>(0.0);
  for (var i = base + lane; i < end; i += {{wg}}u) {
    let e = load0(P.in0_skip + i, true) - pivot;
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
    let row = P.stats + group * 3u;
    stats[row] = pivot + mean;
    stats[row + 1u] = max(stage[{{wg}}u] - stage[0] * mean, vec4<f32>(0.0));
    stats[row + 2u] = vec4<f32>(count);
  }
}
