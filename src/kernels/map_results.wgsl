// map_results.wgsl: {{title}}. Several plain results of four bytes an element; one thread makes an element of each. A
// result may lie where an operand does: a thread reads its elements before it writes them.
{{>elementwise}}
{{>random}}
{{head}}
{{functions}}
{{main}}
  let o = group_index(wid, nwg) * {{wg}}u + lane;
  if (o >= P.count) {
    return;
  }
{{statements}}}
