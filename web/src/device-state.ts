// What all executors of a device share: whether it is lost, its pace, its pipelines; and error scopes.

import { deviceLost, GyrusError, outOfMemory } from "./errors.js";
import { isSoftware } from "./device.js";
import { Pace } from "./pace.js";
import { oneLine } from "./plan.js";

const lossDelay = 100; // ms; a failed call is often heard of before the loss that made it fail

/** A compiled kernel and the layout of its bind groups. */
export interface Pipeline {
  pipeline: GPUComputePipeline;
  layout: GPUBindGroupLayout;
}

export type ScopeKind = "validation" | "out-of-memory" | "internal";
export interface ScopeError {
  kind: ScopeKind;
  message: string;
}

const states = new WeakMap<GPUDevice, DeviceState>();

export class DeviceState {
  readonly device: GPUDevice;
  readonly pace: Pace;
  readonly pipelines = new Map<string, Promise<Pipeline>>();
  #lost: GyrusError | null = null;
  #waiting = new Set<(error: GyrusError) => void>();

  static of(device: GPUDevice): DeviceState {
    let state = states.get(device);
    if (!state) states.set(device, (state = new DeviceState(device)));
    return state;
  }

  private constructor(device: GPUDevice) {
    this.device = device;
    this.pace = new Pace(isSoftware(device.adapterInfo));
    void device.lost.then((info) => {
      const reason = oneLine(info.message) || "the driver gave no reason";
      this.#lost = deviceLost(`[device] the device was lost (${info.reason}): ${reason}`);
      this.pipelines.clear();
      for (const reject of this.#waiting) reject(this.#lost);
      this.#waiting.clear();
    });
  }

  get lost(): boolean {
    return this.#lost !== null;
  }

  /** Throws where the device is lost. */
  check(): void {
    if (this.#lost) throw this.#lost;
  }

  /** `promise`, or a rejection as soon as the device is lost: some promises never settle then. */
  guard<T>(promise: Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#lost) reject(this.#lost);
      else this.#waiting.add(reject);
      promise.then(
        (value) => {
          this.#waiting.delete(reject);
          resolve(value);
        },
        (error) => {
          setTimeout(() => {
            this.#waiting.delete(reject);
            reject(error);
          }, error instanceof GyrusError ? 0 : lossDelay);
        },
      );
    });
  }

  /**
   * Runs `body`, which must not wait for anything, inside scopes for every kind of error. The scopes are closed before
   * this returns, so that no other work falls into them; the promise tells the first error.
   */
  scoped<T>(body: () => T): { value: T; error: Promise<ScopeError | null> } {
    const kinds: ScopeKind[] = ["validation", "out-of-memory", "internal"];
    for (const kind of kinds) this.device.pushErrorScope(kind);
    const pop = () =>
      Promise.all([...kinds].reverse().map(async (kind): Promise<ScopeError | null> => {
        const error = await this.device.popErrorScope();
        return error && { kind, message: oneLine(error.message).slice(0, 600) };
      }));
    let value: T;
    try {
      value = body();
    } catch (error) {
      pop().catch(() => {});
      throw error;
    }
    const error = this.guard(pop()).then((found) => found.find((e) => e !== null) ?? null);
    error.catch(() => {}); // also heard by whoever awaits it
    return { value, error };
  }
}

/** The error that a scope's finding becomes. */
export function scopeError(error: ScopeError, doing: string): GyrusError {
  const line = `[device] ${error.kind} error while ${doing}: ${error.message}`;
  return error.kind === "out-of-memory" ? outOfMemory(line) : new GyrusError("device", line);
}
