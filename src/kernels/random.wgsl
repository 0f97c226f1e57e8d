// random.wgsl: random numbers by Threefry2x32 with 20 rounds (src/ops/random.h); {{T}} is f32 or vec4<f32>, {{U}} the
// same of u32.

fn act_turn(x: {{U}}, bits: u32) -> {{U}} {
  return (x << {{U}}(bits)) | (x >> {{U}}(32u - bits));
}

fn act_random(place: {{U}}, stream: {{U}}, key0: {{U}}, key1: {{U}}) -> array<{{U}}, 2> {
  var turns = array<u32, 8>(13u, 15u, 26u, 6u, 17u, 29u, 16u, 24u);
  var keys = array<{{U}}, 3>(key0, key1, {{U}}(0x1BD11BDAu) ^ key0 ^ key1);
  var a = place + key0;
  var b = stream + key1;
  for (var group = 1u; group <= 5u; group++) {
    let first = (group - 1u) % 2u * 4u;
    for (var k = 0u; k < 4u; k++) {
      a += b;
      b = act_turn(b, turns[first + k]) ^ a;
    }
    a += keys[group % 3u];
    b += keys[(group + 1u) % 3u] + {{U}}(group);
  }
  return array<{{U}}, 2>(a, b);
}

fn act_random_uniform(word: {{U}}) -> {{T}} {
  return {{T}}(word >> {{U}}(8u)) * 5.9604644775390625e-8;
}

// Box and Muller. log1p keeps the digits of small radii.
fn act_random_normal(words: array<{{U}}, 2>) -> {{T}} {
  let radius = sqrt(max(-2.0 * act_log1p(-act_random_uniform(words[0])), {{T}}(0.0)));
  return radius * act_cos(6.28318531 * act_random_uniform(words[1]));
}

fn act_dropout(x: {{T}}, word: {{U}}, p: f32) -> {{T}} {
  return select({{T}}(0.0), x * (1.0 / (1.0 - p)), act_random_uniform(word) >= {{T}}(p));
}
