// Opening a WebGPU device with all that its adapter offers, and saying what it is.

import { GyrusError } from "./errors.js";
import { limitNames, oneLine, planFeatures } from "./plan.js";
import type { DeviceReport, PlanLimits } from "./types.js";

export interface DeviceRequest {
  /** Where WebGPU comes from; navigator.gpu unless given. */
  gpu?: GPU;
  powerPreference?: GPUPowerPreference;
  /** Upper bounds for the limits (lower bounds for alignments), to plan for a smaller device than the one at hand. */
  caps?: Partial<PlanLimits>;
}

export interface OpenDevice {
  device: GPUDevice;
  /** What plans for this device must keep: its limits within the caps. */
  limits: PlanLimits;
  report: DeviceReport;
}

const softwareNames = /swiftshader|llvmpipe|lavapipe|softpipe|basic render|\bwarp\b/i;

/** Whether a CPU stands in for the GPU: what the browser says, or where it is too old to say, what the names mean. */
export function isSoftware(info: GPUAdapterInfo | undefined): boolean {
  if (!info) return false;
  const { isFallbackAdapter } = info as { isFallbackAdapter?: boolean };
  if (isFallbackAdapter !== undefined) return isFallbackAdapter;
  return softwareNames.test(`${info.vendor} ${info.architecture} ${info.device} ${info.description}`);
}

/** The most work in a dispatch, as a plan's request has it: nothing else is drawn while one runs, and drivers give up on
 *  one of seconds. Some 50 ms of a small GPU, or of a CPU in its place. */
export function dispatchFlops(software: boolean): number {
  return software ? 2e8 : 5e9;
}

/** The limits that the planner asks for, of a device or adapter, within `caps`. */
export function planLimits(limits: GPUSupportedLimits, caps: Partial<PlanLimits> = {}): PlanLimits {
  const entries = limitNames.map((name) => {
    const offered = limits[name];
    const cap = caps[name] ?? offered;
    return [name, name.startsWith("min") ? Math.max(offered, cap) : Math.min(offered, cap)];
  });
  return Object.fromEntries(entries) as PlanLimits;
}

function allLimits(limits: GPUSupportedLimits): Record<string, number> {
  const all: Record<string, number> = {};
  // Browsers have them as getters of the prototype, which for…in sees.
  for (const name in limits) {
    const value = (limits as unknown as Record<string, unknown>)[name];
    if (typeof value === "number") all[name] = value;
  }
  for (const name of limitNames) all[name] = limits[name];
  return all;
}

function adapterName(info: GPUAdapterInfo): string {
  const parts = [info.vendor, info.architecture, info.device, info.description].map((part) => oneLine(part ?? ""));
  return parts.filter((part, i) => part !== "" && parts.indexOf(part) === i).join(" / ") || "unnamed adapter";
}

function report(adapter: GPUAdapter, limits: GPUSupportedLimits): DeviceReport {
  return {
    available: true,
    why: "",
    adapter: adapterName(adapter.info),
    software: isSoftware(adapter.info),
    features: [...adapter.features].sort(),
    limits: allLimits(limits),
  };
}

async function requestAdapter(request: DeviceRequest): Promise<GPUAdapter> {
  const gpu = request.gpu ?? globalThis.navigator?.gpu;
  if (!gpu) {
    const insecure = globalThis.isSecureContext === false;
    throw new GyrusError("unsupported", insecure
      ? "[device] WebGPU needs a secure page: open it by https:// or from localhost"
      : "[device] this browser has no WebGPU: use a recent Chrome, Edge, Firefox or Safari");
  }
  const options: GPURequestAdapterOptions = { powerPreference: request.powerPreference ?? "high-performance" };
  const adapter = await gpu.requestAdapter(options).catch((error: unknown) => {
    throw new GyrusError("device", `[device] no GPU adapter: ${oneLine(String((error as Error).message ?? error))}`);
  });
  if (!adapter)
    throw new GyrusError("unsupported", "[device] WebGPU found no GPU: update the graphics driver, or turn on " +
      "hardware acceleration in the browser's settings");
  return adapter;
}

/**
 * Opens a device with every limit that the adapter offers and the features that plans may use.
 * Throws a {@link GyrusError}: "unsupported" without WebGPU or adapter, "device" where the device is refused.
 */
export async function requestDevice(request: DeviceRequest = {}): Promise<OpenDevice> {
  const adapter = await requestAdapter(request);
  const requiredLimits = planLimits(adapter.limits) as unknown as Record<string, number>;
  const requiredFeatures = planFeatures.filter((name) => adapter.features.has(name)) as GPUFeatureName[];
  let device: GPUDevice;
  try {
    device = await adapter.requestDevice({ requiredLimits, requiredFeatures });
  } catch (error) {
    const reason = oneLine(String((error as Error).message ?? error));
    throw new GyrusError("device", `[device] ${adapterName(adapter.info)} refused to open: ${reason}`);
  }
  return { device, limits: planLimits(device.limits, request.caps), report: report(adapter, device.limits) };
}

/** What the device is, or why there is none, without opening it. Never throws. */
export async function describeDevice(request: DeviceRequest = {}): Promise<DeviceReport> {
  try {
    const adapter = await requestAdapter(request);
    return report(adapter, adapter.limits);
  } catch (error) {
    return noDevice(error);
  }
}

/** The report of a device that could not be had, for this reason. */
export function noDevice(reason: unknown): DeviceReport {
  const why = (reason as Error).message.replace(/^\[device\] /, "");
  return { available: false, why, adapter: "", software: false, features: [], limits: {} };
}
