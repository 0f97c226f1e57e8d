// What a Trainer promises besides losses: as tests/conformance/train_trainer_test.cpp has it, and what pages need.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { Memory } from "../../web/src/memory.js";
import { GraphBuilder, type NetworkGraph } from "../../web/src/network-graph.js";
import { readSafetensors, writeSafetensors } from "../../web/src/safetensors.js";
import { Trainer, type TrainerOptions } from "../../web/src/trainer.js";
import type { NetworkFiles } from "../../web/src/trainee.js";
import type { HostTensor, TensorValue } from "../../web/src/types.js";
import { folderOf, isError, loadTrainingCompiler, ROOT, temporary, tinyModel } from "./support/compiler.js";
import { openDevice } from "./support/gpu.js";
import { node, onnxFile, tensor, value } from "./support/onnx.js";
import { watchBuffers } from "./support/spy.js";
import { fromNumbers, toNumbers } from "./support/tensors.js";

const compiler = await loadTrainingCompiler();
const open = await openDevice();
const buffers = watchBuffers(open.device);
after(() => open.device.destroy());

const floats = (shape: number[], values: number[]) => ({ dtype: "f32" as const, shape, data: fromNumbers("f32", values) });
const ramp = (shape: number[], seed = 1) => floats(shape,
  Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => (((i + seed) * 37) % 19) / 19 - 0.5));

// log(x w + b) against a target, for rows of any number.
function smallNet(rows: number): NetworkGraph {
  const g = new GraphBuilder();
  const x = g.input("x", "f32", [rows, 3]);
  const target = g.input("target", "f32", [rows, 2]);
  const y = g.op("matmul", [x, g.parameter("w", ramp([3, 2])), g.parameter("b", floats([2], [6, 7]))], {}, "rows");
  g.output("y", y);
  g.output("loss", g.op("mse", [g.op("log", [y], {}, "logs"), target], {}, "distance"));
  return g.graph;
}

const batch = (rows: number, seed = 1) => ({ x: ramp([rows, 3], seed), target: ramp([rows, 2], seed + 1) });
const cosine: TrainerOptions = { schedule: { kind: "cosine", rate: 0.05, total: 20 } };
const create = (network: NetworkGraph | NetworkFiles, options: TrainerOptions = {}) =>
  Trainer.create(open, network, { compiler, ...options });
const numbers = (found: TensorValue | HostTensor | undefined) => Array.from(toNumbers(found!));

test("training goes on from a checkpoint as if nothing had happened", async () => {
  const [first, second] = [await create(smallNet(4), cosine), await create(smallNet(4), cosine)];
  for (let i = 0; i < 5; ++i) await first.step(batch(4, i));
  await second.load(await first.save());
  assert.equal(second.updates, 5);
  assert.equal(second.rate, first.rate);
  for (let i = 5; i < 9; ++i) assert.equal((await second.step(batch(4, i))).loss, (await first.step(batch(4, i))).loss);
  const saved = await first.save();
  assert.deepEqual(await second.save(), saved);
  assert.deepEqual(Object.keys(readSafetensors(saved)), ["b", "optimizer/exp_avg/b", "optimizer/exp_avg/w",
    "optimizer/exp_avg_sq/b", "optimizer/exp_avg_sq/w", "trainer/counts", "w"]);
  assert.deepEqual(numbers(readSafetensors(saved)["trainer/counts"]), [9, 0, 9, 0]);
  await assert.rejects(second.load(await first.memory.save()), isError("invalid-input", /was not saved by a trainer/));
  const { b: _, ...less } = readSafetensors(saved);
  await assert.rejects(second.load(writeSafetensors(less)), isError("invalid-input", /\[checkpoint\] has no b/));
  first.destroy();
  second.destroy();
});

test("dropout draws by seed and step, and not where the network only runs", async () => {
  const g = new GraphBuilder();
  const x = g.capture("dropped", g.op("dropout", [g.input("x", "f32", [4, 64])], { p: 0.5 }));
  g.output("y", x);
  g.output("loss", g.op("mse", [g.op("linear", [x, g.ones("w", [1, 64])]), g.input("target", "f32", [4, 1])]));
  const inputs = { x: floats([4, 64], Array<number>(256).fill(1)), target: floats([4, 1], [0, 0, 0, 0]) };
  const drawn = async (seed: number) => {
    const trainer = await create(g.graph, { seed });
    const masks = [0, 1].map(() => trainer.step(inputs, { captures: ["dropped"] }));
    const found = (await Promise.all(masks)).map(({ outputs }) => numbers(outputs.dropped));
    const saved = await trainer.save();
    const { outputs } = await trainer.run({ x: inputs.x });
    assert.deepEqual(numbers(outputs.y), numbers(inputs.x));
    trainer.destroy();
    return { found, saved };
  };
  const [one, again, other] = [await drawn(3), await drawn(3), await drawn(4)];
  assert.deepEqual(one, again);
  assert.notDeepEqual(one.found[0], one.found[1]);
  assert.notDeepEqual(one.found[0], other.found[0]);
  assert.deepEqual(new Set(one.found[0]), new Set([0, 2]));
  assert.deepEqual(numbers(readSafetensors(one.saved)["trainer/counts"]), [2, 0, 2, 3]);
});

test("steps that are asked for at once take turns", async () => {
  const [one, many] = [await create(smallNet(4), cosine), await create(smallNet(4), cosine)];
  const losses: number[] = [];
  for (let i = 0; i < 4; ++i) losses.push((await one.step(batch(4, i))).loss);
  const steps = [0, 1, 2, 3].map((i) => many.step(batch(4, i)));
  const after4 = many.run({ x: ramp([2, 3]) });
  assert.deepEqual((await Promise.all(steps)).map(({ loss }) => loss), losses);
  assert.deepEqual((await after4).outputs, (await one.run({ x: ramp([2, 3]) })).outputs);
  one.destroy();
  const cut = many.step(batch(4));
  many.destroy();
  await assert.rejects(cut, isError("cancelled", /destroyed/));
});

test("gradients of several steps are collected", async () => {
  const parts = await create(smallNet(4), { ...cosine, accumulate: 2 });
  const whole = await create(smallNet(8), cosine);
  const all = batch(8);
  const half = (begin: number) => Object.fromEntries(Object.entries(all).map(([name, each]) => {
    const columns = each.shape[1]!;
    return [name, floats([4, columns], numbers(each).slice(begin * columns, (begin + 4) * columns))];
  }));
  for (let step = 0; step < 3; ++step) {
    assert.equal((await parts.step(half(0))).updated, false);
    assert.equal((await parts.step(half(4))).updated, true);
    await whole.step(all);
  }
  assert.equal(parts.updates, 3);
  const [found, wanted] = [await parts.parameters(), await whole.parameters()];
  for (const name of whole.names())
    numbers(found[name]).forEach((each, i) => assert.ok(Math.abs(each - numbers(wanted[name])[i]!) < 1e-5, name));
  parts.destroy();
  whole.destroy();
});

test("a loss that is not finite changes nothing and says where", async () => {
  const trainer = await create(smallNet(4), cosine);
  await trainer.step(batch(4));
  const before = await trainer.save();
  const bad = { ...batch(4), x: floats([4, 3], [1e4, ...Array<number>(11).fill(-1e4)]) };
  await assert.rejects(trainer.step(bad),
    isError("non-finite", /the loss of step 2 is NaN; parameters are those of the last good step; \[.*(logs|distance)/));
  assert.deepEqual(await trainer.save(), before);
  await trainer.step(batch(4));
  assert.equal(trainer.updates, 2);
  trainer.destroy();
});

test("parameters go up and down by name, and other batches share them", async () => {
  const trainer = await create(smallNet(4), { ...cosine, groups: [{ pattern: "b*", frozen: true }] });
  assert.deepEqual(trainer.names(), ["w"]);
  const { outputs } = await trainer.step(batch(4), { captures: ["gradient/w"], outputs: ["y"] });
  assert.deepEqual(Object.keys(outputs).sort(), ["gradient/w", "loss", "y"]);
  assert.deepEqual(outputs["gradient/w"]!.shape, [3, 2]);
  assert.deepEqual(numbers(await trainer.memory.read("b")), [6, 7]);
  assert.notDeepEqual((await trainer.parameters()).w, ramp([3, 2]));
  await trainer.setParameters({ w: ramp([3, 2]) });
  assert.deepEqual((await trainer.parameters()).w, ramp([3, 2]));
  const wrong = (values: Record<string, TensorValue>, message: RegExp, partial = false) =>
    assert.rejects(trainer.setParameters(values, { partial }), isError("invalid-input", message));
  await wrong({ v: ramp([3, 2]) }, /none of the names v; there are: w/, true);
  await wrong({}, /missing are w; give all/);
  await trainer.setParameters({}, { partial: true });
  const bytes = trainer.memory.bytes;
  assert.deepEqual((await trainer.run({ x: ramp([2, 3]) })).outputs.y!.shape, [2, 2]);
  assert.equal(trainer.memory.bytes, bytes, "inference has no copy of the parameters");
  await trainer.resetOptimizer();
  assert.equal(trainer.updates, 0);
  assert.deepEqual(new Set(numbers(await trainer.memory.read("optimizer/exp_avg/w"))), new Set([0]));
  trainer.destroy();
});

test("a memory is shared, and everything is freed", async () => {
  await open.device.queue.onSubmittedWorkDone();
  const before = buffers.live;
  const memory = new Memory(open.device);
  const [one, other] = [await create(smallNet(4), { ...cosine, memory }), await create(smallNet(2), { ...cosine, memory })];
  await one.step(batch(4));
  assert.deepEqual((await other.run({ x: ramp([1, 3]) })).outputs, (await one.run({ x: ramp([1, 3]) })).outputs);
  one.destroy();
  await other.step(batch(2));
  other.destroy();
  memory.destroy();
  assert.equal(buffers.live, before);
});

test("schedules are those of C++, and change at any time", async () => {
  const trainer = await create(smallNet(4), cosine);
  const rates: number[] = [];
  for (let i = 0; i < 3; ++i) {
    rates.push(trainer.rate);
    await trainer.step(batch(4, i));
  }
  rates.forEach((rate, t) => assert.ok(Math.abs(rate - 0.025 * (1 + Math.cos((Math.PI * t) / 20))) < 1e-12));
  trainer.setSchedule({ kind: "multi_step", rate: 1, gamma: 0.5, milestones: [1, 3] });
  assert.equal(trainer.rate, 0.25);
  assert.throws(() => trainer.setSchedule({ kind: "steps" as "cosine" }),
    isError("invalid-input", /'kind' is "steps", expected one of constant, step, multi_step/));
  trainer.destroy();
});

test("every optimiser takes steps, with clipping, groups and averages", async () => {
  const kinds: TrainerOptions["optimizer"][] = [{ kind: "sgd", momentum: 0.9, nesterov: true }, { kind: "adam", amsgrad: true },
    { kind: "adamw", weightDecay: 0.1 }, { kind: "rmsprop", centered: true }, { kind: "adagrad" }, { kind: "lion" }];
  for (const optimizer of kinds) {
    const trainer = await create(smallNet(4), { optimizer, schedule: { rate: 0.01 }, clipNorm: 1, normType: Infinity, clipValue: 5,
      average: 0.9, groups: [{ pattern: "w", rate: 0.5, weightDecay: 0 }] });
    const first = (await trainer.step(batch(4))).loss;
    let last = first;
    for (let i = 0; i < 9; ++i) last = (await trainer.step(batch(4))).loss;
    assert.ok(last < first, `${optimizer!.kind}: ${first} to ${last}`);
    assert.notDeepEqual(await trainer.memory.read("average/w"), await trainer.memory.read("w"));
    trainer.destroy();
  }
});

test("loss scaling halves where gradients are not finite, and is saved", async () => {
  const g = new GraphBuilder();
  const y = g.output("y", g.op("mul", [g.input("x", "f32", [1]), g.zeros("w", [1])]));
  g.output("loss", g.op("mse", [y, g.input("target", "f32", [1])]));
  const given = (x: number, target: number) => ({ x: floats([1], [x]), target: floats([1], [target]) });
  const lossScaling = { start: 2 ** 30, patience: 2, most: 2 ** 34 };
  const [trainer, plain] = [await create(g.graph, { recompute: "cheap", lossScaling }), await create(g.graph)];
  for (let i = 0; i < 3; ++i) {
    const [found, wanted] = [await trainer.step(given(1, 1)), await plain.step(given(1, 1))];
    assert.ok(Math.abs(found.loss - wanted.loss) <= 1e-5 * wanted.loss);
    assert.ok(found.updated && !found.skipped && !("overflow" in found.outputs));
  }
  assert.equal(trainer.lossScale, 2 ** 31);
  const before = await trainer.parameters();
  const { updated, skipped } = await trainer.step(given(1e15, 1e18)); // the loss is finite, 2^31 times its gradient is not
  assert.deepEqual({ updated, skipped }, { updated: false, skipped: true });
  assert.deepEqual(await trainer.parameters(), before);
  assert.deepEqual([trainer.updates, trainer.steps, trainer.skipped, trainer.lossScale], [3, 4, 1, 2 ** 30]);
  const again = await create(g.graph, { lossScaling: {} });
  await again.load(await trainer.save());
  assert.deepEqual([again.updates, again.skipped, again.lossScale], [3, 1, 2 ** 30]);
  await assert.rejects(again.load(await plain.save()), isError("invalid-input", /saved without loss scaling/));
  for (const each of [trainer, plain, again]) each.destroy();
});

const onnx = onnxFile({
  inputs: [value("x", "f32", ["n", 3])], outputs: [value("y", "f32", ["n", 2])],
  initializers: [tensor("w", "f32", [2, 3], ramp([2, 3]).data), tensor("b", "f32", [2], fromNumbers("f32", [0.1, 0.2]))],
  nodes: [node("Gemm", ["x", "w", "b"], ["z"], { transB: 1 }), node("Tanh", ["z"], ["y"])],
});
const onnxNetwork = { files: [{ name: "model.onnx", bytes: onnx }], shapes: { x: [6, 3] }, loss: { op: "mse" } };
const onnxBatch = { x: ramp([6, 3]), target: floats([6, 2], Array(12).fill(0.25) as number[]) };

test("an ONNX file's weights are trained", async () => {
  const trainer = await create(onnxNetwork, { schedule: { rate: 0.05 } });
  assert.deepEqual(trainer.names().sort(), ["b", "w"]);
  const inputs = onnxBatch;
  const first = (await trainer.step(inputs)).loss;
  for (let i = 0; i < 30; ++i) await trainer.step(inputs);
  assert.ok((await trainer.step(inputs)).loss < 0.2 * first);
  assert.deepEqual((await trainer.run({ x: ramp([2, 3]) })).outputs.y!.shape, [2, 2]);
  trainer.destroy();
});

// Python's package is the C++ library: one step there, from a checkpoint of here, and on from a checkpoint of there.
const pythonPackage = join(ROOT, "build/release/python");
const noPython = existsSync(join(pythonPackage, "gyrus")) ? false : `${pythonPackage} is not built`;
test("checkpoints go to the C++ library and back", { skip: noPython }, async () => {
  const folder = temporary();
  const options: TrainerOptions = { optimizer: { kind: "adamw", weightDecay: 0.1 }, schedule: { kind: "cosine", rate: 0.05, total: 20 } };
  const trainer = await create(onnxNetwork, options);
  for (let i = 0; i < 5; ++i) await trainer.step(onnxBatch);
  folder.write("model.onnx", onnx);
  folder.write("here.safetensors", await trainer.save());
  folder.write("batch.json", JSON.stringify({ x: numbers(onnxBatch.x), target: numbers(onnxBatch.target) }));
  const there = `
import json, numpy, gyrus
batch = json.load(open("batch.json"))
inputs = {"x": numpy.array(batch["x"], "f4").reshape(6, 3), "target": numpy.array(batch["target"], "f4").reshape(6, 2)}
trainer = gyrus.Trainer("model.onnx", {"x": (6, 3)}, "mse", rate=0.05, optimizer={"kind": "adamw", "weight_decay": 0.1},
                        schedule={"kind": "cosine", "total": 20})
trainer.load("here.safetensors")
print(json.dumps([trainer.step(inputs).loss for _ in range(3)]))
trainer.save("there.safetensors")
print(trainer.step(inputs).loss)`;
  const said = execFileSync("/usr/bin/python3", ["-c", there], {
    cwd: folder.path, encoding: "utf8", env: { ...process.env, PYTHONPATH: pythonPackage, GYRUS_DEVICE: "webgpu" },
  }).trim().split("\n");
  const near = (mine: number, theirs: number) => assert.ok(Math.abs(mine - theirs) <= 1e-6 * mine, `${mine} here, ${theirs} there`);
  for (const loss of JSON.parse(said[0]!) as number[]) near((await trainer.step(onnxBatch)).loss, loss);
  const back = await create(onnxNetwork, options);
  await back.load(readFileSync(join(folder.path, "there.safetensors")));
  near((await back.step(onnxBatch)).loss, Number(said[1]));
  trainer.destroy();
  back.destroy();
});

test("a model's folder is trained by two losses at once", async () => {
  const network: NetworkFiles = {
    files: folderOf(tinyModel()), name: "tiny", shapes: { image: [2, 1, 6, 6, 6] },
    loss: [{ op: "cross_entropy", target: "labels" }, { op: "dice", target: "labels", weight: 0.5, attributes: { batch: true } }],
  };
  const trainer = await create(network, { schedule: { rate: 0.02 } });
  assert.deepEqual(trainer.names(), ["model.0.weight", "model.0.bias", "model.2.weight", "model.2.bias"]);
  const image = floats([2, 1, 6, 6, 6], Array.from({ length: 432 }, (_, i) => (i % 7) / 7));
  const labels = { dtype: "i32" as const, shape: [2, 6, 6, 6], data: fromNumbers("i32", numbers(image).map((v) => (v > 0.5 ? 1 : 0))) };
  const first = (await trainer.step({ image, labels })).loss;
  for (let i = 0; i < 10; ++i) await trainer.step({ image, labels });
  assert.ok((await trainer.step({ image, labels })).loss < first);
  const small = { ...image, shape: [1, 1, 6, 6, 6], data: image.data.slice(0, 864) };
  assert.deepEqual((await trainer.run({ image: small })).outputs.logits!.shape, [1, 3, 6, 6, 6]);
  trainer.destroy();
});

test("what is wrong is said in a line", async () => {
  const wrong = (network: NetworkGraph | NetworkFiles, message: RegExp, options: TrainerOptions = {}) =>
    assert.rejects(create(network, options), isError("invalid-input", message));
  const net = (change: (g: NetworkGraph) => void) => {
    const made = smallNet(2);
    change(made);
    return made;
  };
  await wrong(net((g) => g.nodes[0]!.inputs[1] = "v"), /\[matmul\] reads 'v', which nothing before it gives \(node 'rows'\)/);
  await wrong(net((g) => g.nodes[0]!.op = "matmull"), /there is no op, layer or loss of this name/);
  await wrong(net((g) => g.nodes[0]!.attributes = { transposed: 1 }), /has no attribute 'transposed'; it has: transpose_a/);
  await wrong(net((g) => g.nodes[2]!.attributes = { over: "all" }), /'over' is not one of mean, sum, none, batch/);
  await wrong(net((g) => g.nodes[1]!.outputs = ["x"]), /\[x\] is the name of two values/);
  await wrong(net((g) => g.nodes[1]!.outputs = ["a", "b"]), /gives 1 results, not 2/);
  await wrong(smallNet(2), /there is no option 'rates'; there are: /, { rates: 1 } as TrainerOptions);
  await wrong(smallNet(2), /'kind' is "adamm", expected one of adam, adamw, sgd/, { optimizer: { kind: "adamm" as "adam" } });
  await wrong(smallNet(2), /\[accumulate\] is 0/, { accumulate: 0 });
  const folder = { files: folderOf(tinyModel()), name: "tiny", shapes: {}, loss: { op: "mse" } };
  await wrong(folder, /takes "image" of \[batch, 1/);
  await assert.rejects(create(smallNet(2), { loss: "dice" }), isError("invalid-graph", /it has: (loss, y|y, loss)/));
  const trainer = await create(smallNet(2));
  await assert.rejects(trainer.step({ x: ramp([2, 3]) }), isError("invalid-input", /\[target\] this input is missing/));
  await assert.rejects(trainer.step(batch(2), { captures: ["gradient/v"] }), isError("invalid-input", /no such capture/));
  await trainer.step(batch(2));
  trainer.destroy();
});
