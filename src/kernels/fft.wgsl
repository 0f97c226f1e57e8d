// fft.wgsl: a pass of a Fourier transform: every column j, j + across … of a line is transformed in workgroup memory by
// steps of any radix (Stockham, which sorts on the way): radix results from elements h apart, turned and put s apart.
// Result k of column t goes to t % stride + stride (length (t / stride) + k), turned, for the next pass.
{{head}}
{{>fft_ends}}
// The results of one butterfly: reads stage[at + j h], writes stage[to + k s]; `turn` is the exponent of result 1.
fn put(to: u32, turn: u32, value: vec2<f32>) {
  stage[to] = times(value, tables[turn]);
}

fn two(at: u32, h: u32, to: u32, s: u32, turn: u32) {
  let a = stage[at];
  let b = stage[at + h];
  stage[to] = a + b;
  put(to + s, turn, a - b);
}

fn three(at: u32, h: u32, to: u32, s: u32, turn: u32) {
  let a = stage[at];
  let b = stage[at + h];
  let c = stage[at + 2u * h];
  let sum = b + c;
  let middle = a - 0.5 * sum;
  let side = 0.8660254037844386 * vec2<f32>(b.y - c.y, c.x - b.x);
  stage[to] = a + sum;
  put(to + s, turn, middle + side);
  put(to + 2u * s, 2u * turn, middle - side);
}

fn four(at: u32, h: u32, to: u32, s: u32, turn: u32) {
  let a = stage[at];
  let b = stage[at + h];
  let c = stage[at + 2u * h];
  let d = stage[at + 3u * h];
  let even = a + c;
  let odd = b + d;
  let middle = a - c;
  let side = vec2<f32>(b.y - d.y, d.x - b.x);
  stage[to] = even + odd;
  put(to + s, turn, middle + side);
  put(to + 2u * s, 2u * turn, even - odd);
  put(to + 3u * s, 3u * turn, middle - side);
}

fn five(at: u32, h: u32, to: u32, s: u32, turn: u32) {
  let a = stage[at];
  let b = stage[at + h];
  let c = stage[at + 2u * h];
  let d = stage[at + 3u * h];
  let e = stage[at + 4u * h];
  let outer = b + e;
  let inner = c + d;
  let first = a + 0.30901699437494745 * outer - 0.8090169943749475 * inner;
  let second = a - 0.8090169943749475 * outer + 0.30901699437494745 * inner;
  let be = vec2<f32>(b.y - e.y, e.x - b.x);
  let cd = vec2<f32>(c.y - d.y, d.x - c.x);
  let first_side = 0.9510565162951535 * be + 0.5877852522924731 * cd;
  let second_side = 0.5877852522924731 * be - 0.9510565162951535 * cd;
  stage[to] = a + outer + inner;
  put(to + s, turn, first + first_side);
  put(to + 2u * s, 2u * turn, second + second_side);
  put(to + 3u * s, 3u * turn, second - second_side);
  put(to + 4u * s, 4u * turn, first - first_side);
}

// Result k of a butterfly of any radix: a sum over all its elements.
fn any_radix(at: u32, h: u32, radix: u32, k: u32) -> vec2<f32> {
  var sum = stage[at];
  var turn = 0u;
  for (var j = 1u; j < radix; j++) {
    turn += k * h;
    turn = select(turn, turn - P.length, turn >= P.length);
    sum += times(stage[at + j * h], tables[turn]);
  }
  return sum;
}

// i / divisor of numbers below 2^20, by one over the divisor: a half is more than all that is rounded.
fn over(i: u32, one_over: f32) -> u32 {
  return u32((f32(i) + 0.5) * one_over);
}

// Line and place of column `t` of a workgroup whose first one has these.
fn column_at(first_line: u32, first_place: u32, t: u32) -> vec2<u32> {
  let place = first_place + t;
  if (P.across < 65536u) {
    let lines = over(place, 1.0 / f32(P.across));
    return vec2<u32>(first_line + lines, place - lines * P.across);
  }
  let wraps = place >= P.across;
  return vec2<u32>(first_line + select(0u, 1u, wraps), select(place, place - P.across, wraps));
}

{{main}}
  let first = first_column(group_index(wid, nwg), P.together);
  let first_line = first / P.across;
  let first_place = first % P.across;
  let all = P.length * P.together;
  let by_length = 1.0 / f32(P.length);
  let by_together = 1.0 / f32(P.together);
  for (var i = lane; i < all; i += {{wg}}u) {
    let fast = over(i, select(by_length, by_together, P.load_across != 0u));
    let slow = i - fast * select(P.length, P.together, P.load_across != 0u);
    let j = select(slow, fast, P.load_across != 0u);
    let column = select(fast, slow, P.load_across != 0u);
    if (first + column < P.columns) {
      let place = column_at(first_line, first_place, column);
      stage[column * P.row + j] = load(place.x, place.y + P.across * j);
    }
  }
  var source = 0u;
  var to = P.row * P.together;
  var s = 1u;
  for (var step = 0u; step < P.steps; step++) {
    workgroupBarrier();
    let radix = (select(P.radices_behind, P.radices, step < 4u) >> (8u * (step % 4u))) & 255u;
    let h = P.length / radix;
    let by_s = 1.0 / f32(s);
    if (radix > 5u) {
      for (var i = lane; i < all; i += {{wg}}u) {
        let column = over(i, by_length);
        let o = i - column * P.length;
        let rest = over(o, by_s);
        let p = over(rest, 1.0 / f32(radix));
        let k = rest - p * radix;
        let sum = any_radix(source + column * P.row + o - rest * s + s * p, h, radix, k);
        put(to + column * P.row + o, p * k * s, sum);
      }
    } else {
      let by_h = 1.0 / f32(h);
      for (var i = lane; i < h * P.together; i += {{wg}}u) {
        let column = over(i, by_h);
        let b = i - column * h;
        let turn = over(b, by_s) * s;  // of result 1: b less what is left
        let at = source + column * P.row + b;
        let into = to + column * P.row + b + turn * (radix - 1u);
        switch radix {
          case 2u: { two(at, h, into, s, turn); }
          case 3u: { three(at, h, into, s, turn); }
          case 4u: { four(at, h, into, s, turn); }
          default: { five(at, h, into, s, turn); }
        }
      }
    }
    s *= radix;
    let held = source;
    source = to;
    to = held;
  }
  workgroupBarrier();
  for (var i = lane; i < all; i += {{wg}}u) {
    let fast = over(i, select(by_length, by_together, P.store_across != 0u));
    let slow = i - fast * select(P.length, P.together, P.store_across != 0u);
    let k = select(slow, fast, P.store_across != 0u);
    let column = select(fast, slow, P.store_across != 0u);
    if (first + column < P.columns) {
      let place = column_at(first_line, first_place, column);
      var value = stage[source + column * P.row + k];
      var p = 0u;
      if (P.turns != 0u) {
        p = place.y / P.stride;
        value = times(value, whole_turn(p * k * P.turns));
      }
      store(place.x, place.y + P.stride * ((P.length - 1u) * p + k), value);
    }
  }
}
