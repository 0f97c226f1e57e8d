// Program: any network of an ONNX file, on small ones written here.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { Program, type ProgramOptions } from "../../web/src/program.js";
import { PlanExecutor } from "../../web/src/executor.js";
import { parsePlan } from "../../web/src/plan.js";
import type { HostDType, HostTensor, NamedBytes, TensorValue } from "../../web/src/types.js";
import { DEFAULT_LIMITS, folderOf, isError, loadCompiler, ROOT, tinyModel } from "./support/compiler.js";
import { edgesFile, slopes } from "./support/edges.js";
import { openDevice } from "./support/gpu.js";
import { node, onnxFile, tensor, value } from "./support/onnx.js";
import { watchBuffers } from "./support/spy.js";
import { fromNumbers, toNumbers } from "./support/tensors.js";

const compiler = await loadCompiler();
const open = await openDevice();
const buffers = watchBuffers(open.device);
after(() => open.device.destroy());

const load = (model: Uint8Array | NamedBytes[], options: ProgramOptions = {}) =>
  Program.load(model, { compiler, device: open, ...options });
const of = (dtype: HostDType, shape: number[], values: number[]): HostTensor =>
  ({ dtype, shape, data: fromNumbers(dtype, values) });
const ramp = (height: number, width: number) => Array.from({ length: height * width }, (_, i) => (i * 7) % 11);
const values = (found: HostTensor) => Array.from(toNumbers(found));
const close = (found: HostTensor, want: number[]) => {
  const got = values(found);
  assert.equal(got.length, want.length);
  got.forEach((each, i) => assert.ok(Math.abs(each - want[i]!) <= 1e-5 * (1 + Math.abs(want[i]!)), `[${i}] ${each} ${want[i]}`));
};

// y = relu(a + b) of i64 or floats, with what lies between.
const sum = (type: "f32" | "i64", dims: (number | string)[] = ["n"]) => onnxFile({
  inputs: [value("a", type, dims), value("b", type, dims)], outputs: [value("y", type, dims)],
  nodes: [node("Add", ["a", "b"], ["c"]), node("Relu", ["c"], ["y"])],
});

test("the example's file is what the test writes", () => {
  const path = join(ROOT, "web/example/program/edges.onnx");
  if (process.env.GYRUS_UPDATE) writeFileSync(path, edgesFile());
  assert.deepEqual(new Uint8Array(readFileSync(path)), edgesFile());
});

test("ports are as the file declares them, and a run gives what the network says", async () => {
  const program = await load(edgesFile());
  const port = (name: string) => ({ name, type: "float", dtype: "f32", dims: [1, 1, "height", "width"] });
  assert.deepEqual(program.inputs, [port("image")]);
  assert.deepEqual(program.outputs, [port("slope")]);
  const { outputs } = await program.run({ image: of("f32", [1, 1, 5, 6], ramp(5, 6)) });
  assert.deepEqual(Object.keys(outputs), ["slope"]);
  assert.deepEqual(outputs.slope!.shape, [1, 1, 5, 6]);
  close(outputs.slope!, slopes(ramp(5, 6), 5, 6));
  program.destroy();
});

test("plans are kept by shape, weights lie on the device once, everything is freed", async () => {
  const planned: string[] = [];
  const live = buffers.live;
  const program = await load(edgesFile(), { keepPlans: 2, onPlanned: ({ shapes }) => planned.push(shapes.image!.join("x")) });
  const shared = () => program.allocatedBytes - program.plans.reduce((bytes, plan) => bytes + plan.bytes, 0);
  await program.prepare({ image: [1, 1, 4, 4] });
  const weights = shared();
  assert.ok(weights > 0);
  await program.prepare({ image: [1, 1, 5, 7] });
  assert.equal(shared(), weights);
  const sides = [[4, 4], [5, 7], [4, 4], [6, 3], [4, 4], [5, 7]];
  for (const [height, width] of sides) {
    const { outputs } = await program.run({ image: of("f32", [1, 1, height!, width!], ramp(height!, width!)) });
    close(outputs.slope!, slopes(ramp(height!, width!), height!, width!));
  }
  assert.deepEqual(planned, ["1x1x4x4", "1x1x5x7", "1x1x6x3", "1x1x5x7"]); // 5×7 made room for 6×3
  assert.deepEqual(program.plans.map(({ shapes }) => shapes.image!.at(-1)), [7, 4]);
  program.destroy();
  program.destroy();
  assert.equal(buffers.live, live);
  await assert.rejects(program.run({}), isError("cancelled", /was destroyed/));
});

test("runs take turns, and an abort stops one of them", async () => {
  const program = await load(edgesFile());
  const image = (side: number) => ({ image: of("f32", [1, 1, side, side], ramp(side, side)) });
  const control = new AbortController();
  const runs = [program.run(image(8)), program.run(image(9), { signal: control.signal }), program.run(image(10))];
  control.abort();
  await assert.rejects(runs[1]!, isError("cancelled", /cancelled/));
  close((await runs[0]!).outputs.slope!, slopes(ramp(8, 8), 8, 8));
  close((await runs[2]!).outputs.slope!, slopes(ramp(10, 10), 10, 10));
  program.destroy();
});

test("integers of 64 bits and truth values go in and out", async () => {
  const program = await load(sum("i64"));
  const { outputs } = await program.run({ a: of("i64", [3], [-5, 2 ** 30, 3]), b: of("i64", [3], [2, 2 ** 29, 4]) });
  assert.deepEqual([outputs.y!.dtype, values(outputs.y!)], ["i64", [0, 2 ** 30 + 2 ** 29, 7]]);
  await assert.rejects(program.run({ a: of("i64", [1], [2 ** 31]), b: of("i64", [1], [0]) }),
    isError("invalid-input", /^\[a\] element 0 is 2147483648, which does not fit 32 bits/));
  await assert.rejects(program.run({ a: of("i32", [1], [1]), b: of("i64", [1], [0]) }),
    isError("invalid-input", /^\[a\] the network takes i64\[1\], the input is i32\[1\]/));
  program.destroy();

  const not = await load(onnxFile({
    inputs: [value("p", "bool", [4])], outputs: [value("q", "bool", [4])], nodes: [node("Not", ["p"], ["q"])],
  }));
  const result = await not.run({ p: { dtype: "bool", shape: [4], data: Uint8Array.of(0, 1, 7, 0) } });
  assert.deepEqual(result.outputs.q, { dtype: "bool", shape: [4], data: Uint8Array.of(1, 0, 0, 1) });
  not.destroy();
});

test("inputs that decide shapes are bound", async () => {
  const file = onnxFile({
    inputs: [value("x", "f32", [2, 3]), value("shape", "i64", [2])], outputs: [value("y", "f32", ["a", "b"])],
    nodes: [node("Reshape", ["x", "shape"], ["y"])],
  });
  const x = of("f32", [2, 3], [1, 2, 3, 4, 5, 6]);
  const loose = await load(file);
  await assert.rejects(loose.run({ x, shape: of("i64", [2], [3, 2]) }),
    isError("unsupported", /Reshape.*shape.*must be known before; bind it/));
  loose.destroy();
  const program = await load(file, { bind: { shape: of("i64", [2], [3, 2]) } });
  assert.deepEqual(program.inputs.map(({ name }) => name), ["x"]);
  const { outputs } = await program.run({ x });
  assert.deepEqual(outputs.y!.shape, [3, 2]);
  program.destroy();
  await assert.rejects(load(file, { bind: { shape: { dtype: "i64", shape: [2], data: new Uint8Array(3) } } }),
    isError("invalid-input", /^\[shape\] the input has 3 bytes, i64\[2\] has 16/));
});

test("values inside are captured where a run asks for them", async () => {
  const program = await load(sum("f32"));
  const inputs = { a: of("f32", [2], [-3, 1]), b: of("f32", [2], [1, 1]) };
  assert.deepEqual(Object.keys((await program.run(inputs)).outputs), ["y"]);
  const { outputs } = await program.run(inputs, { captures: ["c"] });
  assert.deepEqual([values(outputs.c!), values(outputs.y!)], [[-2, 2], [0, 2]]);
  assert.deepEqual(Object.keys((await program.run(inputs, { captures: true })).outputs).sort(), ["c", "y"]);
  assert.deepEqual(Object.keys((await program.run(inputs, { captures: ["c"], outputs: [] })).outputs), ["c"]);
  await assert.rejects(program.run(inputs, { captures: ["d"] }), isError("invalid-input", /has no value .d. that could/));
  program.destroy();
});

test("results stay on the device and go in again", async () => {
  const program = await load(sum("f32"));
  const { kept, outputs } = await program.run({ a: of("f32", [2], [1, 2]), b: of("f32", [2], [3, 4]) }, { keep: ["y"] });
  assert.deepEqual(outputs, {});
  const again = await program.run({ a: kept.y!, b: of("f32", [2], [10, 10]) });
  assert.deepEqual(values(again.outputs.y!), [14, 16]);
  kept.y!.buffer.destroy();
  program.destroy();
});

test("tensors without elements pass by the device", async () => {
  const file = onnxFile({
    inputs: [value("a", "f32", ["n", 2]), value("b", "f32", ["m", 2])],
    outputs: [value("both", "f32", ["k", 2]), value("first", "f32", ["n", 2])],
    nodes: [node("Concat", ["a", "b"], ["both"], { axis: 0 }), node("Relu", ["a"], ["first"])],
  });
  const program = await load(file);
  const none = of("f32", [0, 2], []);
  const { outputs } = await program.run({ a: none, b: of("f32", [1, 2], [3, 4]) });
  assert.deepEqual([outputs.both!.shape, values(outputs.both!)], [[1, 2], [3, 4]]);
  assert.deepEqual(outputs.first, { dtype: "f32", shape: [0, 2], data: new Uint8Array(0) });
  assert.deepEqual(Object.keys((await program.run({ a: none, b: none })).outputs), ["both", "first"]);
  assert.deepEqual(Object.keys((await program.run({ a: none, b: none }, { outputs: ["first"] })).outputs), ["first"]);
  program.destroy();
});

test("weights in files of their own", async () => {
  const weights = fromNumbers("f32", [9, 1, 2]);
  const model = (file: string, offset = 4) => ({
    name: "model.onnx",
    bytes: onnxFile({
      inputs: [value("x", "f32", [2])], outputs: [value("y", "f32", [2])], nodes: [node("Add", ["x", "w"], ["y"])],
      initializers: [tensor("w", "f32", [2], weights.subarray(4), { name: file, offset })],
    }),
  });
  const run = async (files: NamedBytes[]) => {
    const program = await load(files);
    try {
      return values((await program.run({ x: of("f32", [2], [10, 20]) })).outputs.y!);
    } finally {
      program.destroy();
    }
  };
  assert.deepEqual(await run([model("w.bin"), { name: "w.bin", bytes: weights }]), [11, 22]);
  await assert.rejects(run([model("w.bin")]), isError("io", /^\[w\.bin\] holds weights of the model: give it/));
  await assert.rejects(run([model("w.bin", 8), { name: "w.bin", bytes: weights }]),
    isError("invalid-model", /^\[w\.bin\] has 12 bytes; the model wants 8 from 8 on/));
  await assert.rejects(run([model("../w.bin"), { name: "../w.bin", bytes: weights }]),
    isError("invalid-model", /\.\.\/w\.bin/));
});

test("models for volumes run as well", async () => {
  const program = await load(folderOf(tinyModel()), { name: "tiny" });
  assert.deepEqual(program.inputs, [{ name: "image", type: "float", dtype: "f32", dims: [1, 1, null, null, null] }]);
  const { outputs } = await program.run({ image: of("f32", [1, 1, 2, 2, 2], [0, 0.1, 0.3, 0.5, 0.7, 0.9, 1, 0.2]) });
  const logits = values(outputs.logits!);
  const classes = Array.from({ length: 8 }, (_, i) => [0, 1, 2].sort((a, b) => logits[8 * b + i]! - logits[8 * a + i]!)[0]);
  assert.deepEqual(classes, [0, 0, 1, 1, 2, 2, 2, 0]);
  await assert.rejects(program.run({}), isError("invalid-input", /say the shape of "image"/));
  program.destroy();
});

test("limits and precision are kept", async () => {
  const caps = { maxStorageBufferBindingSize: 2 ** 16, maxBufferSize: 2 ** 17 };
  const image = of("f32", [1, 1, 200, 150], ramp(200, 150));
  const small = await load(edgesFile(), { limits: { ...DEFAULT_LIMITS, ...caps } });
  close((await small.run({ image })).outputs.slope!, slopes(ramp(200, 150), 200, 150));
  small.destroy();
  const half = await load(edgesFile(), { precision: "f16" });
  const found = values((await half.run({ image })).outputs.slope!);
  slopes(ramp(200, 150), 200, 150).forEach((want, i) => assert.ok(Math.abs(found[i]! - want) < 0.02, `${found[i]} ${want}`));
  half.destroy();
});

test("work is cut into dispatches without a change to the result", async () => {
  const image = of("f32", [1, 1, 64, 64], ramp(64, 64)) as TensorValue;
  const network = compiler.openNetwork([{ name: "edges.onnx", bytes: edgesFile() }]);
  const run = async (dispatchFlops?: number) => {
    const { json, weights } = network.plan({
      shapes: { image: image.shape }, captures: [], precision: "f32", limits: open.limits, software: false, checkFinite: false,
      ...(dispatchFlops ? { dispatchFlops } : {}),
    });
    const executor = await PlanExecutor.create(open.device, parsePlan(json, weights));
    const { outputs } = await executor.run({ image });
    executor.destroy();
    return { steps: executor.plan.steps, slope: outputs.slope!.data };
  };
  const [whole, cut] = [await run(), await run(5000)];
  network.close();
  assert.deepEqual(cut.slope, whole.slope);
  assert.ok(cut.steps.length > whole.steps.length, `${cut.steps.length} steps, not ${whole.steps.length}`);
  for (const step of cut.steps) if (step.op === "dispatch" && Math.max(...step.groups) > 1) assert.ok(step.flops <= 5050);
});

test("values that are not finite are given, or named", async () => {
  const file = onnxFile({
    inputs: [value("x", "f32", [2])], outputs: [value("y", "f32", [2])], nodes: [node("Log", ["x"], ["y"])],
  });
  const inputs = { x: of("f32", [2], [0, 1]) };
  const plain = await load(file);
  assert.deepEqual(values((await plain.run(inputs)).outputs.y!), [-Infinity, 0]);
  plain.destroy();
  const checked = await load(file, { checkFinite: true });
  await assert.rejects(checked.run(inputs), isError("non-finite", /^\[Log_node/));
  checked.destroy();
});

test("what is wrong is said in a line, and the program goes on", async () => {
  await assert.rejects(load(edgesFile().subarray(0, 90)), isError("invalid-model", /^\[model\.onnx\] /));
  await assert.rejects(load(new Uint8Array(0), { name: "empty.onnx" }), isError("invalid-model", /^\[empty\.onnx\] /));
  await assert.rejects(load([]), isError("invalid-model", /./));
  const files = ["a.onnx", "b.onnx"].map((name) => ({ name, bytes: edgesFile() }));
  await assert.rejects(load(files), isError("invalid-input", /holds a\.onnx and b\.onnx: say which/));
  const named = await load(files, { main: "b.onnx" });
  named.destroy();

  const odd = await load(onnxFile({
    inputs: [value("x", "f32", [2])], outputs: [value("y", "f32", [2])],
    nodes: [node("Nonsense", ["x"], ["z"]), node("Rubbish", ["z"], ["y"])],
  }));
  await assert.rejects(odd.run({ x: of("f32", [2], [0, 1]) }), isError("unsupported", /Nonsense.*Rubbish/));
  odd.destroy();

  const program = await load(sum("f32"));
  const good = { a: of("f32", [1], [1]), b: of("f32", [1], [1]) };
  await assert.rejects(program.run({ a: good.a }), isError("invalid-input", /^\[b\] is float\[n\] in model\.onnx: give/));
  await assert.rejects(program.run({ ...good, z: good.a }), isError("invalid-input", /has no input .z.; it has: a, b/));
  await assert.rejects(program.run({ ...good, b: of("f32", [1, 1], [1]) }), isError("invalid-input", /^\[b\] has the shape/));
  await assert.rejects(program.run({ ...good, b: { ...good.b, data: new Uint8Array(3) } }),
    isError("invalid-input", /^\[b\] the input has 3 bytes, f32\[1\] has 4/));
  await assert.rejects(program.run({ ...good, b: { ...good.b, dtype: "f64" as HostDType } }),
    isError("invalid-input", /^\[b\] 'f64' is no element type/));
  await assert.rejects(program.run(good, { outputs: ["x"] }), isError("invalid-input", /no such output; it has: y/));
  assert.deepEqual(values((await program.run(good)).outputs.y!), [2]);
  program.destroy();
});
