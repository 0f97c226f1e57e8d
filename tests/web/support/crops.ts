// The crops of the public test data: inputs as a plan takes them, reference labels, and how many voxels may differ.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { TensorValue } from "../../../web/src/types.js";
import { floats } from "./plans.js";

interface Range {
  shape: [number, number, number];
  min: number;
  max: number;
  q02: number;
  q98: number;
}

export interface Crop {
  shape: [number, number, number];
  inputs: Record<string, TensorValue>;
  labels: Uint8Array; // z fastest, as a network makes them
  /** How many voxels have their two best logits closer than 0.001: so many may differ in f32. */
  margin: number;
}

/** Volumes lie in files with x fastest, in tensors [x, y, z] with z fastest. */
export function toZFastest(bytes: Uint8Array, [nx, ny, nz]: [number, number, number]): Uint8Array {
  const out = new Uint8Array(bytes.length);
  let at = 0;
  for (let z = 0; z < nz; ++z)
    for (let y = 0; y < ny; ++y)
      for (let x = 0; x < nx; ++x) out[(x * ny + y) * nz + z] = bytes[at++]!;
  return out;
}

export function readCrop(data: string, model: string, crop: string): Crop {
  const folder = join(data, "reference/crops");
  const info = JSON.parse(readFileSync(join(folder, "info.json"), "utf8"));
  const range: Range = info[crop];
  const { shape } = range;
  const quantiles = model === "mindgrab";
  const [lo, hi] = quantiles ? [range.q02, range.q98] : [range.min, range.max];
  const image = toZFastest(readFileSync(join(folder, `${crop}.u8`)), shape);
  return {
    shape,
    inputs: {
      image: { dtype: "u8", shape: [1, 1, ...shape], data: image },
      scale: floats([1 / (hi - lo)]),
      shift: floats([-lo / (hi - lo)]),
    },
    labels: toZFastest(readFileSync(join(folder, `labels_${model}_${crop}.u8`)), shape),
    margin: info[`${model}/${crop}`].margin["0.001"],
  };
}

export function countDifferent(a: Uint8Array, b: Uint8Array): number {
  let count = Math.abs(a.length - b.length);
  for (let i = 0; i < Math.min(a.length, b.length); ++i) count += a[i] === b[i] ? 0 : 1;
  return count;
}
