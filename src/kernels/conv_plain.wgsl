// conv_plain.wgsl: a convolution in channel groups over plain tensors [N][C][D][H][W] of f32; weight [O][C/groups][k…].
// One thread makes one output. Products whose input or weight lies outside the bound windows are left to other
// dispatches: where this is not the first it adds to the sum so far, where it is not the last it leaves the sum.
{{>elementwise}}
{{head}}
{{#last}}
fn epilogue(x: f32) -> f32 {
{{epilogue}}}
{{/last}}
{{main}}
  let index = group_index(wid, nwg) * {{wg}}u + lane;
  if (index >= P.out_count) {
    return;
  }
  let at = P.out_begin + index;
  let w = at % P.out_w;
  let h = at / P.out_w % P.out_h;
  let d = at / (P.out_w * P.out_h) % P.out_d;
  let o = at / (P.out_w * P.out_h * P.out_d) % P.outputs;
  let n = at / (P.out_w * P.out_h * P.out_d * P.outputs);
{{#first}}
  var sum = {{#bias}}bias[P.bias_shift + o]{{/bias}}{{^bias}}0.0{{/bias}};
{{/first}}{{^first}}
  var sum = output[at + P.output_shift];
{{/first}}
  for (var c = 0u; c < P.group_in; c++) {
    let channel = (n * P.channels + o / P.group_out * P.group_in + c) * P.in_d;
    for (var kd = 0u; kd < P.kernel_d; kd++) {
      let id = d * P.stride_d + kd * P.dilation_d - P.pad_d;
      if (id >= P.in_d) {
        continue;
      }
      for (var kh = 0u; kh < P.kernel_h; kh++) {
        let ih = h * P.stride_h + kh * P.dilation_h - P.pad_h;
        if (ih >= P.in_h) {
          continue;
        }
        for (var kw = 0u; kw < P.kernel_w; kw++) {
          let iw = w * P.stride_w + kw * P.dilation_w - P.pad_w;
          let x = ((channel + id) * P.in_h + ih) * P.in_w + iw;
          let k = (((o * P.group_in + c) * P.kernel_d + kd) * P.kernel_h + kh) * P.kernel_w + kw;
          if (iw < P.in_w && x - P.in_begin < P.in_count && k - P.weight_begin < P.weight_count) {
            sum = fma(input[x + P.input_shift], weight[k + P.weight_shift], sum);
          }
        }
      }
    }
  }
  output[at + P.output_shift] = {{#last}}{{store}}{{/last}}{{^last}}sum{{/last}};
}
