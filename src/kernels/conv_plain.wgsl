// conv_plain.wgsl: a convolution in channel groups over plain tensors [N][C][D][H][W] of f32; weight [O][C/groups][k…].
// One thread makes one output. Products whose input or weight lies outside the bound windows are left to other
// dispatches: where this is not the first it adds to the sum so far, where it is not the last it leaves the sum.
{{>elementwise}}
{{params}}
{{>group_index}}
{{bindings}}
{{#last}}
fn epilogue(x: f32) -> f32 {
{{epilogue}}}
{{/last}}
@compute @workgroup_size({{wg}})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let index = group_index(wid, nwg) * {{wg}}u + lane;
  if (index >= P.out_count) {
    return;
  }
  let at = P.out_begin + index;
  let w = at % {{out_w}}u;
  let h = at / {{out_w}}u % {{out_h}}u;
  let d = at / ({{out_w}}u * {{out_h}}u) % {{out_d}}u;
  let o = at / ({{out_w}}u * {{out_h}}u * {{out_d}}u) % {{outputs}}u;
  let n = at / ({{out_w}}u * {{out_h}}u * {{out_d}}u * {{outputs}}u);
{{#first}}
  var sum = {{#bias}}bias[P.bias_skip + o]{{/bias}}{{^bias}}0.0{{/bias}};
{{/first}}{{^first}}
  var sum = output[at + P.out_shift];
{{/first}}
  for (var c = 0u; c < {{group_in}}u; c++) {
    let channel = (n * {{channels}}u + o / {{group_out}}u * {{group_in}}u + c) * {{in_d}}u;
    for (var kd = 0u; kd < P.kernel_d; kd++) {
      let id = d * {{stride_d}}u + kd * P.dilation_d - P.pad_d;
      if (id >= {{in_d}}u) {
        continue;
      }
      for (var kh = 0u; kh < P.kernel_h; kh++) {
        let ih = h * {{stride_h}}u + kh * P.dilation_h - P.pad_h;
        if (ih >= {{in_h}}u) {
          continue;
        }
        for (var kw = 0u; kw < P.kernel_w; kw++) {
          let iw = w * {{stride_w}}u + kw * P.dilation_w - P.pad_w;
          let x = ((channel + id) * {{in_h}}u + ih) * {{in_w}}u + iw;
          let k = (((o * {{group_in}}u + c) * P.kernel_d + kd) * P.kernel_h + kh) * P.kernel_w + kw;
          if (iw < {{in_w}}u && x - P.in_begin < P.in_count && k - P.weight_begin < P.weight_count) {
            sum = fma(input[x + P.in_shift], weight[k + P.weight_shift], sum);
          }
        }
      }
    }
  }
  output[at + P.out_shift] = {{#last}}epilogue(sum){{/last}}{{^last}}sum{{/last}};
}
