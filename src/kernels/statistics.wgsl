// statistics.wgsl: what a workgroup's lanes say of the values of one quad of channels, as a row of three vec4: mean, sum
// of squared deviations, count. Sums are taken from a pivot, so that a mean far from zero does not cost digits.
fn shared_pivot(lane: u32, value: vec4<f32>) -> vec4<f32> {
  workgroupBarrier();
  if (lane == 0u) {
    sums[0] = value;
  }
  workgroupBarrier();
  return sums[0];
}

fn gather(lane: u32, row: u32, ours: bool, pivot: vec4<f32>, sum: vec4<f32>, square: vec4<f32>, count: f32) {
  workgroupBarrier();
  sums[lane] = sum;
  squares[lane] = square;
  counts[lane] = count;
  workgroupBarrier();
  for (var half = {{wg}}u / 2u; half > 0u; half /= 2u) {
    if (lane < half) {
      sums[lane] += sums[lane + half];
      squares[lane] += squares[lane + half];
      counts[lane] += counts[lane + half];
    }
    workgroupBarrier();
  }
  if (lane == 0u && ours) {
    let mean = sums[0] / max(counts[0], 1.0);
    stats[row] = pivot + mean;
    stats[row + 1u] = max(squares[0] - sums[0] * mean, vec4<f32>(0.0));
    stats[row + 2u] = vec4<f32>(counts[0]);
  }
}
