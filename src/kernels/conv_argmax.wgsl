// conv_argmax.wgsl: label[v] = the o with the largest bias[o] + sum over c of w[o,c] * x[c,v]; the lowest o on ties.
// x: quads of channels [C/4][voxels] of vec4; labels: plain, {{per_word}} to a word. The logits never leave the thread.
// One thread makes one word of labels; labels of the word outside [P.begin, P.end) keep their old value.
// Weights [output quad][input lane] of vec4, then the biases [output quad].
{{params}}
{{>group_index}}
{{bindings}}
{{loads}}
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
{{@q=quads}}
    let x{{q}} = load{{q}}(v);
{{/q}}
    var best = 0u;
    var best_value = 0.0;
    for (var o = 0u; o < P.classes; o += 4u) {
      let row = o / 4u * {{inputs_padded}}u;
      var y = weights[P.bias + o / 4u];
{{@q=quads}}{{@l=4}}
      y = fma(vec4<f32>(x{{q}}[{{l}}]), weights[P.weights + row + {{q}}u * 4u + {{l}}u], y);
{{/l}}{{/q}}
      for (var l = 0u; l < min(4u, P.classes - o); l++) {
        if (o + l == 0u || y[l] > best_value) {
          best = o + l;
          best_value = y[l];
        }
      }
    }
    let bits = e * P.label_bits;
    packed = select((packed & ~(255u << bits)) | (best << bits), best, P.per_word == 1u);
  }
  labels[P.word_skip + index] = packed;
}
