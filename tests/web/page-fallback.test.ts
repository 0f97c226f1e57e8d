// What happens to a plan when the device gives less than it said: memory refused, devices lost, no device at all.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Compiler, ImageTensor, Model } from "../../web/src/compiler.js";
import { GyrusError } from "../../web/src/errors.js";
import { Session, type Hooks } from "../../web/src/session.js";
import type { PlanRequest, Progress, SegmentOptions } from "../../web/src/types.js";
import { folderOf, isError, loadCompiler, tinyModel, tinyScan } from "./support/compiler.js";
import { installFaults } from "./support/faults.js";
import { openDevice } from "./support/gpu.js";

const faults = installFaults();
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
async function run(session: Session, wish: SegmentOptions["precision"], onStep: (progress: Progress) => void = () => {}) {
  const notices: string[] = [];
  requests = [];
  const hooks: Hooks = {
    signal: new AbortController().signal,
    progress: (stage, progress) => stage === "Step" && onStep(progress),
    notice: (line) => notices.push(line),
  };
  const done = await session.run(model, "tiny", image, wish, hooks);
  const { precision, limits } = requests.at(-1)!;
  return { ...done, notices, precision, small: isSmall(limits) };
}

const isSmall = (limits: PlanRequest["limits"]) =>
  limits.maxBufferSize <= 256 * MiB && limits.maxStorageBufferBindingSize <= 128 * MiB;
const open = () => openDevice();

test("memory refused: f16, then f16 for the default limits, with the labels of f32", async () => {
  const session = new Session(open, desktop);
  const wanted = await run(session, "auto");
  assert.deepEqual([wanted.facts.precision, wanted.small, wanted.notices], ["f32", false, []]);

  session.drop();
  faults.refusals = 2;
  const { result, facts, notices, precision, small } = await run(session, "auto");
  assert.deepEqual([facts.precision, precision, small], ["f16", "f16", true]);
  assert.deepEqual(notices, [
    "The GPU did not give the memory for the plan in f32; trying the plan in f16.",
    "The GPU did not give the memory for the plan in f16; trying the plan in f16 with WebGPU's default limits.",
  ]);
  assert.match(facts.why, /did not give the memory for a larger plan/);
  const different = result.outputs.labels!.data.filter((label, i) => label !== wanted.result.outputs.labels!.data[i]);
  assert.ok(different.length <= 0.001 * 48 ** 3, `${different.length} voxels differ`);

  // What fitted is where the next run begins.
  session.drop();
  const again = await run(session, "auto");
  assert.deepEqual([requests.length, again.precision, again.small, again.notices], [1, "f16", true, []]);
  session.drop();
});

test("memory refused to every plan is an error in one line", async () => {
  const session = new Session(open, desktop);
  faults.refusals = 3;
  await assert.rejects(run(session, "auto"), isError("over-limits", /no smaller plan is left.*programs that use the GPU$/));
  assert.equal(faults.refusals, 0);
  assert.equal((await run(session, "auto")).facts.precision, "f16");
  session.drop();
});

test("a precision that was asked for is kept: only the limits become smaller", async () => {
  const session = new Session(open, desktop);
  faults.refusals = 1;
  const { facts, small, notices } = await run(session, "f32");
  assert.deepEqual([facts.precision, small], ["f32", true]);
  assert.match(notices[0]!, /trying the plan in f32 with WebGPU's default limits/);
  const other = new Session(open, desktop);
  faults.refusals = 2;
  await assert.rejects(run(other, "f32"), isError("over-limits", /no smaller plan/));
});

test("a device lost once is replaced; lost twice, a smaller plan is tried", async () => {
  for (const times of [1, 2, 3]) {
    const lost = new Set<GPUDevice>();
    const session = new Session(open, desktop);
    const lose = () => {
      const device = session.device?.device;
      if (!device || lost.size >= times || lost.has(device)) return;
      lost.add(device);
      device.destroy();
    };
    const { facts, notices, result } = await run(session, "auto", lose);
    assert.equal(lost.size, times);
    assert.equal(facts.precision, times === 1 ? "f32" : "f16");
    assert.equal(result.outputs.labels!.data.length, 48 ** 3);
    assert.match(notices[0]!, /device was lost.*opening a new one/);
    const smaller = notices.filter((line) => line === "The GPU was lost with the plan in f32; trying the plan in f16.");
    assert.equal(smaller.length, times === 1 ? 0 : 1);
    session.drop();
  }
});

test("f32 for the default limits comes before f16 where memory is short", async () => {
  const own = await openDevice();
  assert.ok(!isSmall(own.limits), "this driver offers no more than the default limits");
  bytesOf = ({ limits }) => (isSmall(limits) ? 2.3 : 4.5) * GiB;
  try {
    const session = new Session(open, desktop);
    const first = await run(session, "auto");
    assert.deepEqual([first.facts.precision, first.small], ["f32", true]);
    assert.match(first.notices[0]!, /^Planned for WebGPU's default limits/);
    session.drop();
    const again = await run(session, "auto");
    assert.deepEqual([requests.length, again.small, again.notices], [1, true, first.notices], "chosen once, said twice");
    session.drop();

    bytesOf = () => 4.5 * GiB;
    const other = new Session(open, desktop);
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
  const session = new Session(() => Promise.reject(new GyrusError("device", "[device] a / b refused to open: busy")));
  const report = await session.describe();
  assert.deepEqual([report.available, report.why], [false, "a / b refused to open: busy"]);
  await assert.rejects(run(session, "auto"), isError("device", /refused to open/));
});
