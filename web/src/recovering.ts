// An executor that survives the loss of its device.

import { GyrusError } from "./errors.js";
import { PlanExecutor, type ExecutorOptions } from "./executor.js";
import type { Plan } from "./plan.js";
import type { Progress, RunOptions, RunResult, TensorValue } from "./types.js";

export interface RecoveringOptions extends ExecutorOptions {
  /** Opens a device: called for the first one and after each loss. An adapter that served once must not be used again. */
  requestDevice: () => Promise<GPUDevice>;
  /** Told, in one line, what was done about a loss. */
  onNotice?: (line: string) => void;
}

// Calls on with what never goes back, though a replay starts again at 0.
function neverLess(onProgress: (progress: Progress) => void): (progress: Progress) => void {
  let most = 0;
  return (progress) => {
    most = Math.max(most, progress.fraction);
    onProgress({ ...progress, fraction: most });
  };
}

/**
 * A {@link PlanExecutor} that opens a new device when its own is lost, loads the plan there and runs again what was under
 * way. A run that loses a second device rejects with "device-lost".
 */
export class RecoveringExecutor {
  readonly plan: Plan;
  #options: RecoveringOptions;
  #executor: Promise<PlanExecutor>;
  #current: PlanExecutor | null = null;
  #destroyed = false;

  private constructor(plan: Plan, options: RecoveringOptions) {
    this.plan = plan;
    this.#options = options;
    this.#executor = this.#load();
  }

  static async create(plan: Plan, options: RecoveringOptions): Promise<RecoveringExecutor> {
    const executor = new RecoveringExecutor(plan, options);
    await executor.#executor;
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
  async run(inputs: Record<string, TensorValue>, options: RunOptions = {}): Promise<RunResult> {
    const replayable = options.onProgress ? { ...options, onProgress: neverLess(options.onProgress) } : options;
    const loading = this.#executor;
    try {
      return await (await loading).run(inputs, replayable);
    } catch (error) {
      if (!(error instanceof GyrusError) || error.code !== "device-lost" || this.#destroyed) throw error;
      // The first of several runs that were hit opens the new device, the others wait for it.
      if (this.#executor === loading) this.#executor = this.#recover(error);
      if (options.signal?.aborted) throw new GyrusError("cancelled", "[run] cancelled while the device was lost");
      return (await this.#executor).run(inputs, replayable);
    }
  }

  /** Frees everything; later calls fail. The devices stay the caller's. */
  destroy(): void {
    this.#destroyed = true;
    this.#current?.destroy();
    this.#executor.catch(() => {});
  }

  async #load(): Promise<PlanExecutor> {
    const device = await this.#options.requestDevice();
    const executor = await PlanExecutor.create(device, this.plan, this.#options);
    if (this.#destroyed) executor.destroy();
    return (this.#current = executor);
  }

  async #recover(loss: GyrusError): Promise<PlanExecutor> {
    this.#options.onNotice?.(`${loss.message}; opening a new one and running again`);
    this.#current?.destroy();
    this.#current = null;
    return this.#load();
  }
}
