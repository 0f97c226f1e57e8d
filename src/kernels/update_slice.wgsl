// update_slice.wgsl: base[outer][start + l][inner] = value[outer][l][inner], plain tensors as 32-bit words; one thread
// moves one word. A start with which the value would not lie inside is reported, and nothing is written.
{{head}}
{{main}}
  let index = group_index(wid, nwg) * {{wg}}u + lane;
  if (index >= P.count) {
    return;
  }
{{#given}}
  let first = bitcast<u32>(start[P.start_shift]);
  if (first > P.extent - P.length) {
    report(first, P.extent - P.length + 1u);
    return;
  }
{{/given}}{{^given}}
  let first = P.first;
{{/given}}
  let i = P.begin + index;
  let row = i / P.inner;
  let o = (row / P.length * P.extent + first + row % P.length) * P.inner + i % P.inner;
  if (o - P.out_begin < P.out_count) {
    base[o + P.base_shift] = value[i + P.value_shift];
  }
}
