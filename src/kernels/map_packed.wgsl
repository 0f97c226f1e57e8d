// map_packed.wgsl: {{title}}. out[unit] = f(…) over quads of channels; one thread makes one quad of one voxel.
{{>elementwise}}
{{>random}}
{{head}}
{{main}}
  let index = group_index(wid, nwg) * {{wg}}u + lane;
  if (index >= P.units) {
    return;
  }
  let kQuads = {{quads}};
  let unit = P.begin + index;
  let quad = unit / {{plane_units}} % kQuads;
  let image = unit / {{image_units}};{{#indexed}}
  let plane = unit / ({{plane_units}} * kQuads) % ({{image_units}} / ({{plane_units}} * kQuads));
  let channel = image * {{channels}} + quad * 4u + vec4<u32>(0u, 1u, 2u, 3u);
  let place = channel * ({{image_units}} / kQuads) + plane * {{plane_units}} + unit % {{plane_units}};{{/indexed}}
{{statements}}
  var y = {{result}};
{{#mask}}
  // Lanes beyond the last channel stay zero.
  if (quad == kQuads - 1u) {
    y = select(vec4<f32>(0.0), y, vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(P.tail));
  }
{{/mask}}
  out[unit + P.out_shift] = {{store}};
}
