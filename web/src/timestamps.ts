// GPU times of passes: queries, resolved and read back after the run.

import { scopeError, type DeviceState } from "./device-state.js";
import type { Allocations } from "./allocations.js";
import type { Readback } from "./staging.js";

const setSize = 4096; // queries; the most a set may have

export class Timestamps {
  #state: DeviceState;
  #allocations: Allocations;
  #sets: GPUQuerySet[] = [];
  #resolved: GPUBuffer | null = null;
  readonly count: number;

  constructor(state: DeviceState, allocations: Allocations, count: number) {
    this.#state = state;
    this.#allocations = allocations;
    this.count = count;
    for (let at = 0; at < count; at += setSize)
      this.#sets.push(state.device.createQuerySet({ type: "timestamp", count: Math.min(setSize, count - at) }));
  }

  /** For a pass whose begin or end, or both, are to be taken; both in the same set: an even number and the next. */
  writes(begin: number | null, end: number | null): GPUComputePassTimestampWrites {
    const querySet = this.#sets[Math.floor((begin ?? end ?? 0) / setSize)]!;
    return {
      querySet,
      ...(begin === null ? {} : { beginningOfPassWriteIndex: begin % setSize }),
      ...(end === null ? {} : { endOfPassWriteIndex: end % setSize }),
    };
  }

  /** All times, in nanoseconds since the first; a driver that loses or reorders some gives 0 for them. */
  async read(readback: Readback): Promise<number[]> {
    const usage = GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC;
    const { buffer, ready } = this.#allocations.create("timestamps", this.count * 8, usage);
    this.#resolved = buffer;
    await ready;
    const { error } = this.#state.scoped(() => {
      const encoder = this.#state.device.createCommandEncoder({ label: "timestamps" });
      this.#sets.forEach((set, i) => encoder.resolveQuerySet(set, 0, set.count, buffer, i * setSize * 8));
      this.#state.device.queue.submit([encoder.finish()]);
    });
    const found = await error;
    if (found) throw scopeError(found, "reading GPU times");
    const data = new Uint8Array(this.count * 8);
    await readback.read([{ buffer, offset: 0, size: data.length, data }]);
    const times = new BigUint64Array(data.buffer);
    return [...times].map((time) => (time > times[0]! ? Number(time - times[0]!) : 0));
  }

  destroy(): void {
    for (const set of this.#sets) set.destroy();
    if (this.#resolved) this.#allocations.destroy(this.#resolved);
  }
}
