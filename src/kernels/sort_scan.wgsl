// sort_scan.wgsl: {{#sums}}sums[b] = the sum of block b of the words{{/sums}}{{^sums}}each word becomes the sum of those before it{{/sums}}. A block is {{block}} words, and one
// workgroup's work; words of other blocks are in bases[b], which earlier dispatches made.
{{head}}
{{main}}
  let b = group_index(wid, nwg);
  let first = b * {{block}}u + lane * {{per}}u;
  var sum = 0u;
  for (var i = first; i < first + {{per}}u; i++) {
    if (i < P.count) {
      sum += words[i + P.words_shift];
    }
  }
  stage[lane] = sum;
  workgroupBarrier();
  var half = 0u;
  for (var apart = 1u; apart < {{wg}}u; apart *= 2u) {
    var value = stage[half + lane];
    if (lane >= apart) {
      value += stage[half + lane - apart];
    }
    stage[{{wg}}u - half + lane] = value;
    half = {{wg}}u - half;
    workgroupBarrier();
  }
{{#sums}}
  if (lane == 0u && b < P.blocks) {
    sums[b + P.sums_shift] = stage[half + {{wg}}u - 1u];
  }
{{/sums}}{{^sums}}
  var before = stage[half + lane] - sum;
{{#based}}
  if (b < P.blocks) {
    before += bases[b + P.bases_shift];
  }
{{/based}}
  for (var i = first; i < first + {{per}}u; i++) {
    if (i < P.count) {
      let value = words[i + P.words_shift];
      words[i + P.words_shift] = before;
      before += value;
    }
  }
{{/sums}}
}
