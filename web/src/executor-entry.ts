// What an exported folder needs to run its plan: bundled into one ES module.

import { GyrusError } from "./errors.js";
import { parsePlan, type Plan } from "./plan.js";

export { describeDevice, isSoftware, planLimits, requestDevice } from "./device.js";
export type { DeviceRequest, OpenDevice } from "./device.js";
export { GyrusError, type ErrorCode, type Failure, type Hint } from "./errors.js";
export { PlanExecutor, type ExecutorOptions } from "./executor.js";
export { Memory, type StateRange } from "./memory.js";
export { checkLimits } from "./plan-check.js";
export { parsePlan, peakBytes } from "./plan.js";
export type { Plan, PlanArgument, PlanPort, PlanState } from "./plan.js";
export { RecoveringExecutor, type RecoveringOptions } from "./recovering.js";
export type * from "./types.js";

async function get(url: URL): Promise<Response> {
  const response = await fetch(url).catch((error: Error) => {
    throw new GyrusError("io", `[${url}] could not be fetched: ${error.message}`);
  });
  if (response.ok) return response;
  throw new GyrusError("io", `[${url}] could not be fetched: ${response.status} ${response.statusText}`);
}

/**
 * Fetches and checks the plan that lies under `base`: plan.json and plan.bin, or the names given.
 * @param base - URL of the folder, with or without a trailing slash; relative to the page.
 */
export async function loadPlan(base: string | URL, name = "plan"): Promise<Plan> {
  const here = globalThis.location?.href;
  const folder = new URL(String(base).replace(/\/?$/, "/"), here);
  const urls = [new URL(`${name}.json`, folder), new URL(`${name}.bin`, folder)] as const;
  const [json, weights] = await Promise.all([get(urls[0]), get(urls[1])]);
  return parsePlan(await json.text(), new Uint8Array(await weights.arrayBuffer()));
}
