// PlanExecutor on small plans: results, queueing, abort, errors, memory.

import assert from "node:assert/strict";
import { test } from "node:test";
import { GyrusError, type ErrorCode } from "../../web/src/errors.js";
import { PlanExecutor } from "../../web/src/executor.js";
import { peakBytes } from "../../web/src/plan.js";
import type { Progress } from "../../web/src/types.js";
import { openDevice } from "./support/gpu.js";
import { chained, chainJson, chainPlan, floats, tensor, toFloats } from "./support/plans.js";
import { refuseMemory, watchBuffers } from "./support/spy.js";

const { device } = await openDevice();
const values = Array.from({ length: 100 }, (_, i) => i);
const slow = () => chainPlan(chainJson(100, 60, 200_000)); // some milliseconds a step
const input = (offset = 0) => ({ x: floats(values.map((x) => x + offset)) });
const wanted = (steps: number, offset = 0) => values.map((x) => chained(x + offset, steps));

async function rejected(promise: Promise<unknown>, code: ErrorCode): Promise<string> {
  const error = await promise.then(() => assert.fail(`no error, ${code} was expected`), (e: unknown) => e);
  assert.ok(error instanceof GyrusError, String(error));
  assert.equal(error.code, code, error.message);
  assert.doesNotMatch(error.message, /\n/);
  return error.message;
}

test("runs a chain with copy and clear, again and again", async () => {
  const plan = chainPlan(chainJson(100, 5));
  const executor = await PlanExecutor.create(device, plan);
  assert.equal(executor.allocatedBytes, peakBytes(plan));
  assert.equal(executor.liveBuffers, plan.buffers.length);
  for (const offset of [0, 7, 3]) {
    const result = await executor.run(input(offset));
    assert.deepEqual(Object.keys(result.outputs), ["y"]);
    assert.deepEqual(result.outputs.y!.shape, [100]);
    assert.deepEqual(toFloats(result.outputs.y), wanted(5, offset));
    assert.equal(executor.liveBuffers, plan.buffers.length + 1); // and the staging buffer
  }
  executor.destroy();
  assert.equal(executor.liveBuffers, 0);
  assert.equal(executor.allocatedBytes, 0);
});

test("progress never goes back, and ends at 1", async () => {
  const executor = await PlanExecutor.create(device, slow(), { submissionMs: 5 });
  const seen: Progress[] = [];
  await executor.run(input(), { onProgress: (progress) => seen.push(progress) });
  assert.ok(seen.length > 3, `${seen.length} submissions`);
  seen.forEach((progress, i) => assert.ok(i === 0 || progress.fraction >= seen[i - 1]!.fraction));
  assert.deepEqual([seen.at(-1)!.fraction, seen.at(-1)!.secondsLeft, seen.at(-1)!.step], [1, 0, 63]);
  assert.ok(seen.some((progress) => progress.label.startsWith("layer.")));
  assert.ok(seen.some((progress) => progress.secondsLeft !== null && progress.secondsLeft > 0));
  executor.destroy();
});

test("captures come when asked for by name", async () => {
  const executor = await PlanExecutor.create(device, chainPlan(chainJson(100, 2)));
  for (const captures of [true, ["copied"]]) {
    const { outputs } = await executor.run(input(), { captures });
    assert.deepEqual(Object.keys(outputs), ["y", "copied"]);
    assert.deepEqual(outputs.copied, outputs.y);
  }
  const message = await rejected(executor.run(input(), { captures: ["layer"] }), "invalid-input");
  assert.match(message, /\[layer\] the plan has no such capture; it has: copied/);
  executor.destroy();
});

test("runs at the same time wait for their turn", async () => {
  const executor = await PlanExecutor.create(device, chainPlan(chainJson(100, 12)), { submissionMs: 0.001 });
  const offsets = [5, 1, 9, 2];
  const results = await Promise.all(offsets.map((offset) => executor.run(input(offset))));
  results.forEach((result, i) => assert.deepEqual(toFloats(result.outputs.y), wanted(12, offsets[i])));
  executor.destroy();
});

test("an abort ends a run, and no other", async () => {
  const executor = await PlanExecutor.create(device, slow(), { submissionMs: 2 });
  const [running, waiting] = [new AbortController(), new AbortController()];
  let after = 0;
  const first = executor.run(input(), {
    signal: running.signal,
    onProgress: () => (running.signal.aborted ? ++after : running.abort()),
  });
  const second = executor.run(input(), { signal: waiting.signal });
  const third = executor.run(input(2));
  waiting.abort();
  assert.match(await rejected(second, "cancelled"), /cancelled/);
  await rejected(first, "cancelled");
  const expected = toFloats((await third).outputs.y);
  assert.equal(after, 0, "progress after the abort");
  assert.deepEqual(toFloats((await executor.run(input(2))).outputs.y), expected);
  await rejected(executor.run(input(), { signal: AbortSignal.abort() }), "cancelled");
  await rejected(PlanExecutor.create(device, slow(), { signal: AbortSignal.abort() }), "cancelled");
  executor.destroy();
});

test("a kernel that does not compile is named, with line and text", async () => {
  const spy = watchBuffers(device);
  const json = chainJson(100, 2);
  json.kernels[0]!.wgsl = json.kernels[0]!.wgsl.replace("var x = source[id.x];", "var x = sauce[id.x];");
  const line = await rejected(PlanExecutor.create(device, chainPlan(json)), "device");
  assert.match(line, /^\[double\] the kernel does not compile: line 8: .*sauce.*: var x = sauce\[id\.x\];$/);
  json.kernels[0]!.wgsl = chainJson(1, 1).kernels[0]!.wgsl;
  json.kernels[0]!.entry = "start";
  assert.match(await rejected(PlanExecutor.create(device, chainPlan(json)), "device"), /double.*start/);
  json.kernels[0]!.entry = "main";
  json.kernels[0]!.bindings = ["uniform", "read", "read", "read"];
  assert.match(await rejected(PlanExecutor.create(device, chainPlan(json)), "device"), /double/);
  assert.equal(spy.live, 0);
});

test("a kernel that no step uses is not compiled", async () => {
  const json = chainJson(100, 2);
  json.kernels.push({ ...json.kernels[0]!, name: "broken", wgsl: "nonsense" });
  const compiled: number[] = [];
  const onCompiled = (_: number, total: number) => compiled.push(total);
  const executor = await PlanExecutor.create(device, chainPlan(json), { onCompiled });
  assert.deepEqual(compiled, [1]);
  executor.destroy();
});

test("a plan beyond the device's limits is refused before anything is allocated", async () => {
  const spy = watchBuffers(device);
  const json = chainJson(100, 1);
  json.buffers.push({ label: "huge", size: 2 ** 46, kind: "storage", dataOffset: 0 });
  const message = await rejected(PlanExecutor.create(device, chainPlan(json)), "over-limits");
  assert.match(message, /\[buffer 6 'huge'\] size is 70368744177664, the limit is \d+/);
  assert.equal(spy.live, 0);
});

test("a refused buffer is named, and the others are freed", async () => {
  const { device: small } = await openDevice();
  const spy = watchBuffers(small);
  refuseMemory(small, 3);
  const message = await rejected(PlanExecutor.create(small, chainPlan(chainJson(100, 1))), "over-limits");
  assert.match(message, /refused 0\.0 MiB for 'even'/);
  assert.equal(spy.live, 0);
  const executor = await PlanExecutor.create(small, chainPlan(chainJson(100, 1))); // now it gives
  assert.deepEqual(toFloats((await executor.run(input())).outputs.y), wanted(1));
  executor.destroy();
  small.destroy();
});

test("inputs must fit", async () => {
  const executor = await PlanExecutor.create(device, chainPlan(chainJson(100, 1)));
  assert.match(await rejected(executor.run({}), "invalid-input"), /\[x\] this input is missing/);
  const other = { x: floats([1, 2]) };
  assert.match(await rejected(executor.run(other), "invalid-input"), /plan takes f32\[100\], the input is f32\[2\]/);
  const short = { x: { ...floats(values), data: new Uint8Array(4) } };
  assert.match(await rejected(executor.run(short), "invalid-input"), /has 4 bytes, f32\[100\] has 400/);
  assert.match(await rejected(executor.run({ ...input(), z: floats([1]) }), "invalid-input"), /\[z\] the plan has no/);
  executor.destroy();
});

test("a result that is not finite is an error, unless wanted", async () => {
  const data = { x: floats(values.map((x) => (x === 42 ? NaN : x === 50 ? Infinity : x))) };
  const strict = await PlanExecutor.create(device, chainPlan(chainJson(100, 1)));
  assert.match(await rejected(strict.run(data), "non-finite"), /\[y\] element 42 of the result is not finite/);
  assert.deepEqual(toFloats((await strict.run(input())).outputs.y), wanted(1));
  const lax = await PlanExecutor.create(device, chainPlan(chainJson(100, 1)), { checkFinite: false });
  assert.equal(toFloats((await lax.run(data)).outputs.y)[50], Infinity);
  strict.destroy();
  lax.destroy();
});

test("a profile has the time of every dispatch", async (t) => {
  if (!device.features.has("timestamp-query")) return t.skip("the device has no timestamp-query");
  const executor = await PlanExecutor.create(device, chainPlan(chainJson(100, 5, 1000)));
  const { profile, gpuMs, wallMs } = await executor.run(input(), { profile: true });
  assert.deepEqual(profile.map(({ label }) => label), [0, 1, 2, 3, 4].map((i) => `layer.${i}`));
  assert.ok(profile.every(({ kernel, ms }) => kernel === "double" && ms >= 0));
  assert.ok(gpuMs !== null && gpuMs > 0 && gpuMs <= wallMs, `${gpuMs} of ${wallMs}`);
  const plain = await executor.run(input());
  assert.deepEqual(plain.profile, []);
  assert.ok(plain.gpuMs !== null && plain.gpuMs > 0);
  assert.equal(executor.liveBuffers, 7);
  executor.destroy();
});

test("an error while running names the steps", async () => {
  const spy = watchBuffers(device);
  const executor = await PlanExecutor.create(device, chainPlan(chainJson(100, 3)));
  spy.find("odd")!.destroy();
  const message = await rejected(executor.run(input()), "device");
  assert.match(message, /validation error while running steps 0 'copy' to \d '.*"odd"/);
  executor.destroy();
  assert.equal(spy.live, 0);
});

test("after destroy, and in the middle of a run, calls fail clearly", async () => {
  const executor = await PlanExecutor.create(device, slow(), { submissionMs: 2 });
  const run = executor.run(input(), { onProgress: () => executor.destroy() });
  const waiting = executor.run(input());
  assert.match(await rejected(run, "cancelled"), /the executor was destroyed/);
  assert.match(await rejected(waiting, "cancelled"), /the executor was destroyed/);
  assert.match(await rejected(executor.run(input()), "cancelled"), /create a new one/);
  assert.equal(executor.liveBuffers, 0);
  executor.destroy();
});

test("nothing is left on the device after many executors and runs of every outcome", async () => {
  const spy = watchBuffers(device);
  for (let i = 0; i < 10; ++i) {
    const executor = await PlanExecutor.create(device, chainPlan(chainJson(100, 4)));
    await executor.run(input(), { profile: device.features.has("timestamp-query") });
    await rejected(executor.run({ x: floats(values.map(() => NaN)) }), "non-finite");
    await rejected(executor.run(input(), { signal: AbortSignal.abort() }), "cancelled");
    executor.destroy();
  }
  assert.equal(spy.live, 0);
});

test("large tensors and odd bytes go through in pieces", async () => {
  const size = 72 * 2 ** 20;
  const half = size / 2;
  const base = chainJson(1, 1);
  const json = {
    ...base,
    buffers: ["a", "b", "c", "d"].map((label) => ({ label, size: half, kind: "storage", dataOffset: 0 })),
    kernels: [],
    steps: [
      { op: "copy", from: [0, 0, half], to: [2, 0, half] },
      { op: "copy", from: [1, 0, half], to: [3, 0, half] },
    ],
    inputs: [{ name: "x", dtype: "u8", shape: [size - 3], pieces: [[0, 0, 0, half], [half, 1, 0, half]] }],
    outputs: [{ name: "y", dtype: "u8", shape: [size - 3], pieces: [[half, 3, 0, half], [0, 2, 0, half]] }],
    captures: [],
  };
  const executor = await PlanExecutor.create(device, chainPlan(json as never));
  const bytes = new Uint8Array(size - 3);
  for (let i = 0; i < bytes.length; ++i) bytes[i] = (i * 2654435761) >>> 13;
  const { outputs } = await executor.run({ x: tensor("u8", [bytes.length], bytes) });
  assert.ok(Buffer.compare(outputs.y!.data, bytes) === 0);
  assert.ok(executor.allocatedBytes - 4 * half <= 16 * 2 ** 20, "staging is bounded");
  executor.destroy();
});
