// block_q4_0.wgsl: block of 32: scale (half), nibbles; scale (q - 8). Low nibbles are the first 16 elements. A block of 18
// bytes starts with a word or with half of one: five words hold it.
fn unpack(row: u32, unit: u32) -> array<vec4<f32>, 8> {
  let at = row + unit * 18u;
  let odd = (at & 2u) != 0u;
{{@i=5}}
  let word{{i}} = weights[at / 4u + {{i}}u];
{{/i}}
  let scale = unpack2x16float(word0 >> (at % 4u * 8u)).x;
  let q = vec4<u32>(
    select((word0 >> 16u) | (word1 << 16u), word1, odd), select((word1 >> 16u) | (word2 << 16u), word2, odd),
    select((word2 >> 16u) | (word3 << 16u), word3, odd), select((word3 >> 16u) | (word4 << 16u), word4, odd));
  var w: array<vec4<f32>, 8>;
{{@i=4}}
  w[{{i}}] = scale * (floats_of(q[{{i}}] & 0x0f0f0f0fu) - 8.0);
  w[{{i}} + 4] = scale * (floats_of((q[{{i}}] >> 4u) & 0x0f0f0f0fu) - 8.0);
{{/i}}
  return w;
}
