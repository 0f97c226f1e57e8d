// norm_finalize.wgsl: merges the pieces of every quad of channels into mean and variance, statistics [N][C][2] of f32.
// One workgroup a quad of an image: every lane merges its share of the pieces in order, then the lanes merge in a tree
// (Chan, Golub and LeVeque's pairwise update of mean and squared deviations).
{{head}}
{{main}}
  let slab = group_index(wid, nwg);
  let row = min(slab, P.groups - 1u) * P.parts * 3u;
  var mean = vec4<f32>(0.0);
  var square = vec4<f32>(0.0);
  var count = 0.0;
  for (var p = lane; p < P.parts; p += {{wg}}u) {
    let other = partials[row + p * 3u + 2u].x;
    let total = count + other;
    let delta = partials[row + p * 3u] - mean;
    mean += delta * (other / total);
    square += partials[row + p * 3u + 1u] + delta * delta * (count * other / total);
    count = total;
  }
  means[lane] = mean;
  squares[lane] = square;
  counts[lane] = count;
  workgroupBarrier();
  for (var half = {{wg}}u / 2u; half > 0u; half /= 2u) {
    if (lane < half && counts[lane + half] > 0.0) {
      let other = counts[lane + half];
      let total = counts[lane] + other;
      let delta = means[lane + half] - means[lane];
      means[lane] += delta * (other / total);
      squares[lane] += squares[lane + half] + delta * delta * (counts[lane] * other / total);
      counts[lane] = total;
    }
    workgroupBarrier();
  }
  let channel = slab % P.quads * 4u + lane;
  if (lane < 4u && slab < P.groups && channel < P.channels) {
    let at = P.first + P.statistics_shift + (slab / P.quads * P.channels + channel) * 2u;
    statistics[at] = means[0][lane];
    statistics[at + 1u] = squares[0][lane] / counts[0];
  }
}
