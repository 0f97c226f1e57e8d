// map_packed.wgsl: {{name}}. out[unit] = f(…) over quads of channels; one thread makes one quad of one voxel.
{{>elementwise}}
{{params}}
{{>group_index}}
{{bindings}}
const kPlaneUnits = {{plane_units}}u;
const kImageUnits = {{image_units}}u;
const kQuads = {{quads}}u;

@compute @workgroup_size({{wg}})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let index = group_index(wid, nwg) * {{wg}}u + lane;
  if (index >= P.units) {
    return;
  }
  let unit = P.begin + index;
  let quad = unit / kPlaneUnits % kQuads;
{{statements}}
  var y = {{result}};
{{#mask}}
  // Lanes beyond the last channel stay zero.
  if (quad == kQuads - 1u) {
    y = select(vec4<f32>(0.0), y, {{mask}});
  }
{{/mask}}
  out[unit + P.out_shift] = {{pack}};
}
