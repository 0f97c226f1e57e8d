// Tensors as callers have them, against those of plans: devices have no integers of 64 bits, no truth values and no
// buffers without elements.

import { GyrusError } from "./errors.js";
import { dtypeBytes } from "./plan.js";
import { show } from "./tensors.js";
import type { HostDType, HostPort, HostTensor, TensorValue } from "./types.js";

const hostBytes: Record<HostDType, number> = { ...dtypeBytes, i64: 8, bool: 1 };

export function elements(shape: number[]): number {
  return shape.reduce((product, extent) => product * extent, 1);
}

/** Throws "invalid-input" where type, shape and bytes do not belong together. */
export function checkHostTensor(name: string, { dtype, shape, data }: HostTensor): void {
  const invalid = (message: string) => new GyrusError("invalid-input", `[${name}] ${message}`);
  if (hostBytes[dtype] === undefined) throw invalid(`'${String(dtype)}' is no element type`);
  if (!Array.isArray(shape) || shape.some((extent) => !Number.isSafeInteger(extent) || extent < 0))
    throw invalid("its shape is no list of extents");
  const want = elements(shape) * hostBytes[dtype];
  if (!(data instanceof Uint8Array)) throw invalid("its data is no Uint8Array of the tensor's bytes");
  if (data.byteLength !== want)
    throw invalid(`the input has ${data.byteLength} bytes, ${show(dtype, shape)} has ${want}`);
}

function view({ data }: HostTensor): DataView {
  return new DataView(data.buffer, data.byteOffset, data.byteLength);
}

/** The tensor as devices have it: i64 as i32, truth values as bytes. Throws "invalid-input" where one does not fit. */
export function narrow(name: string, tensor: HostTensor): TensorValue {
  const { dtype, shape } = tensor;
  if (dtype === "bool") return { dtype: "u8", shape, data: tensor.data.map((value) => Number(value !== 0)) };
  if (dtype !== "i64") return { dtype, shape, data: tensor.data };
  const from = view(tensor);
  const to = new Int32Array(elements(shape));
  for (let i = 0; i < to.length; ++i) {
    const value = from.getBigInt64(8 * i, true);
    if (BigInt.asIntN(32, value) !== value)
      throw new GyrusError("invalid-input", `[${name}] element ${i} is ${value}, which does not fit 32 bits; devices ` +
        "have no wider integers");
    to[i] = Number(value);
  }
  return { dtype: "i32", shape, data: new Uint8Array(to.buffer) };
}

/** A result of the device as the caller's type has it. */
export function widen(tensor: TensorValue, dtype: HostDType): HostTensor {
  if (tensor.dtype === dtype || dtype !== "i64") return { ...tensor, dtype };
  const from = view(tensor);
  const to = new BigInt64Array(elements(tensor.shape));
  for (let i = 0; i < to.length; ++i) to[i] = BigInt(from.getInt32(4 * i, true));
  return { dtype, shape: tensor.shape, data: new Uint8Array(to.buffer) };
}

/** The tensor of a port that has no elements. */
export function emptyTensor({ dtype, shape }: HostPort): HostTensor {
  return { dtype, shape: [...shape], data: new Uint8Array(0) };
}
