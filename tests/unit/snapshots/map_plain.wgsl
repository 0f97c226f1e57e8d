struct Params {
  first_group: u32,
  groups: u32,
  begin: u32,
  end: u32,
  first_word: u32,
  words: u32,
  word_shift: u32,
  dim1: u32,
  x1_offset: u32,
  x1_stride1: u32,
  in0_shift: u32,
  in0_begin: u32,
  in0_count: u32,
  in1_shift: u32,
  in1_begin: u32,
  in1_count: u32,
  out_shift: u32,
}
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> in0: array<f32>;
@group(0) @binding(2) var<storage, read> in1: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
// The number of this workgroup in the line of groups that was folded into three axes.
fn group_index(wid: vec3<u32>, nwg: vec3<u32>) -> u32 {
  return P.first_group + wid.x + nwg.x * (wid.y + nwg.y * wid.z);
}

var<private> covered: bool;

fn read0(i: u32) -> f32 {
  let at = i + P.in0_shift;
  return in0[at];
}
fn read1(i: u32) -> f32 {
  let at = i + P.in1_shift;
  return in1[at];
}
fn element(o: u32) -> f32 {
  var rest = o;
  let c1 = rest % P.dim1;
  rest = rest / P.dim1;
  let c0 = rest;
  let x0 = read0(o);
  let x1 = read1(P.x1_offset + c1 * P.x1_stride1);
  let step0 = (x0 + x1);
  let step1 = act_tanh(step0);
  return step1;
}

// main.wgsl: the head of every entry point; a workgroup finds its number by group_index(wid, nwg).
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {

  let index = group_index(wid, nwg) * 64u + lane;
  if (index >= P.words) {
    return;
  }
  let at = P.first_word + index;
  var word = out[at + P.word_shift];
  for (var e = 0u; e < 1u; e++) {
    let o = at * 1u + e;
    if (o < P.begin || o >= P.end) {
      continue;
    }
    covered = true;
    let value = element(o);
    if (covered) {
      word = value;
    }
  }
  out[at + P.word_shift] = word;
}
