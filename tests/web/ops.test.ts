// The op table through PlanExecutor against the reference, under the limits and within the bounds of the native test.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { test } from "node:test";
import { PlanExecutor } from "../../web/src/executor.js";
import { parsePlan, peakBytes } from "../../web/src/plan.js";
import type { DType, TensorValue } from "../../web/src/types.js";
import { openDevice } from "./support/gpu.js";
import { everything, program } from "./support/native.js";
import { toNumbers } from "./support/tensors.js";

// A software driver takes minutes to compile them all, and kernels are proven by the native test: by default only plans
// that ask for something new of the executor, in turn under the adapter's limits and in halves under tiny ones.
const settings = everything ? ["adapter", "browser", "tiny", "tiny-f16", "f16"] : ["--each-once", "adapter", "tiny-f16"];

type Range = [number, number]; // offset and size in the bytes behind a line
type Bound = { nmse: number } | { different: number };
interface Case {
  name: string;
  bytes: number;
  inputs: { name: string; dtype: DType; shape: number[]; data: Range }[];
  want: { name: string; data: Range }[];
  settings: { name: string; plan: Range; weights: Range; bounds: Record<string, Bound> }[];
}

// The cases that op_plans writes, one at a time.
async function* cases(limits: object, settings: string[]): AsyncGenerator<{ entry: Case; blob: Buffer }> {
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

function misses(got: TensorValue, want: Float64Array, bound: Bound): string | null {
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

// What does not match, of how many cases and plans.
async function compare(settings: string[]): Promise<{ count: number; plans: number; wrong: string[] }> {
  const { device, limits } = await openDevice();
  const slice = (blob: Buffer, [offset, size]: Range) => new Uint8Array(blob.subarray(offset, offset + size));
  let count = 0;
  let plans = 0;
  const wrong: string[] = [];
  for await (const { entry, blob } of cases(limits, settings)) {
    ++count;
    const inputs: Record<string, TensorValue> = {};
    for (const { name, dtype, shape, data } of entry.inputs) inputs[name] = { dtype, shape, data: slice(blob, data) };
    for (const setting of entry.settings) {
      ++plans;
      const plan = parsePlan(Buffer.from(slice(blob, setting.plan)).toString(), slice(blob, setting.weights));
      const executor = await PlanExecutor.create(device, plan, { checkFinite: false });
      assert.equal(executor.allocatedBytes, peakBytes(plan));
      const { outputs } = await executor.run(inputs);
      executor.destroy();
      for (const { name, data } of entry.want) {
        const miss = misses(outputs[name]!, new Float64Array(slice(blob, data).buffer), setting.bounds[name]!);
        if (miss) wrong.push(`${entry.name} ${setting.name} output ${name}: ${miss}`);
      }
    }
  }
  device.destroy();
  return { count, plans, wrong };
}

test("ops match the reference", async (t) => {
  const { count, plans, wrong } = await compare(settings);
  t.diagnostic(`${count} cases, ${plans} plans under ${settings.join(", ")}`);
  assert.ok(count > (everything ? 300 : 20), `${count} cases`);
  assert.deepEqual(wrong, []);
});

// Words and uniform numbers bit for bit: the bounds of their cases are 0.
test("random numbers are those of the reference", async () => {
  const ops = ["random_bits", "random_uniform", "random_normal", "dropout"].map((name) => `--op=${name}`);
  const { count, wrong } = await compare([...ops, "tiny"]);
  assert.ok(count >= 15, `${count} cases`);
  assert.deepEqual(wrong, []);
});
