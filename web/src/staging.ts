// Bytes between host and device, in bounded pieces, so that neither side's staging memory grows with the tensors.

import { scopeError, type DeviceState } from "./device-state.js";
import { GyrusError } from "./errors.js";
import type { Allocations } from "./allocations.js";
import { oneLine } from "./plan.js";

const pieceBytes = 16 * 2 ** 20; // of one write or readback
const flightBytes = 64 * 2 ** 20; // of writes on their way

/** `size` bytes for a buffer; `data` may be up to 3 bytes short of them, which become zeros. */
export interface Write {
  buffer: GPUBuffer;
  offset: number;
  size: number;
  data: Uint8Array;
}

/** `size` bytes of a buffer, of which the first data.length are wanted. */
export interface Read {
  buffer: GPUBuffer;
  offset: number;
  size: number;
  data: Uint8Array;
}

interface Part<R> {
  range: R;
  at: number; // bytes into the range
  size: number;
}

// Cuts ranges into loads of at most `capacity` bytes, a multiple of 4.
function loads<R extends { size: number }>(ranges: R[], capacity: number): Part<R>[][] {
  const all: Part<R>[][] = [];
  let free = 0;
  for (const range of ranges) {
    for (let at = 0; at < range.size; ) {
      if (free === 0) {
        all.push([]);
        free = capacity;
      }
      const size = Math.min(range.size - at, free);
      all.at(-1)!.push({ range, at, size });
      at += size;
      free -= size;
    }
  }
  return all;
}

function writePart(queue: GPUQueue, { range, at, size }: Part<Write>): void {
  const { buffer, offset, data } = range;
  const given = Math.max(0, Math.min(size, data.length - at));
  const whole = given - (given % 4);
  if (whole > 0) queue.writeBuffer(buffer, offset + at, data as Uint8Array<ArrayBuffer>, at, whole);
  if (whole === size) return;
  const rest = new Uint8Array(size - whole);
  rest.set(data.subarray(at + whole, at + given));
  queue.writeBuffer(buffer, offset + at + whole, rest);
}

export async function upload(state: DeviceState, doing: string, writes: Write[]): Promise<void> {
  let flying = 0;
  for (const parts of loads(writes, pieceBytes)) {
    const { error } = state.scoped(() => parts.forEach((part) => writePart(state.device.queue, part)));
    const found = await error;
    if (found) throw scopeError(found, doing);
    flying += pieceBytes;
    if (flying < flightBytes) continue;
    await state.guard(state.device.queue.onSubmittedWorkDone());
    flying = 0;
  }
}

/** Bytes that reads take in a staging buffer. */
export function readBytes(reads: Read[]): number {
  return reads.reduce((sum, read) => sum + read.size, 0);
}

/** Reads through staging buffers, which stay for the next time: one, or where runs overlap, two. */
export class Readback {
  #state: DeviceState;
  #allocations: Allocations;
  #free: GPUBuffer[] = [];

  constructor(state: DeviceState, allocations: Allocations) {
    this.#state = state;
    this.#allocations = allocations;
  }

  async read(reads: Read[]): Promise<void> {
    const staging = await this.borrow(reads);
    if (!staging) return;
    for (const parts of loads(reads, staging.size)) {
      const { error } = this.#state.scoped(() => {
        const encoder = this.#state.device.createCommandEncoder({ label: "readback" });
        encodeParts(encoder, staging, parts);
        this.#state.device.queue.submit([encoder.finish()]);
      });
      const found = await error;
      if (found) throw scopeError(found, "reading back");
      await this.#take(staging, parts);
    }
    this.giveBack(staging);
  }

  /** A staging buffer with room for a load of these reads; null where there is nothing to read. */
  async borrow(reads: Read[]): Promise<GPUBuffer | null> {
    const size = Math.min(readBytes(reads), pieceBytes, this.#state.device.limits.maxBufferSize);
    if (size === 0) return null;
    const staging = this.#free.pop();
    if (staging && staging.size >= size) return staging;
    if (staging) this.#allocations.destroy(staging);
    const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
    const { buffer, ready } = this.#allocations.create("staging", size, usage);
    await ready;
    return buffer;
  }

  /** What was read through it is there. */
  giveBack(staging: GPUBuffer): void {
    this.#free.push(staging);
  }

  /** It may still be on its way. */
  drop(staging: GPUBuffer): void {
    this.#allocations.destroy(staging);
  }

  /** Reads that ride on a submission of the caller's: encode() into it, take() behind it. One load at most. */
  encode(encoder: GPUCommandEncoder, staging: GPUBuffer, reads: Read[]): void {
    for (const parts of loads(reads, pieceBytes)) encodeParts(encoder, staging, parts);
  }

  async take(staging: GPUBuffer, reads: Read[]): Promise<void> {
    for (const parts of loads(reads, pieceBytes)) await this.#take(staging, parts);
  }

  async #take(staging: GPUBuffer, parts: Part<Read>[]): Promise<void> {
    const filled = parts.reduce((sum, part) => sum + part.size, 0);
    await this.#state.guard(staging.mapAsync(GPUMapMode.READ, 0, filled)).catch((failure: Error) => {
      if (failure instanceof GyrusError) throw failure;
      throw new GyrusError("device", `[device] the staging buffer could not be mapped: ${oneLine(failure.message)}`);
    });
    const mapped = new Uint8Array(staging.getMappedRange(0, filled));
    let from = 0;
    for (const { range, at, size } of parts) {
      const wanted = Math.min(size, range.data.length - at);
      if (wanted > 0) range.data.set(mapped.subarray(from, from + wanted), at);
      from += size;
    }
    staging.unmap();
  }
}

function encodeParts(encoder: GPUCommandEncoder, staging: GPUBuffer, parts: Part<Read>[]): void {
  let filled = 0;
  for (const { range, at, size } of parts) {
    encoder.copyBufferToBuffer(range.buffer, range.offset + at, staging, filled, size);
    filled += size;
  }
}
