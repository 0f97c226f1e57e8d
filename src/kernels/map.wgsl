// map.wgsl: {{name}}. out[o] = element(o) over a plain result; one thread makes one 4-byte word of it.
// Elements outside [P.begin, P.end) and those whose sources lie outside the bound windows keep their old value.
{{>elementwise}}
{{params}}
{{>group_index}}
{{bindings}}
var<private> covered: bool;

{{functions}}
@compute @workgroup_size({{wg}})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let index = group_index(wid, nwg) * {{wg}}u + lane;
  if (index >= P.words) {
    return;
  }
  let at = P.first_word + index;
  var word = out[at + P.word_shift];
  for (var e = 0u; e < {{per_word}}u; e++) {
    let o = at * {{per_word}}u + e;
    if (o < P.begin || o >= P.end) {
      continue;
    }
    covered = true;
    let value = element(o);
    if (covered) {
      {{insert}}
    }
  }
  out[at + P.word_shift] = word;
}
