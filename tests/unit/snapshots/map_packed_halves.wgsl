struct Params {
  first_group: u32,
  groups: u32,
  begin: u32,
  units: u32,
  in1_shift: u32,
  out_shift: u32,
}
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> in1: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> out: array<vec2<u32>>;
// The number of this workgroup in the line of groups that was folded into three axes.
fn group_index(wid: vec3<u32>, nwg: vec3<u32>) -> u32 {
  return P.first_group + wid.x + nwg.x * (wid.y + nwg.y * wid.z);
}

// main.wgsl: the head of every entry point; a workgroup finds its number by group_index(wid, nwg).
@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {

  let index = group_index(wid, nwg) * 128u + lane;
  if (index >= P.units) {
    return;
  }
  let kQuads = 2u;
  let unit = P.begin + index;
  let quad = unit / 12u % kQuads;
  let image = unit / 48u;
  let raw_x0 = out[unit + P.out_shift];
  let x0 = vec4<f32>(unpack2x16float(raw_x0.x), unpack2x16float(raw_x0.y));
  let raw_x1 = in1[quad + P.in1_shift];
  let x1 = raw_x1;
  let step0 = act_sigmoid(x0);
  let step1 = (step0 * x1);
  let step2 = (step1 + x0);

  var y = step2;

  out[unit + P.out_shift] = vec2<u32>(pack2x16float(y.xy), pack2x16float(y.zw));
}
