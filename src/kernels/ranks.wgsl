// ranks.wgsl: result[i] = how many elements of the line come before element i: larger (or smaller) ones, and equal ones of
// a lower position. Plain [outer][extent][inner]; one thread makes one rank. A dispatch sees a part of the others; what
// earlier ones counted is in the result already. Elements are compared as words in their order.
{{head}}
{{>order_key}}

{{main}}
  let index = group_index(wid, nwg) * {{wg}}u + lane;
  if (index >= P.own_count) {
    return;
  }
  let o = P.own_begin + index;
  let value = order_key(own[o + P.own_shift], P.kind);
  let position = o / P.inner % P.extent;
  let first = o - position * P.inner;
  var rank = {{#first}}0{{/first}}{{^first}}result[o + P.result_shift]{{/first}};
  for (var k = 0u; k < P.extent; k++) {
    let at = first + k * P.inner;
    if (at - P.others_begin >= P.others_count) {
      continue;
    }
    let other = order_key(others[at + P.others_shift], P.kind);
    rank += select(0, 1, other < value || (other == value && k < position));
  }
  result[o + P.result_shift] = rank;
}
