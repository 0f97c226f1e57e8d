// fuzzy_weights.wgsl: weights[i][a] = exp(-max(0, distances[i][a] - rho) / sigma), rho the first distance of the row [k]
// that is not 0, sigma such that the row sums up to P.wanted, by bisection, and at least 0.001 of the mean distance. One
// thread makes one row.
{{head}}
fn weight(distance: f32, rho: f32, sigma: f32) -> f32 {
  return select(1.0, exp(-(distance - rho) / sigma), distance > rho);
}

{{main}}
  let index = group_index(wid, nwg) * {{wg}}u + lane;
  if (index >= P.count) {
    return;
  }
  let i = P.begin + index;
  let row = i * P.k + P.distances_shift;
  var first = 0.0;
  var total = 0.0;
  for (var a = 0u; a < P.k; a++) {
    let distance = distances[row + a];
    total += distance;
    first = select(first, distance, first == 0.0);
  }
  let wanted = bitcast<f32>(P.wanted);
  var low = 0.0;
  var high = 0.0;  // 0: none yet
  var scale = 1.0;
  for (var turn = 0u; turn < 64u; turn++) {
    var sum = 0.0;
    for (var a = 0u; a < P.k; a++) {
      sum += weight(distances[row + a], first, scale);
    }
    if (sum == wanted) {
      break;
    }
    if (sum > wanted) {
      high = scale;
    } else {
      low = scale;
    }
    scale = select(0.5 * (low + high), 2.0 * scale, high == 0.0);
  }
  scale = max(scale, 0.001 * total / f32(P.k + 1u));
  rho[i + P.rho_shift] = first;
  sigma[i + P.sigma_shift] = scale;
  for (var a = 0u; a < P.k; a++) {
    weights[i * P.k + a + P.weights_shift] = weight(distances[row + a], first, scale);
  }
}
