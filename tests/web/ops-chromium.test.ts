// Kernels of scans, recurrent layers and mixtures of experts in Chromium on SwiftShader: a case of each from the op
// table, planned under the limits of browsers, against the reference.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { buildSync } from "esbuild";
import type { BrowserContext, Page } from "playwright-core";
import type * as Gyrus from "../../web/src/executor-entry.js";
import { program, sourceFolder } from "./support/native.js";
import { openBrowser, openPage } from "./support/page.js";

const ops = [
  "cumsum", "linear_scan", "selective_scan", "delta_rule", "delta_states", "lstm_steps", "gru_steps", "lstm_back",
  "gru_back", "group_rows", "grouped_matmul", "grouped_weights",
];
const defaults = {
  maxBufferSize: 268435456, maxStorageBufferBindingSize: 134217728, maxUniformBufferBindingSize: 65536,
  maxStorageBuffersPerShaderStage: 8, minStorageBufferOffsetAlignment: 256, minUniformBufferOffsetAlignment: 256,
  maxComputeWorkgroupsPerDimension: 65535, maxComputeInvocationsPerWorkgroup: 256, maxComputeWorkgroupSizeX: 256,
  maxComputeWorkgroupSizeY: 256, maxComputeWorkgroupSizeZ: 64, maxComputeWorkgroupStorageSize: 16384,
};

type Range = [number, number]; // offset and size in the bytes behind a line
interface Case {
  name: string;
  bytes: number;
  inputs: { name: string; dtype: Gyrus.DType; shape: number[]; data: Range }[];
  want: { name: string; data: Range }[];
  settings: { name: string; plan: Range; weights: Range; bounds: Record<string, { nmse?: number; different?: number }> }[];
}

const files = mkdtempSync(join(tmpdir(), "gyrus-ops-"));
const server = createServer((request, response) => {
  const path = join(files, new URL(request.url ?? "/", "http://x").pathname);
  response.setHeader("Content-Type", path.endsWith(".js") ? "text/javascript" : "text/html");
  if (path === join(files, "/")) return response.end("<!doctype html><link rel=icon href=data:,>");
  return existsSync(path) ? response.end(readFileSync(path)) : response.writeHead(404).end();
});
let context: BrowserContext;
let page: Page;
const cases: Case[] = [];

before(async () => {
  const entry = join(sourceFolder, "web/src/executor-entry.ts");
  buildSync({ entryPoints: [entry], outfile: join(files, "gyrus.js"), bundle: true, format: "esm", target: "es2022" });
  const args = [JSON.stringify(defaults), "--each-once", ...ops.map((op) => `--op=${op}`), "browser"];
  const written = execFileSync(program("tests/op_plans"), args, { maxBuffer: 1 << 28 });
  for (let at = 0; at < written.length; ) {
    const end = written.indexOf(10, at) + 1;
    const entry = JSON.parse(written.subarray(at, end).toString()) as Case;
    writeFileSync(join(files, `${entry.name}.bin`), written.subarray(end, end + entry.bytes));
    cases.push(entry);
    at = end + entry.bytes;
  }
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  context = await openBrowser();
  ({ page } = await openPage(context, `http://127.0.0.1:${(server.address() as AddressInfo).port}/`));
});

after(async () => {
  await context?.close();
  server.close();
  rmSync(files, { recursive: true });
});

// What does not match.
function runInPage(entry: Case): Promise<string[]> {
  return page.evaluate(async (entry: Case): Promise<string[]> => {
    const { parsePlan, requestDevice, PlanExecutor } = (await import(`${location.origin}/gyrus.js`)) as typeof Gyrus;
    const blob = new Uint8Array(await (await fetch(`/${entry.name}.bin`)).arrayBuffer());
    const slice = ([offset, size]: [number, number]) => blob.slice(offset, offset + size);
    const setting = entry.settings[0]!;
    const plan = parsePlan(new TextDecoder().decode(slice(setting.plan)), slice(setting.weights));
    const { device } = await requestDevice();
    const executor = await PlanExecutor.create(device, plan, { checkFinite: false });
    const inputs: Record<string, Gyrus.TensorValue> = {};
    for (const { name, dtype, shape, data } of entry.inputs) inputs[name] = { dtype, shape, data: slice(data) };
    const { outputs } = await executor.run(inputs);
    const wrong: string[] = [];
    for (const { name, data } of entry.want) {
      const got = outputs[name]!;
      const bytes = got.data.slice().buffer;
      const numbers = got.dtype === "i32" ? new Int32Array(bytes) : new Float32Array(bytes);
      const want = new Float64Array(slice(data).buffer);
      let error = 0;
      let power = 0;
      for (let i = 0; i < want.length; ++i) {
        error += (numbers[i]! - want[i]!) ** 2;
        power += want[i]! ** 2;
      }
      const bound = setting.bounds[name]!;
      const good = bound.nmse === undefined ? error === 0 : error <= bound.nmse * Math.max(power, 1e-30);
      if (!good || numbers.length !== want.length) wrong.push(`${entry.name} ${name}: nmse ${error / power}`);
    }
    executor.destroy();
    device.destroy();
    return wrong;
  }, entry);
}

test("kernels that carry something give what the reference gives in Chromium", async () => {
  const kernels = new Set<string>();
  for (const entry of cases) {
    assert.deepEqual(await runInPage(entry), []);
    const [offset, size] = entry.settings[0]!.plan;
    const blob = readFileSync(join(files, `${entry.name}.bin`));
    const plan = JSON.parse(blob.subarray(offset, offset + size).toString()) as { kernels: { name: string }[] };
    for (const { name } of plan.kernels) kernels.add(name.split(" ")[0]!);
  }
  for (const kernel of ["scan", "selective_scan", "delta_rule", "delta_carry", "recurrent_steps", "recurrent_back",
    "group_rows", "grouped_matmul", "grouped_weights"])
    assert.ok(kernels.has(kernel), `${kernel} is in none of ${[...kernels].join(", ")}`);
});
