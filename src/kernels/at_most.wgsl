// at_most.wgsl: y = x, reported where it is above P.most. One thread looks at one element.
{{head}}
{{main}}
  let index = group_index(wid, nwg) * {{wg}}u + lane;
  if (index >= P.count) {
    return;
  }
  let value = x[P.begin + index + P.x_shift];
  if (value > bitcast<i32>(P.most)) {
    report(bitcast<u32>(value), P.most);
  }
  y[P.begin + index + P.y_shift] = value;
}
