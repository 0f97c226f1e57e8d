// Lost devices: every pending promise hears of it, and RecoveringExecutor goes on with another device.

import assert from "node:assert/strict";
import { test } from "node:test";
import { GyrusError } from "../../web/src/errors.js";
import { PlanExecutor } from "../../web/src/executor.js";
import { RecoveringExecutor } from "../../web/src/recovering.js";
import { openDevice } from "./support/gpu.js";
import { chainJson, chainPlan, floats, toFloats } from "./support/plans.js";

const plan = chainPlan(chainJson(100, 40, 100_000));
const input = (offset = 0) => ({ x: floats(Array.from({ length: 100 }, (_, i) => i + offset)) });
const options = { submissionMs: 2 };

// The device's failure, or what else went wrong.
async function codeOf(promise: Promise<unknown>): Promise<string> {
  const error = await promise.then(() => assert.fail("no error"), (e: unknown) => e);
  assert.ok(error instanceof GyrusError, String(error));
  if (error.failure === null) return error.code;
  assert.equal(error.code, "device");
  return error.failure;
}

// Devices from the driver, of which the first `times` are destroyed in the middle of a run.
function fragileDevices(times: number) {
  const opened: GPUDevice[] = [];
  let reports = 0;
  return {
    opened,
    requestDevice: async () => {
      const { device } = await openDevice();
      opened.push(device);
      reports = 0;
      return device;
    },
    onProgress: () => {
      if (++reports === 3 && opened.length <= times) opened.at(-1)!.destroy();
    },
  };
}

test("a loss rejects what runs, what waits and what comes later", async () => {
  const { device } = await openDevice();
  const executor = await PlanExecutor.create(device, plan, options);
  const running = executor.run(input(), { onProgress: () => device.destroy() });
  const waiting = executor.run(input());
  assert.deepEqual([await codeOf(running), await codeOf(waiting)], ["device-lost", "device-lost"]);
  assert.equal(await codeOf(executor.run(input())), "device-lost");
  assert.equal(await codeOf(PlanExecutor.create(device, plan)), "device-lost");
  executor.destroy();
  assert.equal(executor.liveBuffers, 0);
});

test("a loss while loading rejects", async () => {
  const { device } = await openDevice();
  const json = chainJson(100, 1);
  json.kernels[0]!.wgsl += "// not compiled before\n";
  const loading = PlanExecutor.create(device, chainPlan(json));
  device.destroy();
  assert.equal(await codeOf(loading), "device-lost");
});

test("a run is replayed on a new device and gives the same result", async () => {
  const steady = await PlanExecutor.create((await openDevice()).device, plan);
  const want = [0, 5].map(async (offset) => toFloats((await steady.run(input(offset))).outputs.y));
  const devices = fragileDevices(1);
  const notices: string[] = [];
  const fractions: number[] = [];
  const executor = await RecoveringExecutor.create(plan, {
    ...options,
    requestDevice: devices.requestDevice,
    onNotice: (line) => notices.push(line),
  });
  const onProgress = ({ fraction }: { fraction: number }) => {
    fractions.push(fraction);
    devices.onProgress();
  };
  const runs = await Promise.all([executor.run(input(), { onProgress }), executor.run(input(5))]);
  assert.deepEqual(runs.map(({ outputs }) => toFloats(outputs.y)), await Promise.all(want));
  assert.equal(devices.opened.length, 2);
  assert.equal(executor.device, devices.opened[1]);
  assert.equal(notices.length, 1);
  assert.match(notices[0]!, /the device was lost .*opening a new one and running again/);
  fractions.forEach((fraction, i) => assert.ok(i === 0 || fraction >= fractions[i - 1]!));
  assert.equal(fractions.at(-1), 1);
  // The next loss is survived as well: once for each run.
  devices.opened[1]!.destroy();
  assert.deepEqual(toFloats((await executor.run(input())).outputs.y), await want[0]);
  assert.equal(devices.opened.length, 3);
  executor.destroy();
  assert.equal(executor.liveBuffers, 0);
  assert.equal(await codeOf(executor.run(input())), "cancelled");
  steady.destroy();
});

test("a run that loses two devices is given up", async () => {
  const devices = fragileDevices(2);
  const executor = await RecoveringExecutor.create(plan, { ...options, requestDevice: devices.requestDevice });
  assert.equal(await codeOf(executor.run(input(), { onProgress: devices.onProgress })), "device-lost");
  assert.equal(devices.opened.length, 2);
  assert.equal((await executor.run(input())).outputs.y!.shape[0], 100);
  executor.destroy();
});

test("no new device: its reason is the error, and a later run tries again", async () => {
  let asked = 0;
  const executor = await RecoveringExecutor.create(plan, {
    ...options,
    requestDevice: async () => {
      if (++asked === 2) throw new GyrusError("unsupported", "[device] WebGPU found no GPU");
      return (await openDevice()).device;
    },
  });
  const run = executor.run(input(), { onProgress: () => executor.device?.destroy() });
  assert.equal(await codeOf(run), "unsupported");
  assert.equal((await executor.run(input())).outputs.y!.shape[0], 100);
  executor.destroy();
});
