// argmax_packed.wgsl: label[v] = the o with the largest logits[o,v]; the lowest o on ties.
// logits: quads of classes [planes][O/4][{{plane}}] of vec4 f32, a window's worth; labels: plain, P.per_word to a word.
// One thread makes one word of labels; labels of the word outside [P.begin, P.end) keep their old value.
{{params}}
{{>group_index}}
@group(0) @binding(1) var<storage, read> logits: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> labels: array<u32>;

@compute @workgroup_size({{wg}})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let index = group_index(wid, nwg) * {{wg}}u + lane;
  if (index >= P.words) {
    return;
  }
  let word = P.first_word + index;
  var packed = labels[P.word_skip + index];
  for (var e = 0u; e < P.per_word; e++) {
    let label_index = word * P.per_word + e;
    if (label_index < P.begin || label_index >= P.end) {
      continue;
    }
    let v = label_index - P.begin;
    let first = v / {{plane}}u * {{quads}}u * {{plane}}u + v % {{plane}}u;
    var best = 0u;
    var best_value = 0.0;
    for (var o = 0u; o < P.classes; o++) {
      let y = logits[first + o / 4u * {{plane}}u][o % 4u];
      if (o == 0u || y > best_value) {
        best = o;
        best_value = y;
      }
    }
    let bits = e * P.label_bits;
    packed = select((packed & ~(255u << bits)) | (best << bits), best, P.per_word == 1u);
  }
  labels[P.word_skip + index] = packed;
}
