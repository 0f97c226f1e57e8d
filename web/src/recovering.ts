// An executor that survives the loss of its device.

import { GyrusError } from "./errors.js";
import { PlanExecutor, type ExecutorOptions } from "./executor.js";
import type { Plan } from "./plan.js";
import type { Inputs, Progress, RunOptions, RunResult } from "./types.js";

export interface RecoveringOptions extends ExecutorOptions {
  /** Opens a device: the first one, and another after each loss. No adapter gives two: ask for a new one. */
  requestDevice: () => Promise<GPUDevice>;
  /** Told, in one line, what was done about a loss. */
  onNotice?: (line: string) => void;
}

// Calls on with what never goes back, though a replay starts again at 0.
export function neverLess(onProgress: (progress: Progress) => void): (progress: Progress) => void {
  let most = 0;
  return (progress) => {
    most = Math.max(most, progress.fraction);
    onProgress({ ...progress, fraction: most });
  };
}

/**
 * A {@link PlanExecutor} that opens a new device when its own is lost, loads the plan there and runs again what was
 * under way. A run that loses a second device rejects with that loss, as does one of a plan with states.
 */
export class RecoveringExecutor {
  readonly plan: Plan;
  #options: RecoveringOptions;
  #executor: Promise<PlanExecutor> | null = null; // null where the last attempt to load failed
  #current: PlanExecutor | null = null;
  #destroyed = false;

  private constructor(plan: Plan, options: RecoveringOptions) {
    this.plan = plan;
    this.#options = options;
  }

  static async create(plan: Plan, options: RecoveringOptions): Promise<RecoveringExecutor> {
    const executor = new RecoveringExecutor(plan, options);
    await executor.#loaded();
    return executor;
  }

  /** The device in use; another one after a loss. */
  get device(): GPUDevice | null {
    return this.#current?.device ?? null;
  }

  get allocatedBytes(): number {
    return this.#current?.allocatedBytes ?? 0;
  }

  get liveBuffers(): number {
    return this.#current?.liveBuffers ?? 0;
  }

  /** As PlanExecutor.run; progress does not go back when a run is replayed. */
  async run(inputs: Inputs, options: RunOptions = {}): Promise<RunResult> {
    const replayable = options.onProgress ? { ...options, onProgress: neverLess(options.onProgress) } : options;
    const executor = await this.#loaded();
    try {
      return await executor.run(inputs, replayable);
    } catch (error) {
      if (!(error instanceof GyrusError) || error.failure !== "device-lost" || this.#destroyed) throw error;
      if (this.plan.states.length > 0) throw error; // they went with the device
      if (options.signal?.aborted) throw new GyrusError("cancelled", "[run] cancelled while the device was lost");
      this.#giveUp(executor, error);
      return (await this.#loaded()).run(inputs, replayable);
    }
  }

  /** Frees everything; later calls fail. The devices stay the caller's. */
  destroy(): void {
    this.#destroyed = true;
    this.#current?.destroy();
  }

  #loaded(): Promise<PlanExecutor> {
    if (!this.#executor) {
      this.#executor = this.#load();
      this.#executor.catch(() => (this.#executor = null)); // the next call tries again
    }
    return this.#executor;
  }

  async #load(): Promise<PlanExecutor> {
    if (this.#destroyed) throw new GyrusError("cancelled", "[run] the executor was destroyed; create a new one");
    const device = await this.#options.requestDevice();
    const executor = await PlanExecutor.create(device, this.plan, this.#options);
    if (this.#destroyed) executor.destroy();
    return (this.#current = executor);
  }

  // Of several runs that a loss hit, the first comes here in time; the others find the next executor on its way.
  #giveUp(executor: PlanExecutor, loss: GyrusError): void {
    if (this.#current !== executor) return;
    this.#options.onNotice?.(`${loss.message}; opening a new one and running again`);
    executor.destroy();
    this.#current = null;
    this.#executor = null;
  }
}
