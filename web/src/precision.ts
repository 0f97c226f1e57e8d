// Which plan a device gets where the person leaves the precision open.

import type { DeviceReport, Precision } from "./types.js";

const GiB = 2 ** 30;
const MiB = 2 ** 20;

/** What the browser tells of the machine around the GPU. */
export interface Host {
  mobile: boolean;
  memoryGiB: number | null; // of the machine, rounded by the browser and never said to be more than 8
}

export function host(): Host {
  const { userAgent, deviceMemory, userAgentData } = (globalThis.navigator ?? {}) as Navigator & {
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
 *  - others have 4 GiB or more, or share the machine's memory. Where that is too much all the same, a refused
 *    allocation says so, and a smaller plan is tried.
 */
export function likelyBytes(device: DeviceReport, around: Host): { bytes: number; because: string } {
  const { maxStorageBufferBindingSize: binding = 0, maxBufferSize: buffer = 0 } = device.limits;
  if (around.mobile) return { bytes: 1.5 * GiB, because: "this is a phone or tablet" };
  if (binding <= 128 * MiB && buffer <= 256 * MiB)
    return { bytes: 1.5 * GiB, because: "the GPU offers only WebGPU's smallest limits" };
  if (around.memoryGiB !== null && around.memoryGiB <= 4)
    return { bytes: (around.memoryGiB / 2) * GiB, because: `the machine has about ${around.memoryGiB} GiB of memory` };
  return { bytes: 4 * GiB, because: "many GPUs have no more, or share the machine's memory" };
}

export interface Choice {
  precision: Precision;
  small: boolean; // for WebGPU's default limits, not for the device's own
  why: string;
  notice: string; // what to tell the person; empty for the plan that anyone would expect
}

/**
 * The plan in f32 where it is likely to fit; else the one for WebGPU's default limits, whose smaller buffers make it
 * need less and take a little longer; else f16. Bytes are null where no such plan exists.
 */
export function choosePlan(
  f32Bytes: number | null, smallBytes: () => number | null, device: DeviceReport, around: Host = host(),
): Choice {
  if (f32Bytes === null) {
    const why = "no plan in f32 keeps this GPU's limits";
    return { precision: "f16", small: false, why, notice: `Storing feature maps in f16: ${why}.` };
  }
  const { bytes, because } = likelyBytes(device, around);
  const likely = `${(bytes / GiB).toFixed(1)} GiB`;
  const plan = `the plan in f32 needs ${size(f32Bytes)}`;
  if (f32Bytes <= bytes)
    return { precision: "f32", small: false, why: `${plan}, and ${likely} are likely to be there`, notice: "" };
  const limit = `more than ${likely} is not to be counted on: ${because}`;
  const small = smallBytes();
  if (small !== null && small <= bytes) {
    const why = `${plan} (${size(small)} for WebGPU's default limits, a little slower), and ${limit}`;
    return { precision: "f32", small: true, why, notice: `Planned for WebGPU's default limits: ${why}.` };
  }
  const why = `${plan}, and ${limit}`;
  return { precision: "f16", small: false, why, notice: `Storing feature maps in f16: ${why}.` };
}

function size(bytes: number): string {
  return bytes < GiB ? `${Math.ceil(bytes / MiB)} MiB` : `${(bytes / GiB).toFixed(2)} GiB`;
}
