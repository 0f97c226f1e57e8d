// Which precision a device gets where the person leaves it open.

import type { DeviceReport, Precision } from "./types.js";

const GiB = 2 ** 30;
const MiB = 2 ** 20;

/** What the browser tells of the machine around the GPU. */
export interface Host {
  mobile: boolean;
  memoryGiB: number | null; // of the machine, rounded by the browser and never said to be more than 8
}

export function host(): Host {
  const { userAgent, deviceMemory, userAgentData } = globalThis.navigator as Navigator & {
    deviceMemory?: number;
    userAgentData?: { mobile?: boolean };
  };
  const mobile = userAgentData?.mobile ?? /Android|iPhone|iPad|Mobile/i.test(userAgent ?? "");
  return { mobile, memoryGiB: deviceMemory ?? null };
}

/**
 * The bytes that the device is likely to give, and what that rests on. WebGPU does not tell a GPU's memory, so this is
 * a guess from what it does tell:
 *  - phones end pages that take much more than a gigabyte;
 *  - an adapter with no more than WebGPU's default limits (bindings of 128 MiB, buffers of 256 MiB) is small or old;
 *  - with 4 GiB or less in the machine, an integrated GPU shares them with everything else: half;
 *  - others have 4 GiB or more, and the browser and the desktop use some of it.
 */
export function likelyBytes(device: DeviceReport, around: Host): { bytes: number; because: string } {
  const { maxStorageBufferBindingSize: binding = 0, maxBufferSize: buffer = 0 } = device.limits;
  if (around.mobile) return { bytes: 1.5 * GiB, because: "this is a phone or tablet" };
  if (binding <= 128 * MiB && buffer <= 256 * MiB)
    return { bytes: 1.5 * GiB, because: "the GPU offers only WebGPU's smallest limits" };
  if (around.memoryGiB !== null && around.memoryGiB <= 4)
    return { bytes: (around.memoryGiB / 2) * GiB, because: `the machine has about ${around.memoryGiB} GiB of memory` };
  return { bytes: 3 * GiB, because: "most GPUs have 4 GiB or share the machine's memory" };
}

/** f32 where the f32 plan fits what the device is likely to give, else f16. */
export function choosePrecision(
  f32Bytes: number, device: DeviceReport, around: Host = host(),
): { precision: Precision; why: string } {
  const { bytes, because } = likelyBytes(device, around);
  const size = f32Bytes < GiB ? `${Math.ceil(f32Bytes / MiB)} MiB` : `${(f32Bytes / GiB).toFixed(2)} GiB`;
  const plan = `the plan in f32 needs ${size}`;
  const likely = `${(bytes / GiB).toFixed(1)} GiB`;
  if (f32Bytes <= bytes) return { precision: "f32", why: `${plan}, and ${likely} are likely to be there` };
  return { precision: "f16", why: `${plan}, and more than ${likely} is not to be counted on: ${because}` };
}
