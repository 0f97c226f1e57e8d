// The buffers of one executor: created under error scopes, counted, freed together.

import { scopeError, type DeviceState, type ScopeError } from "./device-state.js";
import { outOfMemory, type GyrusError } from "./errors.js";

export class Allocations {
  #state: DeviceState;
  #live = new Set<GPUBuffer>();
  #bytes = 0;

  constructor(state: DeviceState) {
    this.#state = state;
  }

  /** Bytes of the buffers that live. */
  get bytes(): number {
    return this.#bytes;
  }

  get count(): number {
    return this.#live.size;
  }

  /** A buffer, and a promise that rejects with "over-limits" or "device" where the device refused it. */
  create(label: string, size: number, usage: GPUBufferUsageFlags): { buffer: GPUBuffer; ready: Promise<void> } {
    const { value: buffer, error } = this.#state.scoped(() => this.#state.device.createBuffer({ label, size, usage }));
    this.#live.add(buffer);
    this.#bytes += size;
    const ready = error.then((found) => {
      if (found) throw refusal(found, label, size);
    });
    ready.catch(() => {}); // also heard by whoever awaits it
    return { buffer, ready };
  }

  destroy(buffer: GPUBuffer): void {
    if (this.disown(buffer)) buffer.destroy();
  }

  /** Leaves a buffer to the caller; answers whether it was one of these. */
  disown(buffer: GPUBuffer): boolean {
    const mine = this.#live.delete(buffer);
    if (mine) this.#bytes -= buffer.size;
    return mine;
  }

  destroyAll(): void {
    for (const buffer of [...this.#live]) this.destroy(buffer);
  }
}

function refusal(error: ScopeError, label: string, size: number): GyrusError {
  if (error.kind !== "out-of-memory") return scopeError(error, `allocating ${size} bytes for '${label}'`);
  const mib = (size / 2 ** 20).toFixed(1);
  return outOfMemory(`[device] the device refused ${mib} MiB for '${label}': other programs may use its memory`);
}
