// order_key.wgsl: bits of {{type}} elements as words in the order of the elements{{#descending}}, the largest first{{/descending}}, and back.
fn order_key(bits: u32) -> u32 {
{{#floats}}
  let size = bits & 0x7fffffffu;
  // NaN is above all numbers, -0 equals 0.
  var key = select(bits | 0x80000000u, ~bits, bits >= 0x80000000u && size != 0u);
  key = select(key, 0x80000000u, size == 0u);
  key = select(key, 0xffffffffu, size > 0x7f800000u);
{{/floats}}{{#signed}}
  let key = bits ^ 0x80000000u;
{{/signed}}{{#words}}
  let key = bits;
{{/words}}
  return {{#descending}}~{{/descending}}key;
}

fn bits_of_key(ordered: u32) -> u32 {
  let key = {{#descending}}~{{/descending}}ordered;
{{#floats}}
  return select(select(~key, key & 0x7fffffffu, key >= 0x80000000u), 0x7fc00000u, key == 0xffffffffu);
{{/floats}}{{#signed}}
  return key ^ 0x80000000u;
{{/signed}}{{#words}}
  return key;
{{/words}}
}
