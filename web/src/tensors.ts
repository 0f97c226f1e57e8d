// Tensors against what a plan says of them.

import { GyrusError } from "./errors.js";
import { dtypeBytes } from "./plan.js";
import type { DType, TensorValue } from "./types.js";

/** "f32[1,2,3]" */
export function show(dtype: string, shape: number[]): string {
  return `${dtype}[${shape.join(",")}]`;
}

/** Throws "invalid-input" unless the tensor is as wanted; `says` begins the sentence, "the plan takes". */
export function checkTensor(
  name: string, wanted: { dtype: DType; shape: number[] }, tensor: TensorValue, says: string,
): void {
  const [want, got] = [show(wanted.dtype, wanted.shape), show(tensor.dtype, tensor.shape)];
  if (want !== got) throw new GyrusError("invalid-input", `[${name}] ${says} ${want}, the input is ${got}`);
  const bytes = wanted.shape.reduce((product, extent) => product * extent, dtypeBytes[wanted.dtype]);
  if (tensor.data.byteLength === bytes) return;
  const message = `the input has ${tensor.data.byteLength} bytes, ${want} has ${bytes}`;
  throw new GyrusError("invalid-input", `[${name}] ${message}`);
}
