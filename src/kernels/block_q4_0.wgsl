// block_q4_0.wgsl: block of 32: scale (half), nibbles; scale (q - 8). Low nibbles are the first 16 elements. A block of 18
// bytes starts with a word or with half of one: five words hold it.
fn scaled(row: u32, unit: u32) -> Scaled {
  let at = row + unit * 18u;
  let odd = (at & 2u) != 0u;
{{@i=5}}
  let word{{i}} = weights[at / 4u + {{i}}u];
{{/i}}
  let scale = unpack2x16float(word0 >> (at % 4u * 8u)).x;
  let q = vec4<u32>(
    select((word0 >> 16u) | (word1 << 16u), word1, odd), select((word1 >> 16u) | (word2 << 16u), word2, odd),
    select((word2 >> 16u) | (word3 << 16u), word3, odd), select((word3 >> 16u) | (word4 << 16u), word4, odd));
  var w: Scaled;
  w.scale = scale * 16.0;
  w.least = scale * -24.0;
{{@i=4}}
  w.q[{{i}}] = nibbles_of(q[{{i}}]);
  w.q[{{i}} + 4] = nibbles_of(q[{{i}}] >> 4u);
{{/i}}
  return w;
}

fn unpack(row: u32, unit: u32) -> array<vec4<f32>, 8> {
  let own = scaled(row, unit);
  var w: array<vec4<f32>, 8>;
{{@i=8}}
  w[{{i}}] = own.scale * (own.q[{{i}}] - 1.5);
{{/i}}
  return w;
}
