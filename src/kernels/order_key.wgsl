// order_key.wgsl: bits of elements as words in the order of the elements, and back. kind: 0 words as they are, 1 of i32,
// 2 of f32; with 4 the largest come first. NaN is above all numbers, -0 equals 0. The kind is no part of the text, so
// that kernels are the same for all of them.
fn order_key(bits: u32, kind: u32) -> u32 {
  let size = bits & 0x7fffffffu;
  var key = select(bits, bits ^ 0x80000000u, (kind & 1u) != 0u);
  if ((kind & 2u) != 0u) {
    key = select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
    key = select(key, 0x80000000u, size == 0u);
    key = select(key, 0xffffffffu, size > 0x7f800000u);
  }
  return select(key, ~key, (kind & 4u) != 0u);
}

fn bits_of_key(ordered: u32, kind: u32) -> u32 {
  let key = select(ordered, ~ordered, (kind & 4u) != 0u);
  if ((kind & 2u) != 0u) {
    return select(select(~key, key & 0x7fffffffu, key >= 0x80000000u), 0x7fc00000u, key == 0xffffffffu);
  }
  return select(key, key ^ 0x80000000u, (kind & 1u) != 0u);
}
