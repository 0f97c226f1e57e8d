// matmul_finish.wgsl: y = act(bias[n] + the sum over parts of sums[part]), one quad for each lane.
{{>elementwise}}
{{head}}
fn epilogue(x: vec4<f32>{{extra_arguments}}) -> vec4<f32> {
{{epilogue}}}

{{main}}
  let o = group_index(wid, nwg) * {{wg}}u + lane;
  if (o >= P.count) {
    return;
  }
  var sum = {{#bias}}bias[P.bias_shift + o % P.columns]{{/bias}}{{^bias}}vec4<f32>(0.0){{/bias}};
  for (var part = 0u; part < P.parts; part++) {
    sum += sums[part * P.count + o + P.sums_shift];
  }
  output[o + P.output_shift] = {{store}};
}
