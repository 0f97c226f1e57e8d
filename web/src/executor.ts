// Runs plans on a WebGPU device.

import { DeviceState } from "./device-state.js";
import { planLimits } from "./device.js";
import { GyrusError, withStateChanged } from "./errors.js";
import { load, type LoadedPlan } from "./load.js";
import { Memory } from "./memory.js";
import { checkLimits } from "./plan-check.js";
import type { Plan } from "./plan.js";
import { checkRun } from "./ports.js";
import { Runner } from "./runner.js";
import type { Inputs, RunOptions, RunResult } from "./types.js";
import type { Weights } from "./weights.js";

export interface ExecutorOptions {
  /** Where the plan's states live; a memory of the executor's own unless given. */
  memory?: Memory;
  /** Buffers of weights that it has in common with other plans; for Program. */
  weights?: Weights;
  /** How long a submission may hold the device, in ms; 50 unless given. */
  submissionMs?: number;
  /** Whether infinities and NaN in an output are an error; true unless given. */
  checkFinite?: boolean;
  /** Stops loading between its stages. */
  signal?: AbortSignal;
  /** Called after each kernel that is compiled. */
  onCompiled?: (done: number, total: number) => void;
}

function cancelled(detail: string): GyrusError {
  return new GyrusError("cancelled", `[run] cancelled ${detail}`);
}

/**
 * A plan loaded on a device: memory allocated, weights uploaded, kernels compiled. It can run any number of times.
 *
 * ```ts
 * const { device } = await requestDevice();
 * const executor = await PlanExecutor.create(device, parsePlan(json, weights));
 * const { outputs } = await executor.run({ image: { dtype: "u8", shape: [1, 1, 64, 64, 64], data } });
 * executor.destroy();
 * ```
 *
 * All errors are {@link GyrusError}s. After the device is lost the executor is of no more use; see RecoveringExecutor.
 */
export class PlanExecutor {
  readonly plan: Plan;
  readonly device: GPUDevice;
  #loaded: LoadedPlan;
  #options: ExecutorOptions;
  #destroyed = false;

  private constructor(loaded: LoadedPlan, options: ExecutorOptions) {
    this.plan = loaded.plan;
    this.device = loaded.state.device;
    this.#loaded = loaded;
    this.#options = options;
  }

  /**
   * Loads a plan. Throws "over-limits" where the plan does not fit the device or the device refuses a buffer, "device"
   * where a kernel does not compile (with its name, line and text).
   */
  static async create(device: GPUDevice, plan: Plan, options: ExecutorOptions = {}): Promise<PlanExecutor> {
    const state = DeviceState.of(device);
    state.check();
    if (options.signal?.aborted) throw cancelled("before loading");
    checkLimits(plan, planLimits(device.limits), device.features);
    const memory = options.memory ?? new Memory(device);
    if (memory.device !== device) throw new GyrusError("invalid-input", "[memory] is on another device than the plan");
    const loading = load(state, plan, memory, options.onCompiled ?? (() => {}), options.weights);
    const executor = new PlanExecutor(await loading, options);
    if (!options.memory) memory.destroy(); // the executor's hold is the last one
    if (!options.signal?.aborted) return executor;
    executor.destroy();
    throw cancelled("while loading");
  }

  /** The states of the plan, and where it is shared, of others. */
  get memory(): Memory {
    return this.#loaded.memory;
  }

  /** Bytes of the buffers that this executor holds on the device: the plan's without its states, and after a run a
   *  staging buffer. */
  get allocatedBytes(): number {
    return this.#loaded.allocations.bytes;
  }

  /** How many buffers this executor holds on the device. */
  get liveBuffers(): number {
    return this.#loaded.allocations.count;
  }

  /**
   * Runs the plan once. Runs that are asked for while another is under way, of this executor or of one that shares its
   * memory, wait for their turn, so the inputs must stay as they are until the promise settles. An abort rejects at once
   * with "cancelled"; the device finishes what was submitted, at most two submissions. The error of a run that failed
   * after it may have changed states says so (stateChanged); they are then undefined, see Memory.
   */
  async run(inputs: Inputs, options: RunOptions = {}): Promise<RunResult> {
    this.#check();
    checkRun(this.plan, inputs, options);
    const progress: { runner?: Runner } = {};
    return this.#settled(this.memory.inTurn(async () => {
      await this.#begin(inputs, options, progress);
      return this.#end(progress.runner!);
    }), options, progress);
  }

  /**
   * The same, but its turn ends when all is submitted: what is asked for behind it comes behind it on the device, before
   * its results are back, and sees the states that it leaves.
   */
  async start(inputs: Inputs, options: RunOptions = {}): Promise<RunResult> {
    this.#check();
    checkRun(this.plan, inputs, options);
    const progress: { runner?: Runner } = {};
    const begun = this.memory.inTurn(() => this.#begin(inputs, options, progress));
    return this.#settled(begun.then(() => this.#end(progress.runner!)), options, progress);
  }

  /** Frees everything on the device. A run under way rejects with "cancelled"; calling it again does nothing. */
  destroy(): void {
    if (this.#destroyed) return;
    this.#destroyed = true;
    this.#loaded.memory.release();
    this.#options.weights?.release(this.#loaded.shared);
    this.#loaded.times?.destroy();
    this.#loaded.allocations.destroyAll();
    this.#loaded.groups.length = 0;
    this.#loaded.pipelines.clear();
  }

  #check(): void {
    if (this.#destroyed) throw new GyrusError("cancelled", "[run] the executor was destroyed; create a new one");
    this.#loaded.state.check();
  }

  #settled(result: Promise<RunResult>, options: RunOptions, progress: { runner?: Runner }): Promise<RunResult> {
    const settled = options.signal ? this.#unlessAborted(result, options.signal) : result;
    return settled.catch((error: unknown) => {
      if (!progress.runner?.stateChanged) throw error;
      this.memory.leaveUndefined(this.#loaded.writes.names);
      throw withStateChanged(error);
    });
  }

  async #begin(inputs: Inputs, options: RunOptions, progress: { runner?: Runner }): Promise<void> {
    const stop = (done: number) => {
      this.#check();
      if (options.signal?.aborted) throw cancelled(`after ${done} of ${this.plan.steps.length} steps`);
    };
    stop(0);
    this.memory.checkDefined(this.plan.states.map(({ name }) => name));
    const { submissionMs = 50, checkFinite = true } = this.#options;
    await this.#heard(progress, async () => {
      progress.runner = new Runner(this.#loaded, options, { submissionMs, checkFinite, stop });
      await progress.runner.begin(inputs);
    });
  }

  #end(runner: Runner): Promise<RunResult> {
    return this.#heard({ runner }, () => runner.end());
  }

  async #heard<T>(progress: { runner?: Runner }, body: () => Promise<T>): Promise<T> {
    try {
      return await body();
    } catch (error) {
      if (progress.runner?.stateChanged) this.memory.leaveUndefined(this.#loaded.writes.names); // before the next turn
      this.#check(); // the loss or destruction behind the error says more
      throw error;
    }
  }

  #unlessAborted(result: Promise<RunResult>, signal: AbortSignal): Promise<RunResult> {
    return new Promise((resolve, reject) => {
      const abort = () => reject(cancelled("by the caller"));
      if (signal.aborted) abort();
      signal.addEventListener("abort", abort, { once: true });
      result.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
    });
  }
}
