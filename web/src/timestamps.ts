// GPU times of passes: queries, resolved on the last submission of a run and read back with its outputs.

import type { Allocations } from "./allocations.js";
import type { DeviceState } from "./device-state.js";
import type { Read } from "./staging.js";

const setSize = 4096; // queries; the most a set may have

export class Timestamps {
  #allocations: Allocations;
  #sets: GPUQuerySet[] = [];
  #resolved: GPUBuffer;
  #count: number;
  readonly ready: Promise<void>;

  constructor(state: DeviceState, allocations: Allocations, count: number) {
    this.#allocations = allocations;
    for (let at = 0; at < count; at += setSize)
      this.#sets.push(state.device.createQuerySet({ type: "timestamp", count: Math.min(setSize, count - at) }));
    this.#count = count;
    const usage = GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC;
    const { buffer, ready } = allocations.create("timestamps", count * 8, usage);
    this.#resolved = buffer;
    this.ready = ready;
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

  resolve(encoder: GPUCommandEncoder): void {
    this.#sets.forEach((set, i) => encoder.resolveQuerySet(set, 0, set.count, this.#resolved, i * setSize * 8));
  }

  /** What is to be read back after resolve(), anew for each run. */
  read(): Read {
    const data = new Uint8Array(this.#count * 8);
    return { buffer: this.#resolved, offset: 0, size: data.length, data };
  }

  /** All times that were read, in nanoseconds since the first; a driver that loses or reorders some gives 0 for them. */
  static times({ data }: Read): number[] {
    const times = new BigUint64Array(data.buffer, data.byteOffset, data.length / 8);
    return [...times].map((time) => (time > times[0]! ? Number(time - times[0]!) : 0));
  }

  destroy(): void {
    for (const set of this.#sets) set.destroy();
    this.#allocations.destroy(this.#resolved);
  }
}
