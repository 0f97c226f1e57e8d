// conv_argmax.wgsl: label[v] = the o with the largest bias[o] + sum over c of w[o,c] * x[c,v]; the lowest o on ties.
// input: quads of channels [planes][C/4][{{plane}}] of vec4; labels: plain, {{per_word}} to a word. The logits never leave the thread.
// One thread makes one word of labels, {{together}} voxels at a time, for which it reads the weights once; labels of the word outside [P.begin, P.end) keep their old value.
// Weights [output quad][input lane] of vec4, then the biases [output quad]; lanes beyond the last class have the least
// bias there is, which wins over nothing. A score that is not finite is reported: by its bits, since compilers may assume
// that there is none.
{{head}}

fn load(at: u32) -> vec4<f32> {
  let raw = input[at];
  return {{unpack}};
}

{{main}}
  let index = group_index(wid, nwg) * {{wg}}u + lane;
  if (index >= P.words) {
    return;
  }
  let word = P.first_word + index;
  var packed = labels[P.word_skip + index];
  var worst = vec4<u32>(0u);
  for (var e = 0u; e < {{per_word}}u; e += {{together}}u) {
{{@i=together}}
    let index{{i}} = word * {{per_word}}u + e + {{i}}u;
    let ours{{i}} = index{{i}} >= P.begin && index{{i}} < P.end;
    let v{{i}} = select(0u, index{{i}} - P.begin, ours{{i}});
    let at{{i}} = P.in_first + P.input_shift + v{{i}} / {{plane}} * {{quads}}u * {{plane}} + v{{i}} % {{plane}};
{{@q=quads}}
    let x{{i}}_{{q}} = load(at{{i}} + {{q}}u * {{plane}});
{{/q}}
    var best{{i}} = 0u;
    var best_value{{i}} = 0.0;
{{/i}}
    for (var o = 0u; o < P.classes; o += 4u) {
      let row = o / 4u * ({{quads}}u * 4u);
      let start = weights[P.weights_shift + P.bias + o / 4u];
{{@i=together}}
      var y{{i}} = start;
{{/i}}
{{@q=quads}}{{@l=4}}
      let w{{q}}_{{l}} = weights[P.weights_shift + row + {{q}}u * 4u + {{l}}u];
{{@i=together}}
      y{{i}} = fma(vec4<f32>(x{{i}}_{{q}}[{{l}}]), w{{q}}_{{l}}, y{{i}});
{{/i}}{{/l}}{{/q}}
{{@i=together}}
      worst = max(worst, bitcast<vec4<u32>>(y{{i}}) & vec4<u32>(0x7fffffffu));
      if (o == 0u || y{{i}}.x > best_value{{i}}) {
        best{{i}} = o;
        best_value{{i}} = y{{i}}.x;
      }
{{@l=3}}
      if (y{{i}}[{{l}} + 1] > best_value{{i}}) {
        best{{i}} = o + {{l}}u + 1u;
        best_value{{i}} = y{{i}}[{{l}} + 1];
      }
{{/l}}{{/i}}
    }
{{@i=together}}
    if (ours{{i}}) {
      packed = insertBits(packed, best{{i}}, (e + {{i}}u) * {{label_bits}}u, {{label_bits}}u);
    }
{{/i}}
  }
  labels[P.word_skip + index] = packed;
  if (any(worst >= vec4<u32>(0x7f800000u))) {
    report(0u, 0u);
  }
}
