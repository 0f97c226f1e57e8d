// Opening devices: what is reported, and the lines for those that cannot be opened.

import assert from "node:assert/strict";
import { test } from "node:test";
import { describeDevice, isSoftware, requestDevice } from "../../web/src/device.js";
import { GyrusError } from "../../web/src/errors.js";
import { openDevice, testGpu } from "./support/gpu.js";

const info = (part: Partial<GPUAdapterInfo>) =>
  ({ vendor: "", architecture: "", device: "", description: "", ...part }) as GPUAdapterInfo;
const gpuWith = (adapter: unknown) => ({ requestAdapter: async () => adapter }) as unknown as GPU;

async function refusal(gpu: GPU | undefined): Promise<GyrusError> {
  const error = await requestDevice(gpu ? { gpu } : {}).then(() => assert.fail("no error"), (e: unknown) => e);
  assert.ok(error instanceof GyrusError, String(error));
  return error;
}

test("a device has all limits of its adapter", async () => {
  const { device, limits, report } = await openDevice();
  const adapter = (await testGpu().requestAdapter({ powerPreference: "high-performance" }))!;
  assert.equal(device.limits.maxBufferSize, adapter.limits.maxBufferSize);
  assert.equal(limits.maxStorageBufferBindingSize, adapter.limits.maxStorageBufferBindingSize);
  assert.equal(limits.minStorageBufferOffsetAlignment, adapter.limits.minStorageBufferOffsetAlignment);
  assert.deepEqual([report.available, report.why], [true, ""]);
  assert.ok(report.adapter.length > 0 && report.features.length > 0);
  assert.equal(report.limits.maxBufferSize, limits.maxBufferSize);
  assert.ok(Object.keys(report.limits).length > 12);
  assert.deepEqual({ ...(await describeDevice({ gpu: testGpu() })), limits: {} }, { ...report, limits: {} });
  device.destroy();
});

test("caps lower the limits that plans are made for", async () => {
  const caps = { maxStorageBufferBindingSize: 1 << 20, minStorageBufferOffsetAlignment: 512, maxBufferSize: 2 ** 50 };
  const { device, limits } = await openDevice({ caps });
  assert.equal(limits.maxStorageBufferBindingSize, 1 << 20);
  assert.equal(limits.minStorageBufferOffsetAlignment, 512);
  assert.equal(limits.maxBufferSize, device.limits.maxBufferSize);
  device.destroy();
});

test("software adapters are known", () => {
  assert.ok(isSoftware(info({ vendor: "google", architecture: "swiftshader" })));
  assert.ok(isSoftware(info({ description: "llvmpipe (LLVM 15.0.6, 256 bits)" })));
  assert.ok(isSoftware(info({ vendor: "microsoft", architecture: "warp" })));
  assert.ok(isSoftware({ ...info({}), isFallbackAdapter: true } as GPUAdapterInfo));
  assert.ok(!isSoftware({ ...info({ description: "over llvmpipe" }), isFallbackAdapter: false } as GPUAdapterInfo));
  assert.ok(!isSoftware(info({ vendor: "nvidia", architecture: "ampere" })));
  assert.ok(!isSoftware(undefined));
});

test("no WebGPU, no adapter, no device: a line for each", async () => {
  const none = await refusal(undefined);
  assert.deepEqual([none.code, /no WebGPU: use a recent/.test(none.message)], ["unsupported", true]);
  const empty = await refusal(gpuWith(null));
  assert.deepEqual([empty.code, /found no GPU/.test(empty.message)], ["unsupported", true]);
  const real = (await testGpu().requestAdapter())!;
  const requestFails = async () => {
    throw new Error("out of\nhandles");
  };
  const refuses = { info: real.info, limits: real.limits, features: real.features, requestDevice: requestFails };
  const refused = await refusal(gpuWith(refuses));
  assert.equal(refused.code, "device");
  assert.match(refused.message, /^\[device\] .* refused to open: out of handles$/);
  const report = await describeDevice({ gpu: gpuWith(null) });
  assert.equal(report.available, false);
  assert.match(report.why, /^WebGPU found no GPU/);
});
