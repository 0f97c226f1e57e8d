// norm_sums_finish.wgsl: the parts of norm_sums of one quad of an image, added up, as elements of [N,C,2].
{{head}}
{{>pair_sum}}
{{main}}
  let slab = group_index(wid, nwg);
  var first = vec4<f32>(0.0);
  var second = vec4<f32>(0.0);
  for (var part = lane; part < select(0u, P.parts, slab < P.groups); part += {{wg}}u) {
    first += parts[(slab * P.parts + part) * 2u];
    second += parts[(slab * P.parts + part) * 2u + 1u];
  }
  sum_pair(lane, first, second);
  let c = slab % P.quads * 4u + lane;
  if (lane < 4u && c < P.channels && slab < P.groups) {
    let at = P.output_shift + P.first + (slab / P.quads * P.channels + c) * 2u;
    output[at] = firsts[0][lane];
    output[at + 1u] = seconds[0][lane];
  }
}
