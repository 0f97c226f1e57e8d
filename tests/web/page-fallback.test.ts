// What happens to a plan when the device gives less than it said: memory refused, devices lost, no device at all.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Compiler, ImageTensor, Model } from "../../web/src/compiler.js";
import { GyrusError } from "../../web/src/errors.js";
import { Runner, type Watch } from "../../web/src/runner.js";
import type { PlanRequest, Progress, SegmentOptions } from "../../web/src/types.js";
import { folderOf, isError, loadCompiler, tinyModel, tinyScan } from "./support/compiler.js";
import { openDevice } from "./support/gpu.js";

const MiB = 2 ** 20;
const GiB = 2 ** 30;
const desktop = { mobile: false, memoryGiB: 8 };

let compiler: Compiler;
let model: Model;
let image: ImageTensor;
let requests: PlanRequest[] = [];
let bytesOf: ((request: PlanRequest) => number) | null = null; // in place of what the plan says

before(async () => {
  compiler = await loadCompiler();
  model = compiler.openModel(folderOf(tinyModel()), "tiny");
  const plan = model.plan.bind(model);
  model.plan = (request) => {
    requests.push(request);
    const made = plan(request);
    return bytesOf ? { ...made, peakBytes: bytesOf(request) } : made;
  };
  const scan = compiler.openVolume("ball.nii", tinyScan({ dims: [48, 48, 48], spacing: [1, 1, 1] }));
  image = scan.tensor("minmax");
  scan.close();
});

after(() => model.close());

// A run with what it said; `onStep` is called while kernels run.
async function run(runner: Runner, wish: SegmentOptions["precision"], onStep: (progress: Progress) => void = () => {}) {
  const notices: string[] = [];
  requests = [];
  const watch: Watch = {
    signal: new AbortController().signal,
    progress: (stage, progress) => stage === "Step" && onStep(progress),
    notice: (line) => notices.push(line),
  };
  const done = await runner.run(model, "tiny", image, wish, watch);
  const { precision, limits } = requests.at(-1)!;
  return { ...done, notices, precision, small: isSmall(limits) };
}

const isSmall = (limits: PlanRequest["limits"]) =>
  limits.maxBufferSize <= 256 * MiB && limits.maxStorageBufferBindingSize <= 128 * MiB;
const open = () => openDevice();

test("memory refused: f16, then f16 for the default limits, with the labels of f32", async () => {
  const runner = new Runner(open, desktop);
  const wanted = await run(runner, "auto");
  assert.deepEqual([wanted.facts.precision, wanted.small, wanted.notices], ["f32", false, []]);

  runner.drop();
  runner.refusals = 2;
  const { result, facts, notices, precision, small } = await run(runner, "auto");
  assert.deepEqual([facts.precision, precision, small], ["f16", "f16", true]);
  assert.deepEqual(notices, [
    "The GPU did not give the memory for the plan in f32; trying the plan in f16.",
    "The GPU did not give the memory for the plan in f16; trying the plan in f16 with WebGPU's default limits.",
  ]);
  assert.match(facts.why, /did not give the memory for a larger plan/);
  const different = result.outputs.labels!.data.filter((label, i) => label !== wanted.result.outputs.labels!.data[i]);
  assert.ok(different.length <= 0.001 * 48 ** 3, `${different.length} voxels differ`);

  // What fitted is where the next run begins.
  runner.drop();
  const again = await run(runner, "auto");
  assert.deepEqual([requests.length, again.precision, again.small, again.notices], [1, "f16", true, []]);
  runner.drop();
});

test("memory refused to every plan is an error in one line", async () => {
  const runner = new Runner(open, desktop);
  runner.refusals = 3;
  await assert.rejects(run(runner, "auto"), isError("out-of-memory", /no smaller plan is left.*a smaller model$/));
  assert.equal(runner.refusals, 0);
  assert.equal((await run(runner, "auto")).facts.precision, "f16");
  runner.drop();
});

test("a precision that was asked for is kept: only the limits become smaller", async () => {
  const runner = new Runner(open, desktop);
  runner.refusals = 1;
  const { facts, small, notices } = await run(runner, "f32");
  assert.deepEqual([facts.precision, small], ["f32", true]);
  assert.match(notices[0]!, /trying the plan in f32 with WebGPU's default limits/);
  const other = new Runner(open, desktop);
  other.refusals = 2;
  await assert.rejects(run(other, "f32"), isError("out-of-memory", /no smaller plan/));
});

test("a device lost once is replaced; lost twice, a smaller plan is tried", async () => {
  for (const times of [1, 2, 3]) {
    const lost = new Set<GPUDevice>();
    const runner = new Runner(open, desktop);
    const lose = () => {
      const device = runner.device?.device;
      if (!device || lost.size >= times || lost.has(device)) return;
      lost.add(device);
      device.destroy();
    };
    const { facts, notices, result } = await run(runner, "auto", lose);
    assert.equal(lost.size, times);
    assert.equal(facts.precision, times === 1 ? "f32" : "f16");
    assert.equal(result.outputs.labels!.data.length, 48 ** 3);
    assert.match(notices[0]!, /device was lost.*opening a new one/);
    const smaller = notices.filter((line) => line === "The GPU was lost with the plan in f32; trying the plan in f16.");
    assert.equal(smaller.length, times === 1 ? 0 : 1);
    runner.drop();
  }
});

test("f32 for the default limits comes before f16 where memory is short", async () => {
  const own = await openDevice();
  assert.ok(!isSmall(own.limits), "this driver offers no more than the default limits");
  bytesOf = ({ limits }) => (isSmall(limits) ? 2.3 : 4.5) * GiB;
  try {
    const runner = new Runner(open, desktop);
    const first = await run(runner, "auto");
    assert.deepEqual([first.facts.precision, first.small], ["f32", true]);
    assert.match(first.notices[0]!, /^Planned for WebGPU's default limits/);
    runner.drop();
    const again = await run(runner, "auto");
    assert.deepEqual([requests.length, again.small, again.notices], [1, true, first.notices], "chosen once, said twice");
    runner.drop();

    bytesOf = () => 4.5 * GiB;
    const other = new Runner(open, desktop);
    const second = await run(other, "auto");
    assert.deepEqual([second.facts.precision, second.small], ["f16", false]);
    assert.match(second.notices[0]!, /^Storing feature maps in f16/);
    other.drop();
  } finally {
    bytesOf = null;
    own.device.destroy();
  }
});

test("a device that cannot be opened is reported, and no run pretends", async () => {
  const runner = new Runner(() => Promise.reject(new GyrusError("device", "[device] a / b refused to open: busy")));
  const report = await runner.describe();
  assert.deepEqual([report.available, report.why], [false, "a / b refused to open: busy"]);
  await assert.rejects(run(runner, "auto"), isError("device", /refused to open/));
});
