// States, arguments, captures and reports: plans that share a Memory, on small plans made by hand.

import assert from "node:assert/strict";
import { test } from "node:test";
import { GyrusError, type ErrorCode } from "../../web/src/errors.js";
import { PlanExecutor } from "../../web/src/executor.js";
import { Memory } from "../../web/src/memory.js";
import { parsePlan, type Plan } from "../../web/src/plan.js";
import { readSafetensors, writeSafetensors } from "../../web/src/safetensors.js";
import { openDevice } from "./support/gpu.js";
import { floats, needs, tensor, toFloats } from "./support/plans.js";
import { watchBuffers } from "./support/spy.js";

const { device } = await openDevice();

// y = weight · x + gain and, where `learns`, weight += rate · x; a weight above 1000 is reported. `count` elements.
const wgsl = (learns: boolean) => `struct Arguments { rate: f32, gain: i32, turns: u32 }
struct Report { word: atomic<u32>, a: u32, b: u32, c: u32 }
@group(0) @binding(0) var<uniform> arguments: Arguments;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> weight: array<f32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
@group(0) @binding(4) var<storage, read_write> report: Report;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= arrayLength(&x)) { return; }
  let i = id.x;
  y[i] = weight[i % 4u] * x[i] + f32(arguments.gain);
  for (var t = 0u; t < arguments.turns; t++) { y[i] = fma(sin(y[i]), 0.0, y[i]); }
  if (${learns} && i < 4u) { weight[i] += arguments.rate * x[i]; }
  if (weight[i % 4u] > 1000.0) {
    if (atomicCompareExchangeWeak(&report.word, 0u, 2u).exchanged) { report.a = i; report.b = 1000u; }
  }
  if ((bitcast<u32>(x[i]) & 0x7f800000u) == 0x7f800000u) { atomicCompareExchangeWeak(&report.word, 0u, 1u); }
}
`;

interface Made {
  count?: number;
  learns?: boolean;
  name?: string; // of the state
  shape?: number[]; // likewise
}

function statePlan({ count = 8, learns = false, name = "weight", shape = [2, 2] }: Made = {}): Plan {
  const size = count * 4;
  const port = (port: string, buffer: number) =>
    ({ name: port, dtype: "f32", shape: [count], pieces: [[0, buffer, 0, size]] });
  const weights = new Uint8Array(Float32Array.of(1, 2, 3, 4).buffer);
  const storage = (label: string, bytes: number) => ({ label, size: bytes, kind: "storage", dataOffset: 0 });
  return parsePlan(JSON.stringify({
    format: "gyrus-plan-2", precision: "f32",
    needs: { ...needs, maxStorageBuffersPerShaderStage: 4 },
    features: { "shader-f16": false, subgroups: false, "timestamp-query": false },
    weights: 16,
    buffers: [
      { label: "arguments", size: 16, kind: "arguments", dataOffset: 0 },
      storage("x", size),
      { label: "weight", size: 16, kind: "state", dataOffset: 0 },
      storage("y", size), storage("report", 16), storage("seen", size),
    ],
    kernels: [{ name: "affine", entry: "main", workgroupSize: [64, 1, 1], workgroupBytes: 0,
      bindings: ["uniform", "read", "write", "write", "write"], wgsl: wgsl(learns) }],
    steps: [
      { op: "copy", from: [1, 0, size], to: [5, 0, size] },
      { op: "dispatch", label: "affine", kernel: 0, groups: [Math.ceil(count / 64), 1, 1], flops: 1, bytes: 1,
        bindings: [[0, 0, 16], [1, 0, size], [2, 0, 16], [3, 0, size], [4, 0, 16]] },
    ],
    inputs: [port("x", 1)], outputs: [port("y", 3)], captures: [port("seen", 5)],
    states: [{ name, dtype: "f32", shape, pieces: [[0, 2, 0, 16]], start: 0 }],
    arguments: [
      { name: "rate", dtype: "f32", least: 0, most: 1000, offset: 0 },
      { name: "gain", dtype: "i32", least: -3, most: 3, offset: 4 },
      { name: "turns", dtype: "u32", least: 0, most: 10_000_000, offset: 8 },
    ],
    report: [4, 0, 16],
    reports: [{ kind: "finite", label: "layer 1" }, { kind: "index", label: "layer 2" }],
  }), weights);
}

const ones = (count: number) => ({ x: floats(Array<number>(count).fill(1)) });
const rates = (rate = 0, gain = 0, turns = 0) => ({ arguments: { rate, gain, turns } });

async function rejected(promise: Promise<unknown>, code: ErrorCode, message: RegExp): Promise<GyrusError> {
  const error = await promise.then(() => assert.fail(`no error, ${code} was expected`), (e: unknown) => e);
  assert.ok(error instanceof GyrusError, String(error));
  assert.equal(error.code, code, error.message);
  assert.match(error.message, message);
  return error;
}

test("two sizes and one that learns share a memory: right, counted once, freed with the last", async () => {
  const spy = watchBuffers(device);
  const memory = new Memory(device);
  const small = await PlanExecutor.create(device, statePlan({ count: 4 }), { memory });
  const large = await PlanExecutor.create(device, statePlan({ count: 100 }), { memory });
  const learner = await PlanExecutor.create(device, statePlan({ learns: true }), { memory });
  assert.deepEqual([memory.names, memory.bytes], [["weight"], 16]);
  assert.equal(small.allocatedBytes, 16 + 3 * 16 + 16, "without the state");
  assert.deepEqual(toFloats((await small.run(ones(4), rates(0, 2))).outputs.y), [3, 4, 5, 6]);
  await Promise.all([learner.run(ones(8), rates(10)), learner.run(ones(8), rates(100))]);
  assert.deepEqual(toFloats((await small.run(ones(4), rates())).outputs.y), [111, 112, 113, 114]);
  const many = toFloats((await large.run(ones(100), rates(0, -1))).outputs.y);
  assert.deepEqual(many.slice(96), [110, 111, 112, 113]);
  assert.deepEqual(toFloats(await memory.read("weight")), [111, 112, 113, 114]);
  memory.destroy();
  small.destroy();
  large.destroy();
  assert.deepEqual(toFloats((await learner.run(ones(8), rates())).outputs.y).slice(0, 2), [111, 112], "still there");
  learner.destroy();
  assert.equal(spy.live, 0);
  await rejected(memory.read("weight"), "cancelled", /destroyed/);
});

test("without a memory every executor has its own states", async () => {
  const spy = watchBuffers(device);
  const [a, b] = await Promise.all([1, 2].map(() => PlanExecutor.create(device, statePlan({ learns: true }))));
  await a!.run(ones(8), rates(5));
  assert.deepEqual(toFloats(await a!.memory.read("weight")), [6, 7, 8, 9]);
  assert.deepEqual(toFloats(await b!.memory.read("weight")), [1, 2, 3, 4]);
  a!.destroy();
  b!.destroy();
  assert.equal(spy.live, 0);
});

test("states are written, in parts too, reset, saved and loaded", async () => {
  const executor = await PlanExecutor.create(device, statePlan());
  const { memory } = executor;
  const value = (values: number[], shape = [values.length]) => tensor("f32", shape, Float32Array.from(values));
  await memory.write("weight", value([5, 6, 7, 8], [2, 2]));
  await memory.write("weight", value([70, 80]), { offset: 2, count: 2 });
  assert.deepEqual(await memory.read("weight"), value([5, 6, 70, 80], [2, 2]));
  assert.deepEqual(await memory.read("weight", { offset: 1, count: 2 }), value([6, 70]));
  const file = await memory.save();
  await memory.reset();
  assert.deepEqual(toFloats(await memory.read("weight")), [1, 2, 3, 4]);
  await memory.load(file);
  assert.deepEqual(toFloats(await memory.read("weight")), [5, 6, 70, 80]);
  assert.deepEqual(readSafetensors(file), { weight: value([5, 6, 70, 80], [2, 2]) });

  await rejected(memory.read("wait"), "invalid-input", /\[wait\] there is no such state; there are: weight/);
  await rejected(memory.write("weight", value([1, 2, 3, 4])), "invalid-input", /state takes f32\[2,2\], the tensor is f32\[4\]/);
  await rejected(memory.read("weight", { offset: 3, count: 2 }), "invalid-input", /elements 3 to 5 .*the 4 of/);
  await rejected(memory.reset(["none"]), "invalid-input", /there are: weight/);
  const some = { bias: value([1]), weight: value([0, 0, 0, 0], [2, 2]) };
  await rejected(memory.write(some), "invalid-input", /\[bias\] there is no such state/);
  const other = writeSafetensors({ weight: value([0, 0, 0, 0], [2, 2]), bias: value([1]) });
  await rejected(memory.load(other), "invalid-input", /\[bias\] there is no such state/);
  await rejected(memory.load(file.subarray(0, 60)), "invalid-input", /cut off/);
  assert.deepEqual(toFloats(await memory.read("weight")), [5, 6, 70, 80], "what was refused changed nothing");
  executor.destroy();
});

test("bytes and halves of states are read and written by their elements", async () => {
  const plan = statePlan();
  Object.assign(plan.states[0]!, { dtype: "u8", shape: [15] });
  const executor = await PlanExecutor.create(device, plan);
  const bytes = (values: number[]) => tensor("u8", [values.length], Uint8Array.from(values));
  await executor.memory.write("weight", bytes([9, 8, 7, 6, 5]), { offset: 6, count: 5 });
  assert.deepEqual(await executor.memory.read("weight", { offset: 5, count: 7 }), bytes([0, 9, 8, 7, 6, 5, 64]));
  await executor.memory.write("weight", bytes([1]), { offset: 14, count: 1 });
  assert.equal((await executor.memory.read("weight")).data[14], 1);
  executor.destroy();
});

test("a plan whose state is another one is refused before anything is allocated", async () => {
  const memory = new Memory(device);
  const first = await PlanExecutor.create(device, statePlan(), { memory });
  const spy = watchBuffers(device);
  const shapes = PlanExecutor.create(device, statePlan({ shape: [4] }), { memory });
  await rejected(shapes, "invalid-input", /\[weight\] the plan's state is f32\[4\], the memory has f32\[2,2\]/);
  const { device: other } = await openDevice();
  await rejected(PlanExecutor.create(other, statePlan(), { memory }), "invalid-input", /another device/);
  assert.equal(spy.live, 0);
  const second = await PlanExecutor.create(device, statePlan({ name: "bias" }), { memory });
  assert.deepEqual([memory.names, memory.bytes], [["bias", "weight"], 32]);
  for (const each of [first, second, memory]) each.destroy();
  other.destroy();
});

test("arguments are needed, within their range, by name", async () => {
  const executor = await PlanExecutor.create(device, statePlan());
  const run = (given: Record<string, number>) => executor.run(ones(8), { arguments: given });
  await rejected(executor.run(ones(8)), "invalid-input", /\[rate\] this argument is missing/);
  await rejected(run({ rate: 0, gain: 4, turns: 0 }), "invalid-input", /\[gain\] 4 is not between -3 and 3/);
  await rejected(run({ rate: NaN, gain: 0, turns: 0 }), "invalid-input", /\[rate\] NaN is not between 0 and 1000/);
  await rejected(run({ rate: 0, gain: 0.5, turns: 0 }), "invalid-input", /\[gain\] 0\.5 is no whole number/);
  const more = { rate: 0, gain: 0, turns: 0, speed: 1 };
  await rejected(run(more), "invalid-input", /\[speed\] the plan has no such argument; it has: rate, gain, turns/);
  const { outputs, uploadedBytes, readBackBytes } = await run({ rate: 0, gain: -3, turns: 1 });
  assert.deepEqual(toFloats(outputs.y).slice(0, 4), [-2, -1, 0, 1]);
  assert.equal(uploadedBytes, 8 * 4 + 16);
  assert.ok(readBackBytes >= 8 * 4 + 16, `${readBackBytes}`);
  executor.destroy();
});

test("what a kernel reports is an error that names the node, and does not stay", async () => {
  const executor = await PlanExecutor.create(device, statePlan({ learns: true }));
  const broken = { x: floats([1, 1, 1, NaN, 1, 1, 1, 1]) };
  const first = await rejected(executor.run(broken, { ...rates(), outputs: [] }), "non-finite", /\[layer 1\] computed a/);
  assert.deepEqual([first.hints[0], first.stateChanged], ["single-precision", true]);
  await executor.memory.reset();
  const second = await rejected(executor.run(ones(8), rates(1000)), "invalid-input", /\[layer 2\] index \d .*is 1000/);
  assert.match(second.message, /states may have changed$/);
  await executor.memory.reset();
  assert.deepEqual(toFloats((await executor.run(ones(8), rates())).outputs.y).slice(0, 4), [1, 2, 3, 4]);
  executor.destroy();
});

test("what is started behind a run sees the states that it leaves, and is heard of apart", async () => {
  const spy = watchBuffers(device);
  const memory = new Memory(device);
  const learner = await PlanExecutor.create(device, statePlan({ learns: true }), { memory });
  const reader = await PlanExecutor.create(device, statePlan({ count: 4 }), { memory });
  const started = [
    learner.start(ones(8), rates(10)), learner.start(ones(8), { ...rates(100), outputs: [] }), reader.start(ones(4), rates()),
  ];
  const [first, , last] = await Promise.all(started);
  assert.deepEqual(toFloats(first!.outputs.y).slice(0, 4), [1, 2, 3, 4]);
  assert.deepEqual(toFloats(last!.outputs.y), [111, 112, 113, 114]);
  const bad = learner.start({ x: floats([1, 1, 1, NaN, 1, 1, 1, 1]) }, { ...rates(), outputs: [] });
  const good = reader.start(ones(4), { ...rates(), outputs: [] });
  assert.equal((await rejected(bad, "non-finite", /\[layer 1\]/)).stateChanged, true);
  await good;
  assert.deepEqual(memory.undefined, ["weight"]);
  await rejected(learner.start({}, rates()), "invalid-input", /missing/);
  await memory.reset();
  const dropped = learner.start(ones(8), rates(0, 0, 3_000_000));
  await new Promise((resolve) => setTimeout(resolve));
  learner.destroy();
  await rejected(dropped, "cancelled", /destroyed/);
  reader.destroy();
  memory.destroy();
  assert.equal(spy.live, 0);
});

test("a run that is refused or cancelled in time leaves states as they were, and a later one says so", async () => {
  const executor = await PlanExecutor.create(device, statePlan({ learns: true }));
  const refused = await rejected(executor.run({}, rates(5)), "invalid-input", /missing/);
  const early = executor.run(ones(8), { ...rates(5), signal: AbortSignal.abort() });
  assert.deepEqual([refused.stateChanged, (await rejected(early, "cancelled", /cancelled/)).stateChanged], [false, false]);
  assert.deepEqual(toFloats(await executor.memory.read("weight")), [1, 2, 3, 4]);
  const stop = new AbortController();
  const late = executor.run(ones(8), { ...rates(5), signal: stop.signal, onProgress: () => stop.abort() });
  assert.equal((await rejected(late, "cancelled", /cancelled.*; states may have changed$/)).stateChanged, true);
  assert.deepEqual(executor.memory.undefined, ["weight"]);
  await rejected(executor.memory.read("weight"), "invalid-input", /\[weight\] the state is undefined since a run failed/);
  await rejected(executor.run(ones(8), rates()), "invalid-input", /undefined.*write it as a whole, reset or load it/);
  await executor.memory.reset();
  assert.deepEqual(toFloats(await executor.memory.read("weight")), [1, 2, 3, 4]);
  executor.destroy();
});

test("inputs and outputs may stay on the device; outputs and captures are read by name", async () => {
  const spy = watchBuffers(device);
  const executor = await PlanExecutor.create(device, statePlan());
  const first = await executor.run(ones(8), { ...rates(0, 1), keep: ["y", "seen"] });
  assert.deepEqual([Object.keys(first.outputs), Object.keys(first.kept)], [[], ["y", "seen"]]);
  const second = await executor.run({ x: first.kept.y! }, { ...rates(), captures: ["seen"] });
  assert.deepEqual(toFloats(second.outputs.seen), [2, 3, 4, 5, 2, 3, 4, 5]);
  assert.deepEqual(toFloats(second.outputs.y), [2, 6, 12, 20, 2, 6, 12, 20]);
  assert.equal(second.uploadedBytes, 16, "the arguments");
  const only = await executor.run({ x: first.kept.seen! }, { ...rates(), outputs: [], captures: true });
  assert.deepEqual(Object.keys(only.outputs), ["seen"]);
  const wrong = { x: { ...first.kept.y!, offset: 4 } };
  await rejected(executor.run(wrong, rates()), "invalid-input", /\[x\] the input's 32 bytes at 4 are not in its buffer/);
  await rejected(executor.run(ones(8), { ...rates(), outputs: ["z"] }), "invalid-input", /no such output; it has: y/);
  await rejected(executor.run(ones(8), { ...rates(), keep: ["z"] }), "invalid-input", /it has: y, seen/);
  executor.destroy();
  assert.equal(spy.live, 2, "what was kept is the caller's");
  for (const { buffer } of Object.values(first.kept)) buffer.destroy();
  assert.equal(spy.live, 0);
});
