// What the browser tells of the machine around the GPU; the policy guesses the GPU's memory from it.

import type { BrowserFacts } from "./types.js";

export function browserFacts(): BrowserFacts {
  const { userAgent, deviceMemory, userAgentData } = (globalThis.navigator ?? {}) as Navigator & {
    deviceMemory?: number;
    userAgentData?: { mobile?: boolean };
  };
  const mobile = userAgentData?.mobile ?? /Android|iPhone|iPad|Mobile/i.test(userAgent ?? "");
  return { mobile, memoryGiB: deviceMemory ?? null };
}
