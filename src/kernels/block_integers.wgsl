// block_integers.wgsl: row of integers q of {{bits}} bits: scales (singles), zeros (bytes), integers from the lowest bits on; P.group
// columns share a scale: scale (q - zero).
fn group_of(column: u32) -> u32 {
  return min(column / P.group, P.scales - 1u);
}

fn scale_of(row: u32, group: u32) -> f32 {
  return bitcast<f32>(weights[row / 4u + group]);
}

fn zero_of(row: u32, group: u32) -> f32 {
{{#zeros}}
  return f32(byte_at(row + P.scales * 4u + group));
{{/zeros}}{{^zeros}}
  return f32(1u << ({{bits}}u - 1u));
{{/zeros}}
}

// Integers 4 i to 4 i + 3 of a unit.
fn quad_of(row: u32, unit: u32, i: u32) -> vec4<u32> {
  let word = weights[row / 4u + P.values + unit * {{bits}}u + i * {{bits}}u / 8u];
  let first = i * {{bits}}u * 4u % 32u;
  return (vec4<u32>(word) >> (vec4<u32>(0u, 1u, 2u, 3u) * {{bits}}u + first)) & vec4<u32>((1u << {{bits}}u) - 1u);
}

{{#whole}}
fn scaled(row: u32, unit: u32) -> Scaled {
  let group = group_of(unit * 32u);
  let steps = f32(1u << {{bits}}u);
  let scale = scale_of(row, group);
  var w: Scaled;
  w.scale = scale * steps;
  w.least = -scale * (steps + zero_of(row, group));
{{@i=8}}
  // 1 + q / 2^bits
  w.q[{{i}}] = bitcast<vec4<f32>>((quad_of(row, unit, {{i}}u) << vec4<u32>(23u - {{bits}}u)) | vec4<u32>(0x3f800000u));
{{/i}}
  return w;
}

{{/whole}}
fn unpack(row: u32, unit: u32) -> array<vec4<f32>, 8> {
  var w: array<vec4<f32>, 8>;
{{@h=2}}
  {
    let group = group_of(unit * 32u + {{h}}u * 16u);
    let scale = scale_of(row, group);
    let zero = 8388608.0 + zero_of(row, group);
{{@i=4}}
    w[{{h}} * 4 + {{i}}] = scale * (bitcast<vec4<f32>>(quad_of(row, unit, {{h}}u * 4u + {{i}}u) | vec4<u32>(0x4b000000u)) - zero);
{{/i}}
  }
{{/h}}
  return w;
}
