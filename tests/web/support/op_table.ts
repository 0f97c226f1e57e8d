// The op table as plans with what they should give, from op_plans, for tests of every place where plans run.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import type { DType, TensorValue } from "../../../web/src/types.js";
import { program } from "./native.js";
import { toNumbers } from "./tensors.js";

export type Range = [number, number]; // offset and size in the bytes behind a line
export type Bound = { nmse: number } | { different: number };
export interface Case {
  name: string;
  bytes: number;
  inputs: { name: string; dtype: DType; shape: number[]; data: Range }[];
  want: { name: string; data: Range }[];
  settings: { name: string; plan: Range; weights: Range; bounds: Record<string, Bound> }[];
}

/** The cases that op_plans writes, one at a time. */
export async function* cases(limits: object, settings: string[]): AsyncGenerator<{ entry: Case; blob: Buffer }> {
  const child = spawn(program("tests/op_plans"), [JSON.stringify(limits), ...settings], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
  let held: Buffer[] = [];
  let size = 0;
  let entry: Case | null = null;
  for await (const chunk of child.stdout as AsyncIterable<Buffer>) {
    held.push(chunk);
    size += chunk.length;
    while (entry ? size >= entry.bytes : held.at(-1)!.includes(10)) {
      const all: Buffer = Buffer.concat(held);
      const end: number = entry ? entry.bytes : all.indexOf(10) + 1;
      if (entry) yield { entry, blob: all.subarray(0, end) };
      entry = entry ? null : (JSON.parse(all.subarray(0, end).toString()) as Case);
      held = [all.subarray(end)];
      size = all.length - end;
    }
  }
  assert.equal(await ended, 0, "op_plans failed");
}

export function slice(blob: Buffer, [offset, size]: Range): Uint8Array {
  return new Uint8Array(blob.subarray(offset, offset + size));
}

// Sum of squared differences over sum of squares; infinities and NaN must be equal in both.
function nmse(got: ArrayLike<number>, want: Float64Array): number {
  let error = 0;
  let power = 0;
  for (let i = 0; i < want.length; ++i) {
    const [a, b] = [got[i]!, want[i]!];
    if (Number.isNaN(a) && Number.isNaN(b)) continue;
    const narrow = Math.fround(b);
    if (!Number.isFinite(narrow) && narrow === a) continue;
    if (!Number.isFinite(a) || !Number.isFinite(b)) return Infinity;
    error += (a - b) ** 2;
    power += b * b;
  }
  return power > 0 ? error / power : error;
}

/** What is wrong with a result, or null. */
export function misses(got: TensorValue, want: Float64Array, bound: Bound): string | null {
  const values = toNumbers(got);
  if (values.length !== want.length) return `${values.length} elements, ${want.length} wanted`;
  if ("nmse" in bound) {
    const error = nmse(values, want);
    return error <= bound.nmse ? null : `nmse ${error} over ${bound.nmse}`;
  }
  let different = 0;
  for (let i = 0; i < want.length; ++i) different += values[i] === want[i] ? 0 : 1;
  return different <= bound.different ? null : `${different} differ, ${bound.different} may`;
}
