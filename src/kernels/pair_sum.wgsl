// pair_sum.wgsl: adds up two values of every lane of a workgroup; firsts[0] and seconds[0] hold the sums.
fn sum_pair(lane: u32, first: vec4<f32>, second: vec4<f32>) {
  firsts[lane] = first;
  seconds[lane] = second;
  workgroupBarrier();
  for (var half = {{wg}}u / 2u; half > 0u; half /= 2u) {
    if (lane < half) {
      firsts[lane] += firsts[lane + half];
      seconds[lane] += seconds[lane + half];
    }
    workgroupBarrier();
  }
}
