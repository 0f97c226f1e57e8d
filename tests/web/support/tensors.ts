import { writeSafetensors } from "../../../web/src/safetensors.js";
import type { HostDType, HostTensor, TensorValue } from "../../../web/src/types.js";

function halfToNumber(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15));
}

/** The elements of a tensor as numbers; its data must be a whole buffer. */
export function toNumbers({ dtype, data }: HostTensor): ArrayLike<number> {
  switch (dtype) {
    case "i64": return Array.from(new BigInt64Array(data.buffer as ArrayBuffer), Number);
    case "f32": return new Float32Array(data.buffer);
    case "f16": return Array.from(new Uint16Array(data.buffer), halfToNumber);
    case "i32": return new Int32Array(data.buffer);
    case "u32": return new Uint32Array(data.buffer);
    case "u8":
    case "bool": return data;
  }
}

function toHalf(value: number): number {
  const f = new Float32Array([value]);
  const bits = new Uint32Array(f.buffer)[0]!;
  const sign = (bits >>> 16) & 0x8000;
  if (Number.isNaN(value)) return 0x7e00;
  if (!Number.isFinite(value)) return sign | 0x7c00;
  const exponent = ((bits >>> 23) & 255) - 112;
  if (exponent <= 0) return sign | Math.round(Math.abs(value) * 2 ** 24);
  return sign | (exponent << 10) | ((bits >>> 13) & 1023); // exact values only: nothing is rounded
}

/** The bytes of a tensor with these elements; halves must be exact. */
export function fromNumbers(dtype: HostDType, values: number[]): Uint8Array {
  const bytes = (array: { buffer: ArrayBufferLike }) => new Uint8Array(array.buffer as ArrayBuffer);
  switch (dtype) {
    case "f32": return bytes(Float32Array.from(values));
    case "f16": return bytes(Uint16Array.from(values, toHalf));
    case "i32": return bytes(Int32Array.from(values));
    case "u32": return bytes(Uint32Array.from(values));
    case "i64": return bytes(BigInt64Array.from(values, BigInt));
    case "u8":
    case "bool": return Uint8Array.from(values);
  }
}

/** A safetensors file of floats: name → shape and values. */
export function weightsFile(tensors: Record<string, [shape: number[], values: number[]]>): Uint8Array {
  const entries = Object.entries(tensors).map(([name, [shape, values]]): [string, TensorValue] =>
    [name, { dtype: "f32", shape, data: fromNumbers("f32", values) }]);
  return writeSafetensors(Object.fromEntries(entries));
}
