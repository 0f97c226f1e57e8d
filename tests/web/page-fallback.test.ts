// What happens to a plan when the device gives less than it said: memory refused, devices lost, no device at all.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Compiler, ImageTensor, Model } from "../../web/src/compiler.js";
import { GyrusError } from "../../web/src/errors.js";
import { Session, type Hooks } from "../../web/src/session.js";
import type { Precision, Progress, Attempt } from "../../web/src/types.js";
import { folderOf, isError, loadCompiler, tinyModel, tinyScan } from "./support/compiler.js";
import { installFaults } from "./support/faults.js";
import { openDevice } from "./support/gpu.js";

const faults = installFaults();
const desktop = { mobile: false, memoryGiB: 8 };

let compiler: Compiler;
let model: Model;
let image: ImageTensor;
let plans: { precision: Precision; small: boolean }[] = []; // that were made

before(async () => {
  compiler = await loadCompiler();
  model = compiler.openModel(folderOf(tinyModel()), "tiny");
  const plan = model.plan.bind(model);
  model.plan = (request) => {
    const made = plan(request);
    plans.push(made.decision);
    return made;
  };
  const scan = compiler.openVolume("ball.nii", tinyScan({ dims: [48, 48, 48], spacing: [1, 1, 1] }));
  image = scan.tensor("minmax");
  scan.close();
});

after(() => model.close());

// A run with what it said; `onStep` is called while kernels run.
async function run(session: Session, wish: Attempt["wish"], onStep: (progress: Progress) => void = () => {}) {
  const notices: string[] = [];
  plans = [];
  const hooks: Hooks = {
    signal: new AbortController().signal,
    progress: (stage, progress) => stage === "Step" && onStep(progress),
    notice: (line) => notices.push(line),
  };
  const done = await session.run(model, "tiny", image, wish, hooks);
  return { ...done, notices, ...plans.at(-1)! };
}

const open = () => openDevice();

test("memory refused: f16, then f16 for the default limits, with the labels of f32", async () => {
  const session = new Session(open, desktop);
  const wanted = await run(session, "auto");
  assert.deepEqual([wanted.facts.precision, wanted.small, wanted.notices], ["f32", false, []]);

  session.drop();
  faults.refusals = 2;
  const { result, facts, notices, precision, small } = await run(session, "auto");
  assert.deepEqual([facts.precision, precision, small], ["f16", "f16", true]);
  assert.deepEqual(notices.map((line) => line.replace(/ \(\[device\] the device refused .*/, "")), [
    "the GPU did not give the memory for the plan in f32; trying the plan in f16",
    "the GPU did not give the memory for the plan in f16; trying the plan in f16 with WebGPU's default limits",
  ]);
  assert.match(facts.why, /did not give the memory for a larger plan/);
  const different = result.outputs.labels!.data.filter((label, i) => label !== wanted.result.outputs.labels!.data[i]);
  assert.ok(different.length <= 0.001 * 48 ** 3, `${different.length} voxels differ`);

  // What fitted is where the next run begins.
  session.drop();
  const again = await run(session, "auto");
  assert.deepEqual([plans.length, again.precision, again.small, again.notices], [1, "f16", true, []]);
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
    assert.match(notices[0]!, /^the device was lost; ran again on a new one/);
    const smaller = notices.filter((line) => /^the GPU was lost with the plan in f32; trying the plan in f16 /.test(line));
    assert.equal(smaller.length, times === 1 ? 0 : 1);
    session.drop();
  }
});

test("what was chosen is said again with the next scan, and not planned again", async () => {
  const session = new Session(open, desktop);
  const { likelyMemory } = model.policy;
  model.policy.likelyMemory = () => ({ bytes: 2 ** 20, because: "a test says so" });
  try {
    const first = await run(session, "auto");
    assert.equal(first.facts.precision, "f16");
    assert.match(first.notices[0]!, /^storing feature maps in f16: the plan in f32 needs .*: a test says so$/);
    session.drop();
    const again = await run(session, "auto");
    assert.deepEqual([plans.length, again.precision, again.notices], [1, "f16", first.notices]);
    session.drop();
  } finally {
    model.policy.likelyMemory = likelyMemory;
  }
});

test("a device that cannot be opened is reported, and no run pretends", async () => {
  const session = new Session(() => Promise.reject(new GyrusError("device", "[device] a / b refused to open: busy")));
  const report = await session.describe();
  assert.deepEqual([report.available, report.why], [false, "a / b refused to open: busy"]);
  await assert.rejects(run(session, "auto"), isError("device", /refused to open/));
});
