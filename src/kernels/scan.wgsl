// scan.wgsl: running {{title}} along lines of `extent` elements `inner` apart, plain [outer][extent][inner]. One thread goes
// along a part of a line, `length` elements from where the scan starts.
{{#sums}}
// Gives what each part comes to by itself, [outer][parts][inner].
{{/sums}}{{#carried}}
// Each part begins with `carry`, what all before it come to, [outer][parts][inner].
{{/carried}}
{{head}}
{{main}}
  let index = group_index(wid, nwg) * {{wg}}u + lane;
  if (index >= P.count) {
    return;
  }
  let inner = index % P.inner;
  let part = index / P.inner % P.parts;
  let outer = index / P.inner / P.parts;
  let line = outer * P.extent * P.inner + inner;
  let end = min((part + 1u) * P.length, P.extent);
{{#carried}}
  var value = carry[index + P.carry_shift];
{{/carried}}{{^carried}}
  var value = bitcast<{{T}}>(P.start);
{{/carried}}
{{#linear}}{{#sums}}
  var product = 1.0;
{{/sums}}{{/linear}}
  for (var k = part * P.length; k < end; k++) {
    let at = line + {{#reverse}}(P.extent - 1u - k){{/reverse}}{{^reverse}}k{{/reverse}} * P.inner;
    let before = value;
{{#linear}}
    let factor = a[at + P.a_shift];
    value = factor * value + x[at + P.x_shift];
{{#sums}}
    product *= factor;
{{/sums}}
{{/linear}}{{^linear}}
    let element = x[at + P.x_shift];
    value = {{combine}};
{{/linear}}
{{^sums}}
    output[at + P.output_shift] = {{store}};
{{/sums}}
  }
{{#sums}}
  sums[index + P.sums_shift] = value;
{{#linear}}
  products[index + P.products_shift] = product;
{{/linear}}
{{/sums}}
{{#last}}
  if (part + 1u == P.parts) {
    last[outer * P.inner + inner + P.last_shift] = value;
  }
{{/last}}
}
