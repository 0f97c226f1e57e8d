// rows.wgsl: {{title}} of every row of `extent` units, f32 or quads of them. P.lanes lanes share a row, which they read two
// or three times: the first time from memory, then from caches.
{{#residual}}
// The rows are those of input + residual, and go to `summed` as well.
{{/residual}}
{{head}}
// Unit i of the rows.
fn unit_at(i: u32) -> {{T}} {
  return input[i + P.input_shift]{{#residual}} + residual[i + P.residual_shift]{{/residual}};
}

fn most_of(x: {{T}}) -> f32 {
  return {{#quads}}max(max(x.x, x.y), max(x.z, x.w)){{/quads}}{{^quads}}x{{/quads}};
}

fn sum_of(x: {{T}}) -> f32 {
  return {{#quads}}dot(x, {{T}}(1.0)){{/quads}}{{^quads}}x{{/quads}};
}

// The sum, or the largest, of what all lanes of a row have.
fn total(lane: u32, value: f32) -> f32 {
  workgroupBarrier();
  stage[lane] = value;
  workgroupBarrier();
  for (var half = P.lanes / 2u; half > 0u; half /= 2u) {
    if (lane % P.lanes < half) {
      stage[lane] += stage[lane + half];
    }
    workgroupBarrier();
  }
  return stage[lane - lane % P.lanes];
}
{{#exponential}}

fn largest(lane: u32, value: f32) -> f32 {
  workgroupBarrier();
  stage[lane] = value;
  workgroupBarrier();
  for (var half = P.lanes / 2u; half > 0u; half /= 2u) {
    if (lane % P.lanes < half) {
      stage[lane] = max(stage[lane], stage[lane + half]);
    }
    workgroupBarrier();
  }
  return stage[lane - lane % P.lanes];
}
{{/exponential}}

{{main}}
  let index = group_index(wid, nwg) * ({{wg}}u / P.lanes) + lane / P.lanes;
  let first = (P.first_row + min(index, P.rows - 1u)) * P.extent;
  let begin = first + lane % P.lanes;
  let end = first + P.extent;
  var sum = 0.0;
{{#exponential}}
  var most = -3.4028234663852886e38;
  for (var i = begin; i < end; i += P.lanes) {
    most = max(most, most_of(unit_at(i)));
  }
  most = largest(lane, most);
  for (var i = begin; i < end; i += P.lanes) {
    sum += sum_of(exp(unit_at(i) - most));
  }
  sum = total(lane, sum);
{{#logarithm}}
  sum = log(sum);
{{/logarithm}}
{{/exponential}}{{^exponential}}
{{#centred}}
  for (var i = begin; i < end; i += P.lanes) {
    sum += sum_of(unit_at(i));
  }
  let mean = total(lane, sum) * bitcast<f32>(P.scale);
  sum = 0.0;
{{/centred}}{{^centred}}
  let mean = 0.0;
{{/centred}}
  for (var i = begin; i < end; i += P.lanes) {
    let x = unit_at(i) - mean;
    sum += sum_of(x * x);
  }
  let spread = inverseSqrt(total(lane, sum) * bitcast<f32>(P.scale) + bitcast<f32>(P.eps));
{{/exponential}}
  if (index >= P.rows) {
    return;
  }
  for (var i = begin; i < end; i += P.lanes) {
    let unit = i - first;
    let x = unit_at(i);
{{#exponential}}
{{#logarithm}}
    let y = x - most - sum;
{{/logarithm}}{{^logarithm}}
    let y = exp(x - most) / sum;
{{/logarithm}}
{{/exponential}}{{^exponential}}
    let y = (x - mean) * spread{{#gamma}} * gamma[unit + P.gamma_shift]{{/gamma}}{{#beta}} + beta[unit + P.beta_shift]{{/beta}};
{{/exponential}}
{{#residual}}
    summed[i + P.summed_shift] = {{store_sum}};
{{/residual}}
    output[i + P.output_shift] = {{store}};
  }
}
