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

{{main}}
  let first = group_index(wid, nwg) * P.together;
  let all = P.length * P.together;
  for (var i = lane; i < all; i += {{wg}}u) {
    let j = select(i % P.length, i / P.together, P.load_across != 0u);
    let column = select(i / P.length, i % P.together, P.load_across != 0u);
    let t = first + column;
    if (t < P.columns) {
      stage[column * P.row + j] = load(t / P.across, t % P.across + P.across * j);
    }
  }
  var source = 0u;
  var to = P.row * P.together;
  var s = 1u;
  for (var step = 0u; step < P.steps; step++) {
    workgroupBarrier();
    let radix = (select(P.radices_behind, P.radices, step < 4u) >> (8u * (step % 4u))) & 255u;
    let h = P.length / radix;
    if (radix > 5u) {
      for (var i = lane; i < all; i += {{wg}}u) {
        let column = i / P.length * P.row;
        let o = i % P.length;
        let q = o % s;
        let k = o / s % radix;
        let p = o / s / radix;
        let sum = any_radix(source + column + q + s * p, h, radix, k);
        put(to + column + o, p * k * s, sum);
      }
    } else {
      for (var i = lane; i < h * P.together; i += {{wg}}u) {
        let b = i % h;
        let q = b % s;
        let at = source + i / h * P.row + b;
        let into = to + i / h * P.row + q + (b - q) * radix;
        switch radix {
          case 2u: { two(at, h, into, s, b - q); }
          case 3u: { three(at, h, into, s, b - q); }
          case 4u: { four(at, h, into, s, b - q); }
          default: { five(at, h, into, s, b - q); }
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
    let k = select(i % P.length, i / P.together, P.store_across != 0u);
    let column = select(i / P.length, i % P.together, P.store_across != 0u);
    let t = first + column;
    if (t < P.columns) {
      finish(t / P.across, t % P.across, k, stage[source + column * P.row + k]);
    }
  }
}
