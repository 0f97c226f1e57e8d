// search_sorted.wgsl: result[q] = how many words of a sorted list are below (right: or equal to) query q. One thread looks
// for one query. A dispatch sees a window of the list; those before have counted theirs.
{{head}}
{{main}}
  let index = group_index(wid, nwg) * {{wg}}u + lane;
  if (index >= P.query_count) {
    return;
  }
  let q = P.query_begin + index;
  let query = queries[q + P.queries_shift];
  var low = P.list_begin;
  var high = P.list_begin + P.list_count;
  while (low < high) {
    let middle = low + (high - low) / 2u;
    if (list[middle + P.list_shift] {{#right}}<={{/right}}{{^right}}<{{/right}} query) {
      low = middle + 1u;
    } else {
      high = middle;
    }
  }
  let found = i32(low - P.list_begin);
  result[q + P.result_shift] = {{^first}}result[q + P.result_shift] + {{/first}}found;
}
