// choose_token.wgsl: the token of every row of `scores`, drawn as `params` says (ops/choose.h); one workgroup takes one row.
// The limits of top_k and top_p are found as keys: bits of floats in the order of the floats, {{bits}} bits after {{bits}} bits,
// counted in workgroup memory. Shares count in whole 2^-24, added up in two words, so that their order does not
// matter. A draw is the largest of score / temperature + Gumbel noise by Threefry. -1 where a score is not finite.
{{>elementwise}}
{{>random}}
{{head}}
const kLowest = -3.4028234663852886e38;

fn key_of(score: f32) -> u32 {
  let bits = bitcast<u32>(score);
  return select(bits | 0x80000000u, ~bits, (bits & 0x80000000u) != 0u);
}

fn setting(row: u32, i: u32) -> f32 {
  return bitcast<f32>(params[row * 8u + i + P.params_shift]);
}

fn score_at(row: u32, i: u32, penalty: f32) -> f32 {
  let score = scores[row * P.width + i + P.scores_shift];
{{#seen}}
  if (penalty != 1.0 && seen[u32(params[row * 8u + 7u + P.params_shift]) * P.width + i + P.seen_shift] != 0u) {
    return select(score * penalty, score / penalty, score > 0.0);
  }
{{/seen}}
  return score;
}

// The best of what lanes have: the largest value, of equal ones the lowest place.
fn best(lane: u32, value: f32, place: u32) -> u32 {
  workgroupBarrier();
  values[lane] = value;
  places[lane] = place;
  workgroupBarrier();
  for (var half = {{wg}}u / 2u; half > 0u; half /= 2u) {
    if (lane < half) {
      let other = values[lane + half];
      if (other > values[lane] || (other == values[lane] && places[lane + half] < places[lane])) {
        values[lane] = other;
        places[lane] = places[lane + half];
      }
    }
    workgroupBarrier();
  }
  return places[0];
}

fn share_of(score: f32, most: f32) -> u32 {
  return u32(exp(score - most) * 16777216.0);
}

// The lowest key of those that make up `wanted` together, counted from the largest key on among keys from `least` on:
// as many, or where `shares` is set as large a part of all shares.
fn lowest_key(lane: u32, row: u32, penalty: f32, most: f32, least: u32, wanted: f32, shares: bool) -> u32 {
  var prefix = 0u;
  var rest = wanted;
  for (var round = 0u; round < {{rounds}}u; round++) {
    let shift = 32u - {{bits}}u - round * {{bits}}u;
    workgroupBarrier();
    for (var i = lane; i < 2u * {{digits}}u; i += {{wg}}u) {
      atomicStore(&counts[i], 0u);
    }
    workgroupBarrier();
    for (var i = lane; i < P.width; i += {{wg}}u) {
      let score = score_at(row, i, penalty);
      let key = key_of(score);
      // Shifts by 32 are none.
      let above = select(key >> (shift + {{bits}}u), 0u, round == 0u);
      if (key >= least && above == prefix) {
        let digit = (key >> shift) & ({{digits}}u - 1u);
        let share = select(1u, share_of(score, most), shares);
        atomicAdd(&counts[digit], share & 4095u);
        atomicAdd(&counts[{{digits}}u + digit], share >> 12u);
      }
    }
    workgroupBarrier();
    if (lane == 0u) {
      if (round == 0u && shares) {
        var all = 0.0;
        for (var d = 0u; d < {{digits}}u; d++) {
          all += f32(atomicLoad(&counts[{{digits}}u + d])) * 4096.0 + f32(atomicLoad(&counts[d]));
        }
        rest *= all;
      }
      var d = {{digits}}u - 1u;
      loop {
        let here = f32(atomicLoad(&counts[{{digits}}u + d])) * 4096.0 + f32(atomicLoad(&counts[d]));
        if (here >= rest || d == 0u) {
          break;
        }
        rest -= here;
        d--;
      }
      found[0] = bitcast<f32>(d);
      found[1] = rest;
    }
    prefix = (prefix << {{bits}}u) | bitcast<u32>(workgroupUniformLoad(&found[0]));
    rest = workgroupUniformLoad(&found[1]);
  }
  return prefix;
}

{{main}}
  let group = group_index(wid, nwg);
  let row = P.first_row + min(group, P.groups - 1u);
  let temperature = setting(row, 0u);
  let top_k = u32(max(params[row * 8u + 1u + P.params_shift], 0));
  let top_p = setting(row, 2u);
  let min_p = setting(row, 3u);
  let penalty = setting(row, 4u);
  let seed = bitcast<u32>(params[row * 8u + 5u + P.params_shift]);
  let step = bitcast<u32>(params[row * 8u + 6u + P.params_shift]);
  var value = kLowest;
  var place = 0xffffffffu;
  var broken = false;
  for (var i = lane; i < P.width; i += 8u * {{wg}}u) {
{{@j=8}}
    let score{{j}} = score_at(row, min(i + {{j}}u * {{wg}}u, P.width - 1u), penalty);
{{/j}}
{{@j=8}}
    if (i + {{j}}u * {{wg}}u < P.width && (score{{j}} > value || place == 0xffffffffu)) {
      value = score{{j}};
      place = i + {{j}}u * {{wg}}u;
    }
    broken = broken || (bitcast<u32>(score{{j}}) & 0x7fffffffu) >= 0x7f800000u;
{{/j}}
  }
  // A score that is not finite, by its bits, wins over all others, with a place that is none.
  if (broken) {
    value = -kLowest;
    place = 0xffffffffu;
  }
  var chosen = best(lane, value, place);
  let most = values[0];
  let found_broken = chosen == 0xffffffffu;
  workgroupBarrier();
  if (temperature > 0.0) {
    var least = 0u;
    if (top_k > 0u && top_k < P.width) {
      least = lowest_key(lane, row, penalty, most, 0u, f32(top_k), false);
    }
    if (top_p < 1.0) {
      least = max(least, lowest_key(lane, row, penalty, most, least, top_p, true));
    }
    if (min_p > 0.0) {
      least = max(least, key_of(most + log(min_p)));
    }
    value = kLowest;
    place = 0xffffffffu;
    for (var i = lane; i < P.width; i += {{wg}}u) {
      let score = score_at(row, i, penalty);
      if (key_of(score) >= least) {
        let word = act_random(i, step, seed, 0x746f6b65u)[0];
        let uniform_number = (f32(word >> 9u) + 0.5) * 1.1920928955078125e-7;
        let drawn = (score - most) / temperature - log(-log(uniform_number));
        if (drawn > value || place == 0xffffffffu) {
          value = drawn;
          place = i;
        }
      }
    }
    chosen = best(lane, value, place);
  }
  if (lane == 0u && group < P.groups) {
    tokens[row + P.tokens_shift] = select(bitcast<i32>(chosen), -1, found_broken);
  }
}
