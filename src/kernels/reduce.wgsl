// reduce.wgsl: {{title}}. output[o, p] = combine over part p of r of input[kept(o) + reduced(r)], plain tensors.
// Axes that are kept or reduced together are one: a tensor is [d0][d1]…, every other axis reduced.
// Inputs outside the bound window count as the identity; where this is not the first window the result so far is
// combined in. Grouped: a workgroup makes one result, its lanes combine in a tree; else a thread makes one.
{{head}}
fn kept_index(o: u32) -> u32 {
{{kept_index}}}

fn reduced_index(r: u32) -> u32 {
{{reduced_index}}}

fn identity() -> {{type}} {
  return bitcast<{{type}}>(P.identity);
}

fn combine(a: {{type}}, b: {{type}}) -> {{type}} {
  return {{combine}};
}

// The contribution of position r to result o.
fn contribution(o: u32, base: u32, r: u32) -> {{type}} {
  let i = base + reduced_index(r);
  if (i - P.in_begin >= P.in_count) {
    return identity();
  }
  let value = {{element}};
{{#position}}
  return select(identity(), r, value == best[o + P.best_shift]);
{{/position}}{{^position}}
{{#scores}}
  // Minus infinity marks what is not to be chosen; by bits, since compilers may assume that there is no NaN.
  let bits = bitcast<u32>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u || bits == 0x7f800000u) {
    report(0u, 0u);
  }
{{/scores}}
  return value;
{{/position}}
}

{{main}}
{{#grouped}}
  let index = group_index(wid, nwg);
  let inside = index < P.out_count;
  let result = P.out_begin + min(index, P.out_count - 1u);
  let o = result / P.parts;
  let base = kept_index(o);
  let first = result % P.parts * P.part;
  let end = min(first + P.part, P.reduced);
  var value = identity();
  for (var r = first + lane; r < end; r += {{wg}}u) {
    value = combine(value, contribution(o, base, r));
  }
  stage[lane] = value;
  workgroupBarrier();
  for (var half = {{wg}}u / 2u; half > 0u; half /= 2u) {
    if (lane < half) {
      stage[lane] = combine(stage[lane], stage[lane + half]);
    }
    workgroupBarrier();
  }
  if (lane != 0u || !inside) {
    return;
  }
  value = stage[0];
{{/grouped}}{{^grouped}}
  let index = group_index(wid, nwg) * {{wg}}u + lane;
  if (index >= P.out_count) {
    return;
  }
  let result = P.out_begin + index;
  let base = kept_index(result);
  var value = identity();
  for (var r = 0u; r < P.reduced; r++) {
    value = combine(value, contribution(result, base, r));
  }
{{/grouped}}
{{^first}}
  value = combine(value, output[result + P.output_shift]);
{{/first}}
{{#scale}}
  value = value * bitcast<f32>(P.scale);
{{/scale}}
  output[result + P.output_shift] = {{store}};
}
