// map.wgsl: {{title}}. out[o] = element(o) over a plain result; one thread makes one 4-byte word of it.
// Elements outside [P.begin, P.end) and those whose sources lie outside the bound windows keep their old value.
{{>elementwise}}
{{>random}}
{{head}}
var<private> covered: bool;

{{functions}}
{{main}}
  let index = group_index(wid, nwg) * {{wg}}u + lane;
  if (index >= P.words) {
    return;
  }
  let at = P.first_word + index;
  var word = out[at + P.word_shift];
  for (var e = 0u; e < {{per_word}}u; e++) {
    let o = at * {{per_word}}u + e;
    if (o < P.begin || o >= P.end) {
      continue;
    }
    covered = true;
    let value = element(o);
    if (covered) {
      {{insert}}
    }
  }
  out[at + P.word_shift] = word;
}
