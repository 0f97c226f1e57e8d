// reduce.wgsl: {{name}}. output[o] = combine over r of input[kept(o) + reduced(r)], plain tensors.
// Inputs outside the bound window count as the identity; where this is not the first window the result so far is
// combined in. Grouped: a workgroup makes one result, its lanes combine in a tree; else a thread makes one.
{{params}}
{{>group_index}}
{{bindings}}
{{#grouped}}
var<workgroup> stage: array<{{type}}, {{wg}}>;
{{/grouped}}
fn kept_index(o: u32) -> u32 {
{{kept_index}}}

fn reduced_index(r: u32) -> u32 {
{{reduced_index}}}

fn combine(a: {{type}}, b: {{type}}) -> {{type}} {
  return {{combine}};
}

// The contribution of position r to result o.
fn contribution(o: u32, base: u32, r: u32) -> {{type}} {
  let i = base + reduced_index(r);
  if (i - P.in_begin >= P.in_count) {
    return {{identity}};
  }
  let at = i + P.in_shift;
  let value = {{element}};
{{#position}}
  return select({{identity}}, r, value == best[o + P.best_shift]);
{{/position}}{{^position}}
  return value;
{{/position}}
}

@compute @workgroup_size({{wg}})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
{{#grouped}}
  let index = group_index(wid, nwg);
  let inside = index < P.out_count;
  let o = P.out_begin + min(index, P.out_count - 1u);
  let base = kept_index(o);
  var value = {{identity}};
  for (var r = lane; r < P.reduced; r += {{wg}}u) {
    value = combine(value, contribution(o, base, r));
  }
  stage[lane] = value;
  workgroupBarrier();
  for (var half = {{wg}}u / 2u; half > 0u; half /= 2u) {
    if (lane < half) {
      stage[lane] = combine(stage[lane], stage[lane + half]);
    }
    workgroupBarrier();
  }
  if (lane != 0u || !inside) {
    return;
  }
  value = stage[0];
{{/grouped}}{{^grouped}}
  let index = group_index(wid, nwg) * {{wg}}u + lane;
  if (index >= P.out_count) {
    return;
  }
  let o = P.out_begin + index;
  let base = kept_index(o);
  var value = {{identity}};
  for (var r = 0u; r < P.reduced; r++) {
    value = combine(value, contribution(o, base, r));
  }
{{/grouped}}
{{^first}}
  value = combine(value, output[o + P.out_shift]);
{{/first}}
{{#scale}}
  value = value * bitcast<f32>(P.scale);
{{/scale}}
  output[o + P.out_shift] = value;
}
