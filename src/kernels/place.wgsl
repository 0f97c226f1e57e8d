// place.wgsl: result[outer][places[i]][inner] = x[i] where places[i] < k; plain [outer][extent][inner] of 4-byte elements;
// one thread moves one element. Places differ along a line, so that no two threads write one element.
{{head}}
{{main}}
  let index = group_index(wid, nwg) * {{wg}}u + lane;
  if (index >= P.count) {
    return;
  }
  let i = P.begin + index;
  let place = u32(places[i + P.places_shift]);
  let o = (i / P.inner / P.extent * P.k + place) * P.inner + i % P.inner;
  if (place < P.k && o - P.result_begin < P.result_count) {
    result[o + P.result_shift] = x[i + P.x_shift];
  }
}
