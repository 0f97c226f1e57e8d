// A network on a device, for inputs of any shapes that it can take: the counterpart of gyrus/program.h.

import { Compiler, type Network } from "./compiler.js";
import { dispatchFlops, isSoftware, planLimits, requestDevice, type DeviceRequest, type OpenDevice } from "./device.js";
import { GyrusError } from "./errors.js";
import { PlanExecutor } from "./executor.js";
import { checkHostTensor, elements, emptyTensor, narrow, widen } from "./host-tensors.js";
import { Memory } from "./memory.js";
import { parsePlan } from "./plan.js";
import { isDeviceTensor, show } from "./tensors.js";
import type {
  DeviceTensor, HostPort, HostTensor, Inputs, NamedBytes, NetworkPlan, NetworkPort, PlanLimits, Precision, RunOptions,
  RunResult,
} from "./types.js";
import type { WasmSource } from "./wasm.js";
import { Weights } from "./weights.js";

/** What it took to make a program ready for inputs of some shapes. */
export interface Planned {
  shapes: Record<string, number[]>;
  captures: boolean | string[];
  planMs: number; // from the file to a plan
  loadMs: number; // from the plan to buffers with weights, and kernels
  kernels: number;
  bytes: number; // on the device, without states and without weights that it shares with other plans
}

export interface ProgramOptions {
  /** Where it runs; opened with requestDevice unless given. One that is given stays open after destroy(). */
  device?: GPUDevice | OpenDevice;
  /** For requestDevice, where no device is given: under Node, `{ gpu: create([]) }`. */
  request?: DeviceRequest;
  /** The compiler, which several programs may share, or where its module lies; as Compiler.load finds it unless given. */
  compiler?: Compiler;
  wasm?: WasmSource;
  /** Stands in errors; the file's name unless given. */
  name?: string;
  /** Which of several files is the model; the only one called *.onnx unless given. */
  main?: string;
  /** Values of inputs that decide shapes: they become constants of the network, and run() does not take them. */
  bind?: Record<string, HostTensor>;
  precision?: Precision;
  /** That plans keep, where that is to be less than the device has. */
  limits?: PlanLimits;
  /** Tests every float: the first that is not finite is "non-finite", naming its node. */
  checkFinite?: boolean;
  /** So many plans, those used last, stay on the device with their buffers; 8 unless given. */
  keepPlans?: number;
  /** Where states live; a memory of the program's own unless given. */
  memory?: Memory;
  /** How long a submission may hold the device, in ms; 50 unless given. */
  submissionMs?: number;
  /** Called for every plan that is made. */
  onPlanned?: (planned: Planned) => void;
}

/** As for a plan; captures are names of values in the file, all that nodes compute where true. */
export type ProgramRun = RunOptions;

export interface ProgramResult extends Omit<RunResult, "outputs"> {
  outputs: Record<string, HostTensor>; // with captures
}

interface Loaded {
  about: Planned;
  ports: Pick<NetworkPlan, "inputs" | "outputs" | "captures">;
  executor: PlanExecutor | null; // none where no result has an element
}

/**
 * A network on a device. A plan is made when shapes come for the first time and kept; weights that plans have in common
 * lie on the device once.
 *
 * ```ts
 * const program = await Program.load(new Uint8Array(await (await fetch("model.onnx")).arrayBuffer()));
 * console.log(program.inputs, program.outputs);
 * const { outputs } = await program.run({ x: { dtype: "f32", shape: [1, 3, 224, 224], data } });
 * program.destroy();
 * ```
 *
 * Runs take turns. All errors are {@link GyrusError}s; the program stays usable unless the device is lost.
 */
export class Program {
  readonly device: GPUDevice;
  readonly memory: Memory;
  #network: Network;
  #limits: PlanLimits;
  #options: ProgramOptions;
  #weights = new Weights();
  #loaded: [string, Loaded][] = []; // the one used last first
  #last: Promise<unknown> = Promise.resolve();
  #destroyed = false;

  private constructor(network: Network, device: GPUDevice, limits: PlanLimits, options: ProgramOptions) {
    this.#network = network;
    this.#limits = limits;
    this.#options = options;
    this.device = device;
    this.memory = options.memory ?? new Memory(device);
  }

  /**
   * Reads a model: the bytes of an ONNX file, or files by name (an ONNX file with those that hold its weights, or a
   * model's folder). Nothing is planned before the first run.
   */
  static async load(model: Uint8Array | ArrayBuffer | NamedBytes[], options: ProgramOptions = {}): Promise<Program> {
    const files = Array.isArray(model) ? model
      : [{ name: options.name ?? "model.onnx", bytes: model instanceof Uint8Array ? model : new Uint8Array(model) }];
    const main = options.main ?? (files.length === 1 ? files[0]!.name : "");
    const compiler = options.compiler ?? (await Compiler.load(options.wasm === undefined ? {} : { wasm: options.wasm }));
    const network = compiler.openNetwork(files, options.name ?? main, main);
    try {
      for (const [name, tensor] of Object.entries(options.bind ?? {})) {
        checkHostTensor(name, tensor);
        network.bind(name, tensor);
      }
      const { device, limits } = await opened(options);
      return new Program(network, device, options.limits ?? limits, options);
    } catch (error) {
      network.close();
      throw error;
    }
  }

  /** As the file declares them, those that are bound left out. */
  get inputs(): NetworkPort[] {
    const bound = this.#options.bind ?? {};
    return this.#network.inputs.filter(({ name }) => !Object.hasOwn(bound, name));
  }

  get outputs(): NetworkPort[] {
    return this.#network.outputs;
  }

  /** Plans that are kept, the one used last first. */
  get plans(): Planned[] {
    return this.#loaded.map(([, { about }]) => about);
  }

  /** Bytes of its buffers on the device, without states. */
  get allocatedBytes(): number {
    const sum = (total: number, [, { executor }]: [string, Loaded]) => total + (executor?.allocatedBytes ?? 0);
    return this.#loaded.reduce(sum, this.#weights.bytes);
  }

  /** Plans for inputs of these shapes unless that was done already; those that the file fixes may be left out. */
  prepare(shapes: Record<string, number[]> = {}, captures: boolean | string[] = []): Promise<Planned> {
    return this.#inTurn(async () => (await this.#load(shapes, captures)).about);
  }

  /**
   * Runs the network. Integers of 64 bits pass through 32; one that does not fit is "invalid-input". What `keep` leaves on
   * the device has the device's type.
   */
  run(inputs: Record<string, HostTensor | DeviceTensor>, options: ProgramRun = {}): Promise<ProgramResult> {
    return this.#inTurn(() => this.#run(inputs, options));
  }

  /** Frees everything; a device that was given to load() stays open. Twice does no harm. */
  destroy(): void {
    if (this.#destroyed) return;
    this.#destroyed = true;
    for (const [, { executor }] of this.#loaded.splice(0)) executor?.destroy();
    this.#weights.destroy();
    this.#network.close();
    if (!this.#options.memory) this.memory.destroy();
    if (!this.#options.device) this.device.destroy();
  }

  #inTurn<T>(body: () => Promise<T>): Promise<T> {
    const result = this.#last.then(() => {
      if (this.#destroyed) throw new GyrusError("cancelled", "[program] was destroyed; load it again");
      return body();
    });
    this.#last = result.catch(() => {});
    return result;
  }

  async #run(inputs: Record<string, HostTensor | DeviceTensor>, options: ProgramRun): Promise<ProgramResult> {
    if (options.signal?.aborted) throw new GyrusError("cancelled", "[run] cancelled before the start");
    const shapes: Record<string, number[]> = {};
    for (const [name, tensor] of Object.entries(inputs)) {
      if (!isDeviceTensor(tensor)) checkHostTensor(name, tensor);
      shapes[name] = tensor.shape;
    }
    const { ports, executor } = await this.#load(shapes, options.captures ?? []);
    const given = hostInputs(ports.inputs, inputs);
    const results = [...ports.outputs, ...ports.captures];
    const empty = results.filter(({ shape }) => elements(shape) === 0);
    const result = executor ? await executor.run(given, without(options, empty)) : nothing;
    const outputs: Record<string, HostTensor> = {};
    const asked = askedFor(ports, options);
    for (const port of results) {
      const found = result.outputs[port.name];
      if (found) outputs[port.name] = widen(found, port.dtype);
      else if (empty.includes(port) && asked.has(port.name)) outputs[port.name] = emptyTensor(port);
    }
    return { ...result, outputs };
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
    const software = isSoftware(this.device.adapterInfo);
    const { json, weights, ...ports } = this.#network.plan({
      shapes, captures, precision, checkFinite, software, limits: this.#limits, dispatchFlops: dispatchFlops(software),
    });
    const planned = performance.now();
    while (this.#loaded.length > 0 && this.#loaded.length >= Math.max(keepPlans, 1))
      this.#loaded.pop()![1].executor?.destroy();
    const plan = json === "" ? null : parsePlan(json, weights);
    const settings = { memory: this.memory, weights: this.#weights, checkFinite, submissionMs };
    const executor = plan && (await PlanExecutor.create(this.device, plan, settings));
    this.#weights.trim();
    if (this.#destroyed) {
      executor?.destroy();
      throw new GyrusError("cancelled", "[program] was destroyed while it was loaded");
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

const nothing: RunResult =
  { outputs: {}, kept: {}, uploadedBytes: 0, readBackBytes: 0, gpuMs: null, wallMs: 0, profile: [] };

async function opened({ device, request }: ProgramOptions): Promise<{ device: GPUDevice; limits: PlanLimits }> {
  if (!device) return requestDevice(request);
  return "device" in device ? device : { device, limits: planLimits(device.limits) };
}

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

function askedFor({ outputs, captures }: Loaded["ports"], options: ProgramRun): Set<string> {
  const kept = new Set(options.keep);
  const names = [...(options.outputs ?? outputs.map(({ name }) => name)), ...captures.map(({ name }) => name)];
  return new Set(names.filter((name) => !kept.has(name)));
}

// The options for a plan that lacks these results. All of its captures were asked for.
function without(options: ProgramRun, lacking: HostPort[]): RunOptions {
  const has = (name: string) => !lacking.some((port) => port.name === name);
  const { outputs, keep, ...rest } = options;
  return {
    ...rest, captures: true,
    ...(outputs ? { outputs: outputs.filter(has) } : {}),
    ...(keep ? { keep: keep.filter(has) } : {}),
  };
}
