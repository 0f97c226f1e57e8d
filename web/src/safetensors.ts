// safetensors: the header's length (u64), the header (JSON: name → dtype, shape, data_offsets), the data. The same
// bytes as those that C++ writes for the same tensors.

import { GyrusError } from "./errors.js";
import { dtypeBytes, oneLine } from "./plan.js";
import type { DType, TensorValue } from "./types.js";

const longestHeader = 32 * 2 ** 20; // bytes
const fileTypes: Record<DType, string> = { f32: "F32", f16: "F16", i32: "I32", u32: "U32", u8: "U8" };

function invalid(message: string): never {
  throw new GyrusError("invalid-input", oneLine(`[safetensors] ${message}`));
}

/** Tensors as the bytes of a file, ordered by name. */
export function writeSafetensors(tensors: Record<string, TensorValue>): Uint8Array<ArrayBuffer> {
  const names = Object.keys(tensors).sort((a, b) => (a < b ? -1 : 1));
  const header: Record<string, unknown> = {};
  let size = 0;
  for (const name of names) {
    const { dtype, shape, data } = tensors[name]!;
    header[name] = { data_offsets: [size, (size += data.length)], dtype: fileTypes[dtype], shape };
  }
  let text = new TextEncoder().encode(JSON.stringify(header));
  const padded = new Uint8Array(Math.ceil(text.length / 8) * 8).fill(0x20); // so that the data are aligned
  padded.set(text);
  text = padded;
  const out = new Uint8Array(8 + text.length + size);
  new DataView(out.buffer).setBigUint64(0, BigInt(text.length), true);
  out.set(text, 8);
  let at = 8 + text.length;
  for (const name of names) {
    out.set(tensors[name]!.data, at);
    at += tensors[name]!.data.length;
  }
  return out;
}

function headerOf(file: Uint8Array): { header: Record<string, unknown>; data: Uint8Array } {
  const size = file.length < 8 ? 0n : new DataView(file.buffer, file.byteOffset).getBigUint64(0, true);
  if (size === 0n || size > longestHeader || 8 + Number(size) > file.length) invalid("is cut off, or no such file");
  const end = 8 + Number(size);
  let header: unknown;
  try {
    header = JSON.parse(new TextDecoder().decode(file.subarray(8, end)));
  } catch (error) {
    invalid(`the header is no JSON: ${(error as Error).message}`);
  }
  if (typeof header !== "object" || header === null || Array.isArray(header)) invalid("the header is no JSON object");
  return { header: header as Record<string, unknown>, data: file.subarray(end) };
}

function tensorOf(name: string, json: unknown, data: Uint8Array): TensorValue {
  const { dtype: type, shape, data_offsets: offsets } = (json ?? {}) as Record<string, unknown>;
  const dtype = (Object.keys(fileTypes) as DType[]).find((key) => fileTypes[key] === type);
  if (!dtype) invalid(`tensor '${name}' has the type ${String(type)}, which states do not have`);
  const whole = (list: unknown): list is number[] =>
    Array.isArray(list) && list.every((value) => Number.isSafeInteger(value) && value >= 0);
  if (!whole(shape) || !whole(offsets) || offsets.length !== 2) invalid(`tensor '${name}' has no shape or place`);
  const [begin, end] = offsets as [number, number];
  const bytes = shape.reduce((product, extent) => product * extent, dtypeBytes[dtype]);
  if (end - begin !== bytes || end > data.length) invalid(`tensor '${name}' is cut off or has a wrong place`);
  return { dtype, shape, data: new Uint8Array(data.subarray(begin, end)) }; // a copy, also of a Node Buffer
}

/** The tensors of a file; throws "invalid-input" where it is broken. */
export function readSafetensors(file: Uint8Array): Record<string, TensorValue> {
  const { header, data } = headerOf(file);
  const names = Object.keys(header).filter((name) => name !== "__metadata__");
  return Object.fromEntries(names.map((name) => [name, tensorOf(name, header[name], data)]));
}
