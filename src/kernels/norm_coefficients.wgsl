// norm_coefficients.wgsl: per quad of channels the rows mean, gamma/sqrt(var+eps), beta, for y = (x-mean)*scale+beta.
// statistics [N][C][2] (mean, variance of each channel, equal counts) are merged over the channels of a group.
// One thread a quad. affine: gamma [C], then beta [C].
{{head}}
{{main}}
  let slab = group_index(wid, nwg) * {{wg}}u + lane;
  if (slab >= P.slabs) {
    return;
  }
  let image = slab / P.quads;
  var mean4 = vec4<f32>(0.0);
  var scale4 = vec4<f32>(0.0);
  var beta4 = vec4<f32>(0.0);
  for (var l = 0u; l < 4u; l++) {
    let channel = (slab % P.quads) * 4u + l;
    if (channel >= P.channels) {
      break;
    }
    let first = channel / P.group_channels * P.group_channels;
    let base = (image * P.channels + first) * 2u + P.statistics_shift;
    var mean = 0.0;
    for (var c = 0u; c < P.group_channels; c++) {
      mean += statistics[base + c * 2u];
    }
    mean /= f32(P.group_channels);
    var variance = 0.0;
    for (var c = 0u; c < P.group_channels; c++) {
      let delta = statistics[base + c * 2u] - mean;
      variance += statistics[base + c * 2u + 1u] + delta * delta;
    }
    variance /= f32(P.group_channels);
    mean4[l] = mean;
    scale4[l] = 1.0 / sqrt(variance + bitcast<f32>(P.eps));
{{#affine}}
    scale4[l] *= gamma[P.gamma_shift + channel];
    beta4[l] = beta[P.beta_shift + channel];
{{/affine}}
  }
  rows[P.rows_shift + slab * 3u] = mean4;
  rows[P.rows_shift + slab * 3u + 1u] = scale4;
  rows[P.rows_shift + slab * 3u + 2u] = beta4;
}
