// Kernels in Chromium on SwiftShader, within the bounds of the native test: of the ops named here the cases that bring a
// kernel of another family, planned for the limits that every browser has.

import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type * as Gyrus from "../../web/src/executor-entry.js";
import { openExecutorPage, type ExecutorPage } from "./support/executor_page.js";
import { cases, misses, slice, type Case } from "./support/op_table.js";

const ops = [
  "fft", "frames", "cumsum", "linear_scan", "selective_scan", "delta_rule", "delta_states", "lstm_steps", "gru_steps",
  "lstm_back", "gru_back", "group_rows", "grouped_matmul", "grouped_weights", "sort", "search_sorted", "segment_sum",
  "nearest", "fuzzy_weights", "splat_blend", "splat_blend_back",
];

const limits = {
  maxBufferSize: 268435456, maxStorageBufferBindingSize: 134217728, maxUniformBufferBindingSize: 65536,
  maxStorageBuffersPerShaderStage: 8, minStorageBufferOffsetAlignment: 256, minUniformBufferOffsetAlignment: 256,
  maxComputeWorkgroupsPerDimension: 65535, maxComputeInvocationsPerWorkgroup: 256, maxComputeWorkgroupSizeX: 256,
  maxComputeWorkgroupSizeY: 256, maxComputeWorkgroupSizeZ: 64, maxComputeWorkgroupStorageSize: 16384,
};
const browser = process.env.GYRUS_BROWSER ?? "/usr/bin/chromium";
const missing = !existsSync(browser) ? `there is no browser at ${browser}` : false;

let site: ExecutorPage;

before(async () => {
  if (!missing) site = await openExecutorPage();
});

after(() => site?.close());

// The outputs of the plan that lies on the server, by name, in base64.
function runInPage(inputs: Case["inputs"]): Promise<Record<string, string>> {
  return site.page.evaluate(async (inputs) => {
    const { loadPlan, requestDevice, PlanExecutor } = (await import(`${location.origin}/gyrus.js`)) as typeof Gyrus;
    const given = new Uint8Array(await (await fetch("/case")).arrayBuffer());
    const { device } = await requestDevice();
    const executor = await PlanExecutor.create(device, await loadPlan("/"), { checkFinite: false });
    const tensors: Record<string, Gyrus.TensorValue> = {};
    for (const { name, dtype, shape, data: [offset, size] } of inputs)
      tensors[name] = { dtype, shape, data: given.slice(offset, offset + size) };
    const { outputs } = await executor.run(tensors);
    executor.destroy();
    device.destroy();
    const text = (bytes: Uint8Array) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
    return Object.fromEntries(Object.entries(outputs).map(([name, { data }]) => [name, text(data)]));
  }, inputs);
}

test("kernels in Chromium match the reference", { skip: missing }, async (t) => {
  const wrong: string[] = [];
  const names: string[] = [];
  for await (const { entry, blob } of cases(limits, ["--each-once", ...ops.map((op) => `--op=${op}`), "adapter"])) {
    const setting = entry.settings[0]!;
    const json = Buffer.from(slice(blob, setting.plan)).toString();
    writeFileSync(join(site.files, "plan.json"), json);
    writeFileSync(join(site.files, "plan.bin"), slice(blob, setting.weights));
    writeFileSync(join(site.files, "case"), blob);
    const outputs = await runInPage(entry.inputs);
    const ports = JSON.parse(json).outputs as Gyrus.PlanPort[];
    for (const { name, data } of entry.want) {
      const { dtype, shape } = ports.find((port) => port.name === name)!;
      const bytes = new Uint8Array(Buffer.from(outputs[name]!, "base64"));
      const miss = misses({ dtype, shape, data: bytes }, new Float64Array(slice(blob, data).buffer), setting.bounds[name]!);
      if (miss) wrong.push(`${entry.name} output ${name}: ${miss}`);
    }
    names.push(entry.name);
  }
  t.diagnostic(names.join(", "));
  assert.ok(names.length >= ops.length, `${names.length} cases`);
  assert.deepEqual(wrong, []);
  assert.deepEqual(site.said, [], "the console is quiet");
});
