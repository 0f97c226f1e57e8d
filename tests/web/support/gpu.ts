// WebGPU under Node, for tests. A machine without an adapter fails them.

import { create, globals } from "webgpu";
import { requestDevice, type DeviceRequest, type OpenDevice } from "../../../web/src/device.js";

Object.assign(globalThis, globals);

// Kept referenced for as long as the process lives: the binding frees the instance with this object.
const gpu = create([]);
(globalThis as { gyrusTestGpu?: GPU }).gyrusTestGpu = gpu;

export function testGpu(): GPU {
  return gpu;
}

export function openDevice(request: DeviceRequest = {}): Promise<OpenDevice> {
  return requestDevice({ gpu, ...request });
}
