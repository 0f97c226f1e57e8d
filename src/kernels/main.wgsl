// main.wgsl: the head of every entry point; a workgroup finds its number by group_index(wid, nwg).
@compute @workgroup_size({{wg}})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>,
        @builtin(local_invocation_index) lane: u32{{#matrices}},
        @builtin(subgroup_id) subgroup: u32, @builtin(subgroup_invocation_id) place: u32{{/matrices}}) {
