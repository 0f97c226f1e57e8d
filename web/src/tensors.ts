// Tensors against what a plan says of them.

import { GyrusError } from "./errors.js";
import { dtypeBytes } from "./plan.js";
import type { DeviceTensor, DType, HostTensor, TensorValue } from "./types.js";

/** "f32[1,2,3]" */
export function show(dtype: string, shape: number[]): string {
  return `${dtype}[${shape.join(",")}]`;
}

export function isDeviceTensor(tensor: HostTensor | DeviceTensor): tensor is DeviceTensor {
  return "buffer" in tensor;
}

/** Throws "invalid-input" unless the tensor is as wanted; `says` are parts of the sentence. */
export function checkTensor(
  name: string, wanted: { dtype: DType; shape: number[] }, tensor: TensorValue | DeviceTensor,
  [takes, given]: readonly [string, string] = ["the plan takes", "the input"],
): void {
  const [want, got] = [show(wanted.dtype, wanted.shape), show(tensor.dtype, tensor.shape)];
  if (want !== got) throw new GyrusError("invalid-input", `[${name}] ${takes} ${want}, ${given} is ${got}`);
  const bytes = wanted.shape.reduce((product, extent) => product * extent, dtypeBytes[wanted.dtype]);
  const invalid = (message: string) => new GyrusError("invalid-input", `[${name}] ${message}`);
  if (!isDeviceTensor(tensor)) {
    if (tensor.data.byteLength === bytes) return;
    throw invalid(`${given} has ${tensor.data.byteLength} bytes, ${want} has ${bytes}`);
  }
  const { buffer, offset = 0 } = tensor;
  const padded = Math.ceil(bytes / 4) * 4;
  if (offset % 4 !== 0 || offset < 0 || offset + padded > buffer.size)
    throw invalid(`${given}'s ${padded} bytes at ${offset} are not in its buffer of ${buffer.size}`);
}
