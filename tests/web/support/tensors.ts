import type { TensorValue } from "../../../web/src/types.js";

function halfToNumber(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15));
}

/** The elements of a tensor as numbers; its data must be a whole buffer. */
export function toNumbers({ dtype, data }: TensorValue): ArrayLike<number> {
  switch (dtype) {
    case "f32": return new Float32Array(data.buffer);
    case "f16": return Array.from(new Uint16Array(data.buffer), halfToNumber);
    case "i32": return new Int32Array(data.buffer);
    case "u32": return new Uint32Array(data.buffer);
    case "u8": return data;
  }
}
