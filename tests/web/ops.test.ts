// The op table through PlanExecutor against the reference, under the limits and within the bounds of the native test.

import assert from "node:assert/strict";
import { test } from "node:test";
import { PlanExecutor } from "../../web/src/executor.js";
import { parsePlan, peakBytes } from "../../web/src/plan.js";
import type { TensorValue } from "../../web/src/types.js";
import { openDevice } from "./support/gpu.js";
import { everything } from "./support/native.js";
import { cases, misses, slice } from "./support/op_table.js";

// A software driver takes minutes to compile them all, and kernels are proven by the native test: by default only plans
// that ask for something new of the executor, in turn under the adapter's limits and in halves under tiny ones.
const settings = everything ? ["adapter", "browser", "tiny", "tiny-f16", "f16"] : ["--each-once", "adapter", "tiny-f16"];

// What does not match, of how many cases and plans.
async function compare(settings: string[]): Promise<{ count: number; plans: number; wrong: string[] }> {
  const { device, limits } = await openDevice();
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
