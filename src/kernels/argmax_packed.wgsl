// argmax_packed.wgsl: label[v] = the o with the largest logits[o,v]; the lowest o on ties.
// logits: quads of classes [planes][O/4][{{plane}}] of vec4 f32, a window's worth; labels: plain, {{per_word}} to a word.
// One thread makes one word of labels; labels of the word outside [P.begin, P.end) keep their old value.
{{head}}

{{main}}
  let index = group_index(wid, nwg) * {{wg}}u + lane;
  if (index >= P.words) {
    return;
  }
  let word = P.first_word + index;
  var packed = labels[P.word_skip + index];
  var worst = 0u;
  for (var e = 0u; e < {{per_word}}u; e++) {
    let label_index = word * {{per_word}}u + e;
    if (label_index < P.begin || label_index >= P.end) {
      continue;
    }
    let v = label_index - P.begin;
    let first = P.logits_shift + v / {{plane}} * {{quads}}u * {{plane}} + v % {{plane}};
    var best = 0u;
    var best_value = 0.0;
    for (var o = 0u; o < P.classes; o++) {
      let y = logits[first + o / 4u * {{plane}}][o % 4u];
      worst = max(worst, bitcast<u32>(y) & 0x7fffffffu);
      if (o == 0u || y > best_value) {
        best = o;
        best_value = y;
      }
    }
    packed = insertBits(packed, best, e * {{label_bits}}u, {{label_bits}}u);
  }
  labels[P.word_skip + index] = packed;
  if (worst >= 0x7f800000u) {
    report(0u, 0u);
  }
}
