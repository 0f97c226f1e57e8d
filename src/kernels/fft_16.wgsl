// fft_16.wgsl: a pass of a Fourier transform as fft.wgsl makes it, of 16 · {{rest}} numbers: one step of radix 16 and one of
// radix {{rest}}, both in registers, with one exchange through workgroup memory between them. One lane makes one butterfly of
// the first step. Powers of two alone.
{{head}}
{{>fft_ends}}
alias Four = array<vec2<f32>, 4>;

fn four(a: vec2<f32>, b: vec2<f32>, c: vec2<f32>, d: vec2<f32>) -> Four {
  let even = a + c;
  let odd = b + d;
  let middle = a - c;
  let side = vec2<f32>(b.y - d.y, d.x - b.x);
  return Four(even + odd, middle + side, even - odd, middle - side);
}

// exp(-2 pi i k / 16), k = 1, 2, 3 and 6
const kTurn1 = vec2<f32>(0.9238795325112867, -0.3826834323650898);
const kTurn2 = vec2<f32>(0.7071067811865476, -0.7071067811865476);
const kTurn3 = vec2<f32>(0.3826834323650898, -0.9238795325112867);
const kTurn6 = vec2<f32>(-0.7071067811865476, -0.7071067811865476);

// Element 4 i + j is argument j, element i; result k + 4 m is element m of element k.
fn sixteen(x: Four, y: Four, z: Four, w: Four) -> array<Four, 4> {
  let p = four(x[0], x[1], x[2], x[3]);
  let q = four(y[0], y[1], y[2], y[3]);
  let r = four(z[0], z[1], z[2], z[3]);
  let s = four(w[0], w[1], w[2], w[3]);
  return array<Four, 4>(
      four(p[0], q[0], r[0], s[0]),
      four(p[1], times(q[1], kTurn1), times(r[1], kTurn2), times(s[1], kTurn3)),
      four(p[2], times(q[2], kTurn2), vec2<f32>(r[2].y, -r[2].x), times(s[2], kTurn6)),
      four(p[3], times(q[3], kTurn3), times(r[3], kTurn6), times(s[3], -kTurn1)));
}

// Where element `position` of a column lies: lanes that stand 16 elements apart meet in no bank.
fn slot(column: u32, position: u32) -> u32 {
  return column * P.row + position + position / 16u;
}

{{main}}
  let first = first_column(group_index(wid, nwg), 1u << P.together_bits);
  let mask = (1u << P.together_bits) - 1u;
  {
    let b = select(lane % {{rest}}u, lane >> P.together_bits, P.load_across != 0u);
    let column = select(lane / {{rest}}u, lane & mask, P.load_across != 0u);
    let t = min(first + column, P.columns - 1u);
    let line = t / P.across;
    let at = t % P.across + P.across * b;
    let apart = P.across * {{rest}}u;
{{@j=4}}
    let x{{j}} = Four({{@i=4}}load(line, at + (4u * {{i}}u + {{j}}u) * apart), {{/i}});
{{/j}}
    let y = sixteen(x0, x1, x2, x3);
    let to = slot(column, 16u * b);
    // Result k is turned by k b: from the turns of b and 4 b, so that errors do not grow with k.
    let turn1 = tables[b];
    let turn2 = times(turn1, turn1);
    let turn3 = times(turn2, turn1);
    let turn4 = tables[4u * b];
    stage[to] = y[0][0];
    stage[to + 1u] = times(y[1][0], turn1);
    stage[to + 2u] = times(y[2][0], turn2);
    stage[to + 3u] = times(y[3][0], turn3);
    var turn = turn4;
{{@m=3}}
    stage[to + 4u + 4u * {{m}}u] = times(y[0][1 + {{m}}], turn);
    stage[to + 5u + 4u * {{m}}u] = times(y[1][1 + {{m}}], times(turn, turn1));
    stage[to + 6u + 4u * {{m}}u] = times(y[2][1 + {{m}}], times(turn, turn2));
    stage[to + 7u + 4u * {{m}}u] = times(y[3][1 + {{m}}], times(turn, turn3));
    turn = times(turn, turn4);
{{/m}}
  }
  workgroupBarrier();
  for (var i = lane; i < (16u << P.together_bits); i += {{wg}}u) {
    let q = select(i % 16u, i >> P.together_bits, P.store_across != 0u);
    let column = select(i / 16u, i & mask, P.store_across != 0u);
    let t = first + column;
    if (t >= P.columns) {
      continue;
    }
    let line = t / P.across;
    let place = t % P.across;
    let p = place / P.stride;
    let to = place + P.stride * ((P.length - 1u) * p + q);
    let apart = 16u * P.stride;
    let at = slot(column, q);
{{#rest16}}
{{@j=4}}
    let x{{j}} = Four({{@i=4}}stage[at + 17u * (4u * {{i}}u + {{j}}u)], {{/i}});
{{/j}}
    let y = sixteen(x0, x1, x2, x3);
{{/rest16}}
{{#rest8}}
    let even = four({{@i=4}}stage[at + 17u * 2u * {{i}}u], {{/i}});
    let odd = four({{@i=4}}stage[at + 17u * (2u * {{i}}u + 1u)], {{/i}});
    let side = Four(odd[0], times(odd[1], kTurn2), vec2<f32>(odd[2].y, -odd[2].x), times(odd[3], kTurn6));
    let y = array<array<vec2<f32>, 2>, 4>({{@k=4}}array<vec2<f32>, 2>(even[{{k}}] + side[{{k}}], even[{{k}}] - side[{{k}}]), {{/k}});
{{/rest8}}
{{#rest4}}
    let y = array<array<vec2<f32>, 1>, 4>({{@k=4}}array<vec2<f32>, 1>(four({{@i=4}}stage[at + 17u * {{i}}u], {{/i}})[{{k}}]), {{/k}});
{{/rest4}}
{{#rest2}}
    let y = array<array<vec2<f32>, 1>, 2>(array<vec2<f32>, 1>(stage[at] + stage[at + 17u]), array<vec2<f32>, 1>(stage[at] - stage[at + 17u]));
{{/rest2}}
{{#turned}}
    // Result q + 16 k is turned by p times that, likewise.
    let turn1 = whole_turn(16u * p * P.turns);
    let turn4 = whole_turn(64u * p * P.turns);
    let turn2 = times(turn1, turn1);
    let turn3 = times(turn2, turn1);
    var turn = whole_turn(q * p * P.turns);
{{@m=high}}
    let factors{{m}} = Four(turn, times(turn, turn1), times(turn, turn2), times(turn, turn3));
    turn = times(turn, turn4);
{{/m}}
{{/turned}}
{{@m=high}}
{{@k=low}}
    store(line, to + ({{k}}u + {{low}}u * {{m}}u) * apart, {{#turned}}times(y[{{k}}][{{m}}], factors{{m}}[{{k}}]){{/turned}}{{^turned}}y[{{k}}][{{m}}]{{/turned}});
{{/k}}
{{/m}}
  }
}
