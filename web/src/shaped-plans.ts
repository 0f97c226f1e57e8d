// Plans of one network on a device, for inputs of the shapes that come: what programs and trainers run.

import { dispatchFlops, isSoftware, planLimits, requestDevice, type DeviceRequest, type OpenDevice } from "./device.js";
import { GyrusError } from "./errors.js";
import { PlanExecutor } from "./executor.js";
import { checkHostTensor, elements, emptyTensor, narrow, widen } from "./host-tensors.js";
import type { Memory } from "./memory.js";
import { parsePlan } from "./plan.js";
import { isDeviceTensor, show } from "./tensors.js";
import type {
  DeviceTensor, HostPort, HostTensor, Inputs, NetworkPlan, NetworkRequest, PlanLimits, Precision, RunOptions, RunResult,
} from "./types.js";
import type { Weights } from "./weights.js";

/** What it took to make a program ready for inputs of some shapes. */
export interface Planned {
  shapes: Record<string, number[]>;
  captures: boolean | string[];
  planMs: number; // from the file to a plan
  loadMs: number; // from the plan to buffers with weights, and kernels
  kernels: number;
  bytes: number; // on the device, without states and without weights that it shares with other plans
}

/** How plans are made and kept; see ProgramOptions. */
export interface PlanningOptions {
  precision?: Precision;
  limits?: PlanLimits;
  checkFinite?: boolean;
  keepPlans?: number;
  submissionMs?: number;
  onPlanned?: (planned: Planned) => void;
}

export interface ProgramResult extends Omit<RunResult, "outputs"> {
  outputs: Record<string, HostTensor>; // with captures
}

interface Loaded {
  about: Planned;
  ports: Pick<NetworkPlan, "inputs" | "outputs" | "captures">;
  executor: PlanExecutor | null; // none where no result has an element
}

/** Where plans go. */
export interface Place {
  device: GPUDevice;
  memory: Memory;
  weights: Weights; // that several plans have in common
  limits: PlanLimits;
}

export class ShapedPlans {
  #subject: string; // of errors
  #place: Place;
  #make: (request: NetworkRequest) => NetworkPlan;
  #named: boolean; // plans are made for the captures of a run; else they have all, and runs choose
  #options: PlanningOptions;
  #loaded: [string, Loaded][] = []; // the one used last first
  #destroyed = false;

  constructor(
    subject: string, place: Place, make: (request: NetworkRequest) => NetworkPlan, named: boolean, options: PlanningOptions,
  ) {
    this.#subject = subject;
    this.#place = place;
    this.#make = make;
    this.#named = named;
    this.#options = options;
  }

  get plans(): Planned[] {
    return this.#loaded.map(([, { about }]) => about);
  }

  /** Bytes of buffers on the device, without states and what plans have in common. */
  get allocatedBytes(): number {
    return this.#loaded.reduce((total, [, { executor }]) => total + (executor?.allocatedBytes ?? 0), 0);
  }

  async prepare(shapes: Record<string, number[]>, captures: boolean | string[] = []): Promise<Planned> {
    return (await this.#load(shapes, captures)).about;
  }

  async run(inputs: Record<string, HostTensor | DeviceTensor>, options: RunOptions = {}): Promise<ProgramResult> {
    if (options.signal?.aborted) throw new GyrusError("cancelled", "[run] cancelled before the start");
    const shapes: Record<string, number[]> = {};
    for (const [name, tensor] of Object.entries(inputs)) {
      if (!isDeviceTensor(tensor)) checkHostTensor(name, tensor);
      shapes[name] = tensor.shape;
    }
    const { ports, executor } = await this.#load(shapes, this.#named ? options.captures ?? [] : []);
    const given = hostInputs(ports.inputs, inputs);
    const chosen = this.#named ? { ...options, captures: true } : options;
    const results = [...ports.outputs, ...ports.captures];
    const empty = results.filter(({ shape }) => elements(shape) === 0);
    const result = executor ? await executor.run(given, without(chosen, empty)) : nothing;
    const outputs: Record<string, HostTensor> = {};
    const asked = askedFor(ports, chosen);
    for (const port of results) {
      const found = result.outputs[port.name];
      if (found) outputs[port.name] = widen(found, port.dtype);
      else if (empty.includes(port) && asked.has(port.name)) outputs[port.name] = emptyTensor(port);
    }
    return { ...result, outputs };
  }

  destroy(): void {
    this.#destroyed = true;
    for (const [, { executor }] of this.#loaded.splice(0)) executor?.destroy();
  }

  async #load(shapes: Record<string, number[]>, captures: boolean | string[]): Promise<Loaded> {
    const key = keyOf(shapes, captures);
    const at = this.#loaded.findIndex(([other]) => other === key);
    if (at >= 0) {
      this.#loaded.unshift(...this.#loaded.splice(at, 1));
      return this.#loaded[0]![1];
    }
    const begin = performance.now();
    const { precision = "f32", checkFinite = false, keepPlans = 8, submissionMs = 50 } = this.#options;
    const software = isSoftware(this.#place.device.adapterInfo);
    const { json, weights, ...ports } = this.#make({
      shapes, captures, precision, checkFinite, software, limits: this.#place.limits, dispatchFlops: dispatchFlops(software),
    });
    const planned = performance.now();
    while (this.#loaded.length > 0 && this.#loaded.length >= Math.max(keepPlans, 1))
      this.#loaded.pop()![1].executor?.destroy();
    const plan = json === "" ? null : parsePlan(json, weights);
    const { device, memory, weights: shared } = this.#place;
    const settings = { memory, weights: shared, checkFinite, submissionMs };
    const executor = plan && (await PlanExecutor.create(device, plan, settings));
    shared.trim();
    if (this.#destroyed) {
      executor?.destroy();
      throw new GyrusError("cancelled", `[${this.#subject}] was destroyed while it was loaded`);
    }
    const about: Planned = {
      shapes, captures, planMs: planned - begin, loadMs: performance.now() - planned, kernels: plan?.kernels.length ?? 0,
      bytes: executor?.allocatedBytes ?? 0,
    };
    this.#loaded.unshift([key, { about, ports, executor }]);
    this.#options.onPlanned?.(about);
    return this.#loaded[0]![1];
  }
}

/** The device that was given, or one that is opened. */
export async function opened(
  device: GPUDevice | OpenDevice | undefined, request?: DeviceRequest,
): Promise<{ device: GPUDevice; limits: PlanLimits }> {
  if (!device) return requestDevice(request);
  return "device" in device ? device : { device, limits: planLimits(device.limits) };
}

const nothing: RunResult =
  { outputs: {}, kept: {}, uploadedBytes: 0, readBackBytes: 0, gpuMs: null, wallMs: 0, profile: [] };

function keyOf(shapes: Record<string, number[]>, captures: boolean | string[]): string {
  const names = Object.keys(shapes).sort();
  return JSON.stringify([names.map((name) => [name, shapes[name]]), Array.isArray(captures) ? [...captures].sort() : captures]);
}

// The plan's inputs: without those that have no elements, in the types that devices have.
function hostInputs(ports: HostPort[], inputs: Record<string, HostTensor | DeviceTensor>): Inputs {
  const given: Inputs = {};
  for (const { name, dtype, shape } of ports) {
    const input = inputs[name];
    if (!input) throw new GyrusError("invalid-input", `[${name}] this input is missing`);
    if (elements(shape) === 0) continue;
    if (isDeviceTensor(input)) given[name] = input;
    else if (input.dtype !== dtype)
      throw new GyrusError("invalid-input",
        `[${name}] the network takes ${show(dtype, shape)}, the input is ${show(input.dtype, input.shape)}`);
    else given[name] = narrow(name, input);
  }
  return given;
}

function askedFor({ outputs, captures }: Loaded["ports"], options: RunOptions): Set<string> {
  const kept = new Set(options.keep);
  const more = options.captures === true ? captures.map(({ name }) => name) : options.captures || [];
  const names = [...(options.outputs ?? outputs.map(({ name }) => name)), ...more];
  return new Set(names.filter((name) => !kept.has(name)));
}

// The options for a plan that lacks these results.
function without(options: RunOptions, lacking: HostPort[]): RunOptions {
  const has = (name: string) => !lacking.some((port) => port.name === name);
  const { outputs, captures, keep, ...rest } = options;
  return {
    ...rest,
    ...(outputs ? { outputs: outputs.filter(has) } : {}),
    ...(Array.isArray(captures) ? { captures: captures.filter(has) } : captures ? { captures } : {}),
    ...(keep ? { keep: keep.filter(has) } : {}),
  };
}
