// fft_ends.wgsl: where the numbers of a pass of a transform come from and go to. Lines are [n, inner] numbers; `position`
// counts them. Inverse transforms swap real and imaginary parts on the way in and out. `tables` holds the turns
// exp(-2 pi i k / length), then those of the whole n in two parts, then what Bluestein's way multiplies with.
fn times(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
  return vec2<f32>(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

// exp(-2 pi i k / n)
fn whole_turn(k: u32) -> vec2<f32> {
  return times(tables[P.fine + (k & ((1u << P.fine_bits) - 1u))], tables[P.coarse + (k >> P.fine_bits)]);
}

// The first column of a workgroup. Every other pass begins with the columns that the one before wrote last, which are in a
// cache yet; groups beyond the last have columns beyond the last as well.
fn first_column(group: u32, together: u32) -> u32 {
  return select(group, P.last_group - group, P.backwards != 0u) * together;
}

fn load(line: u32, position: u32) -> vec2<f32> {
  var value = vec2<f32>(0.0);
  let origin = P.in_first + line * P.in_line + P.input_shift;
{{#half}}
  let k = position / P.inner;
  let mirrored = k > P.n / 2u;
  let at = select(k, P.n - k, mirrored);
  if (k < P.n && at < P.given) {
    value = input[origin + at * P.inner + position % P.inner];
    value.y = select(select(value.y, -value.y, mirrored), 0.0, at == 0u || 2u * at == P.n);
  }
{{/half}}{{^half}}
{{#limited_in}}
  if (position < P.in_limit) {
    value = {{#real}}vec2<f32>(input[origin + position], 0.0){{/real}}{{^real}}input[origin + position]{{/real}};
  }
{{/limited_in}}{{^limited_in}}
  value = {{#real}}vec2<f32>(input[origin + position], 0.0){{/real}}{{^real}}input[origin + position]{{/real}};
{{/limited_in}}
{{/half}}
{{^as_it_is_in}}
  value = select(value, value.yx, P.swap_in != 0u);
{{/as_it_is_in}}
{{#chirp_in}}
  value = times(value, tables[P.chirp + position / P.inner]);
{{/chirp_in}}
  return value;
}

fn store(line: u32, position: u32, result: vec2<f32>) {
{{#limited_out}}
  if (position >= P.out_limit) {
    return;
  }
{{/limited_out}}
  var value = result{{^as_it_is_out}} * bitcast<f32>(P.scale){{/as_it_is_out}};
{{#filter}}
  value = times(value, tables[P.filter_at + position / P.inner]).yx;
{{/filter}}
{{#chirp_out}}
  value = times(value.yx, tables[P.chirp + position / P.inner]);
{{/chirp_out}}
{{^as_it_is_out}}
  value = select(value, value.yx, P.swap_out != 0u);
{{/as_it_is_out}}
  output[P.out_first + line * P.out_line + position + P.output_shift] = {{#half_out}}{{store_real}}{{/half_out}}{{^half_out}}vec2<f32>({{store_real}}, {{store_imaginary}}){{/half_out}};
}
