// A network on a device, for inputs of any shapes that it can take: the counterpart of gyrus/program.h.

import { Compiler, type Network } from "./compiler.js";
import type { DeviceRequest, OpenDevice } from "./device.js";
import { GyrusError } from "./errors.js";
import { checkHostTensor } from "./host-tensors.js";
import { Memory } from "./memory.js";
import { opened, ShapedPlans, type Planned, type ProgramResult } from "./shaped-plans.js";
import type { DeviceTensor, HostTensor, NamedBytes, NetworkPort, PlanLimits, Precision, RunOptions } from "./types.js";
import type { WasmSource } from "./wasm.js";
import { Weights } from "./weights.js";

export type { Planned, ProgramResult } from "./shaped-plans.js";

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
  #options: ProgramOptions;
  #weights = new Weights();
  #shaped: ShapedPlans;
  #last: Promise<unknown> = Promise.resolve();
  #destroyed = false;

  private constructor(network: Network, device: GPUDevice, limits: PlanLimits, options: ProgramOptions) {
    this.#network = network;
    this.#options = options;
    this.device = device;
    this.memory = options.memory ?? new Memory(device);
    const place = { device, memory: this.memory, weights: this.#weights, limits };
    this.#shaped = new ShapedPlans("program", place, (request) => network.plan(request), true, options);
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
      const { device, limits } = await opened(options.device, options.request);
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
    return this.#shaped.plans;
  }

  /** Bytes of its buffers on the device, without states. */
  get allocatedBytes(): number {
    return this.#shaped.allocatedBytes + this.#weights.bytes;
  }

  /** Plans for inputs of these shapes unless that was done already; those that the file fixes may be left out. */
  prepare(shapes: Record<string, number[]> = {}, captures: boolean | string[] = []): Promise<Planned> {
    return this.#inTurn(() => this.#shaped.prepare(shapes, captures));
  }

  /**
   * Runs the network. Integers of 64 bits pass through 32; one that does not fit is "invalid-input". What `keep` leaves on
   * the device has the device's type.
   */
  run(inputs: Record<string, HostTensor | DeviceTensor>, options: ProgramRun = {}): Promise<ProgramResult> {
    return this.#inTurn(() => this.#shaped.run(inputs, options));
  }

  /** Frees everything; a device that was given to load() stays open. Twice does no harm. */
  destroy(): void {
    if (this.#destroyed) return;
    this.#destroyed = true;
    this.#shaped.destroy();
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
}
