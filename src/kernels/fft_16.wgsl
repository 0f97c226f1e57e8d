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

// exp(-2 pi i k / 16), k = 1, 2, 3
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

{{main}}
  let first = group_index(wid, nwg) << P.together_bits;
  let mask = (1u << P.together_bits) - 1u;
  let row = P.length + 1u;  // odd: columns lie in different banks
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
    let to = column * row + 16u * b;
{{@k=4}}
{{@m=4}}
    stage[to + {{k}}u + 4u * {{m}}u] = times(y[{{k}}][{{m}}], tables[b * ({{k}}u + 4u * {{m}}u)]);
{{/m}}
{{/k}}
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
    let at = column * row + q;
{{#rest16}}
{{@j=4}}
    let x{{j}} = Four({{@i=4}}stage[at + 16u * (4u * {{i}}u + {{j}}u)], {{/i}});
{{/j}}
    let y = sixteen(x0, x1, x2, x3);
{{@k=4}}
{{@m=4}}
    finish(line, place, q + 16u * ({{k}}u + 4u * {{m}}u), y[{{k}}][{{m}}]);
{{/m}}
{{/k}}
{{/rest16}}
{{#rest8}}
    let even = four({{@i=4}}stage[at + 16u * 2u * {{i}}u], {{/i}});
    let odd = four({{@i=4}}stage[at + 16u * (2u * {{i}}u + 1u)], {{/i}});
    let turned = Four(odd[0], times(odd[1], kTurn2), vec2<f32>(odd[2].y, -odd[2].x), times(odd[3], kTurn6));
{{@k=4}}
    finish(line, place, q + 16u * {{k}}u, even[{{k}}] + turned[{{k}}]);
    finish(line, place, q + 16u * ({{k}}u + 4u), even[{{k}}] - turned[{{k}}]);
{{/k}}
{{/rest8}}
{{#rest4}}
    let y = four({{@i=4}}stage[at + 16u * {{i}}u], {{/i}});
{{@k=4}}
    finish(line, place, q + 16u * {{k}}u, y[{{k}}]);
{{/k}}
{{/rest4}}
{{#rest2}}
    finish(line, place, q, stage[at] + stage[at + 16u]);
    finish(line, place, q + 16u, stage[at] - stage[at + 16u]);
{{/rest2}}
  }
}
