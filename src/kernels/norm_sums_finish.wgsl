// norm_sums_finish.wgsl: the parts of norm_sums of one quad of channels, added up, as elements of [N,C,2].
{{head}}
{{>pair_sum}}
{{main}}
  let quad = group_index(wid, nwg);
  var first = vec4<f32>(0.0);
  var second = vec4<f32>(0.0);
  for (var part = lane; part < select(0u, P.parts, quad < P.groups); part += {{wg}}u) {
    first += parts[(quad * P.parts + part) * 2u];
    second += parts[(quad * P.parts + part) * 2u + 1u];
  }
  sum_pair(lane, first, second);
  let c = quad * 4u + lane;
  if (lane < 4u && c < P.channels && quad < P.groups) {
    output[P.output_shift + P.first + c * 2u] = firsts[0][lane];
    output[P.output_shift + P.first + c * 2u + 1u] = seconds[0][lane];
  }
}
