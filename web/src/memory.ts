// States of plans, by name: tensors that stay on the device from run to run. Executors of several plans may share one.

import { Allocations } from "./allocations.js";
import { DeviceState } from "./device-state.js";
import { GyrusError } from "./errors.js";
import { portBytes, type Plan, type PlanState } from "./plan.js";
import { readSafetensors, writeSafetensors } from "./safetensors.js";
import { Readback, upload, type Write } from "./staging.js";
import { checkTensor, show } from "./tensors.js";
import type { DType, TensorValue } from "./types.js";

/** A state as it lies on the device: its bytes in buffers, one after another. */
interface Resident {
  dtype: DType;
  shape: number[];
  sizes: number[]; // of the buffers
  buffers: GPUBuffer[];
  start: Uint8Array | null; // first contents; null: zeros
  defined: boolean;
}

/** A part of a state, in elements of the row-major tensor. */
export interface StateRange {
  offset: number;
  count: number;
}

const says = ["the state takes", "the tensor"] as const;

function invalid(subject: string, message: string): GyrusError {
  return new GyrusError("invalid-input", `[${subject}] ${message}`);
}

/**
 * Named states on a device. Every executor that is created with it brings the states of its plan: a name that is not
 * there yet is allocated and gets its start, one that is there is shared and must have the same type and shape.
 *
 * ```ts
 * const memory = new Memory(device);
 * const step = await PlanExecutor.create(device, trainingPlan, { memory });
 * const infer = await PlanExecutor.create(device, inferencePlan, { memory });
 * ```
 *
 * Runs of all its executors and calls of its own take turns. A run that fails after it may have changed states
 * (GyrusError.stateChanged) leaves those that its plan writes undefined: runs with them and reads are refused until they
 * are written as a whole, reset or loaded. Buffers are freed when the memory and the last of its executors are destroyed.
 */
export class Memory {
  readonly device: GPUDevice;
  #state: DeviceState;
  #allocations: Allocations;
  #readback: Readback;
  #residents = new Map<string, Resident>();
  #users = 1; // this object, and executors
  #open = true;
  #last: Promise<unknown> = Promise.resolve(); // settles when what was asked for so far has ended

  constructor(device: GPUDevice) {
    this.device = device;
    this.#state = DeviceState.of(device);
    this.#allocations = new Allocations(this.#state);
    this.#readback = new Readback(this.#state, this.#allocations);
  }

  /** Bytes of all states on the device. */
  get bytes(): number {
    return [...this.#residents.values()].reduce((sum, { sizes }) => sizes.reduce((a, b) => a + b, sum), 0);
  }

  get names(): string[] {
    return [...this.#residents.keys()].sort();
  }

  /** States that a failed run left so. */
  get undefined(): string[] {
    return this.names.filter((name) => !this.#find(name).defined);
  }

  has(name: string): boolean {
    return this.#residents.has(name);
  }

  /** The type and shape of a state. */
  describe(name: string): { dtype: DType; shape: number[] } {
    const { dtype, shape } = this.#find(name);
    return { dtype, shape: [...shape] };
  }

  /** A state, or a range of its elements (a tensor of one axis). */
  read(name: string, range?: StateRange): Promise<TensorValue> {
    return this.#inTurn(() => this.#read(name, range));
  }

  /** Replaces a state, or a range of its elements by a tensor of one axis. */
  write(name: string, value: TensorValue, range?: StateRange): Promise<void>;
  /** Replaces several; all are checked before the first is written. */
  write(values: Record<string, TensorValue>): Promise<void>;
  write(what: string | Record<string, TensorValue>, value?: TensorValue, range?: StateRange): Promise<void> {
    return this.#inTurn(() => (typeof what === "string" ? this.#write(what, value!, range) : this.#writeAll(what)));
  }

  /** Replaces bytes of a state from `offset` on; for states that come in pieces, since they are large. */
  writeBytes(name: string, offset: number, bytes: Uint8Array): Promise<void> {
    return this.#inTurn(() => this.#writeBytes(name, offset, bytes));
  }

  /** Gives states their first contents again: those named, or all. */
  reset(names: string[] = this.names): Promise<void> {
    return this.#inTurn(async () => {
      const all = names.map((name) => this.#find(name));
      for (const resident of all) await this.#fill(resident);
    });
  }

  /** States as the bytes of a safetensors file: those named, or all. */
  save(names: string[] = this.names): Promise<Uint8Array<ArrayBuffer>> {
    return this.#inTurn(async () => {
      const tensors: Record<string, TensorValue> = {};
      for (const name of names) tensors[name] = await this.#read(name);
      return writeSafetensors(tensors);
    });
  }

  /** Replaces states by the tensors of a safetensors file; all are checked before the first is written. */
  load(file: Uint8Array): Promise<void> {
    return this.#inTurn(async () => this.#writeAll(readSafetensors(file)));
  }

  /** Frees the states, as soon as no executor uses them; twice does no harm. */
  destroy(): void {
    if (this.#open) this.release();
    this.#open = false;
  }

  /** For executors: `body` when all that was asked for before has ended. */
  inTurn<T>(body: () => Promise<T>): Promise<T> {
    const result = this.#last.then(body);
    this.#last = result.catch(() => {});
    return result;
  }

  /** For executors: throws where a state is undefined. */
  checkDefined(names: string[]): void {
    const name = names.find((each) => !this.#find(each).defined);
    if (name === undefined) return;
    throw invalid(name, "the state is undefined since a run failed that writes it: write it as a whole, reset or load it");
  }

  /** For executors: a run failed that writes these. */
  leaveUndefined(names: string[]): void {
    for (const name of names) this.#residents.get(name)!.defined = false;
  }

  /** For executors: throws where a state of the plan is there already and is another. */
  check(plan: Plan): void {
    for (const state of plan.states) checkShared(state, this.#residents.get(state.name));
  }

  /** For executors: the buffers of a plan's states, by their place in the plan. What is new is allocated and filled. */
  async attach(plan: Plan): Promise<Map<number, GPUBuffer>> {
    ++this.#users;
    try {
      return await this.#inTurn(() => this.#attach(plan));
    } catch (error) {
      this.release();
      throw error;
    }
  }

  /** For executors: ends what attach began. */
  release(): void {
    if (--this.#users > 0) return;
    this.#allocations.destroyAll();
    this.#residents.clear();
  }

  #inTurn<T>(body: () => Promise<T>): Promise<T> {
    return this.inTurn(async () => {
      if (this.#users === 0) throw new GyrusError("cancelled", "[memory] was destroyed; create a new one");
      this.#state.check();
      return body();
    });
  }

  #find(name: string): Resident {
    const found = this.#residents.get(name);
    if (found) return found;
    throw invalid(name, `there is no such state; there are: ${this.names.join(", ") || "none"}`);
  }

  async #attach(plan: Plan): Promise<Map<number, GPUBuffer>> {
    const fresh: [string, Resident][] = [];
    const buffers = new Map<number, GPUBuffer>();
    this.check(plan);
    try {
      for (const state of plan.states) {
        let resident = this.#residents.get(state.name);
        if (!resident) fresh.push([state.name, (resident = await this.#allocate(plan, state))]);
        state.pieces.forEach(({ range }, i) => buffers.set(range.buffer, resident.buffers[i]!));
      }
      for (const [, resident] of fresh) await this.#fill(resident);
    } catch (error) {
      for (const [, { buffers: made }] of fresh) made.forEach((buffer) => this.#allocations.destroy(buffer));
      throw error;
    }
    for (const [name, resident] of fresh) this.#residents.set(name, resident);
    return buffers;
  }

  async #allocate(plan: Plan, { name, dtype, shape, pieces, start }: PlanState): Promise<Resident> {
    const { COPY_DST, COPY_SRC, STORAGE } = GPUBufferUsage;
    const sizes = pieces.map(({ range }) => range.size);
    const made = sizes.map((size) => this.#allocations.create(name, size, STORAGE | COPY_SRC | COPY_DST));
    const buffers = made.map(({ buffer }) => buffer);
    try {
      await Promise.all(made.map(({ ready }) => ready));
    } catch (error) {
      for (const buffer of buffers) this.#allocations.destroy(buffer);
      throw error;
    }
    const bytes = sizes.reduce((sum, size) => sum + size, 0);
    const first = start === null ? null : plan.weights.subarray(start, start + bytes);
    return { dtype, shape, sizes, buffers, start: first, defined: true };
  }

  async #fill(resident: Resident): Promise<void> {
    const { buffers, sizes, start } = resident;
    const none = new Uint8Array(0); // what is not given becomes zero
    let at = 0;
    const writes = buffers.map((buffer, i): Write => {
      const size = sizes[i]!;
      return { buffer, offset: 0, size, data: start ? start.subarray(at, (at += size)) : none };
    });
    await upload(this.#state, "filling states", writes);
    resident.defined = true;
  }

  async #read(name: string, range?: StateRange): Promise<TensorValue> {
    const resident = this.#find(name);
    this.checkDefined([name]);
    const { dtype, shape } = resident;
    const { begin, end } = bytesOf(name, resident, range);
    const data = new Uint8Array(end - begin);
    const reads = cut(resident, begin, end).map(({ buffer, from, to, at }) => {
      // Copies are of whole words; what is beyond the range is dropped.
      const offset = from - (from % 4);
      const size = Math.ceil((to - offset) / 4) * 4;
      return { part: { buffer, offset, size, data: new Uint8Array(size) }, skip: from - offset, at, length: to - from };
    });
    await this.#readback.read(reads.map(({ part }) => part));
    for (const { part, skip, at, length } of reads) data.set(part.data.subarray(skip, skip + length), at);
    return { dtype, shape: range ? [range.count] : [...shape], data };
  }

  async #writeAll(values: Record<string, TensorValue>): Promise<void> {
    for (const [name, value] of Object.entries(values)) checkTensor(name, this.#find(name), value, says);
    for (const [name, value] of Object.entries(values)) await this.#write(name, value);
  }

  async #write(name: string, value: TensorValue, range?: StateRange): Promise<void> {
    const resident = this.#find(name);
    const { begin, end } = bytesOf(name, resident, range);
    if (range) this.checkDefined([name]);
    checkTensor(name, range ? { ...resident, shape: [range.count] } : resident, value, says);
    const writes: Write[] = [];
    for (const { buffer, from, to, at } of cut(resident, begin, end)) {
      const data = value.data.subarray(at, at + to - from);
      writes.push({ buffer, ...(await this.#words(buffer, from, to, data)) });
    }
    await upload(this.#state, `writing the state '${name}'`, writes);
    resident.defined = true;
  }

  async #writeBytes(name: string, offset: number, bytes: Uint8Array): Promise<void> {
    const resident = this.#find(name);
    const total = resident.sizes.reduce((sum, size) => sum + size, 0);
    if (!Number.isSafeInteger(offset) || offset < 0 || offset + bytes.length > total)
      throw invalid(name, `bytes ${offset} to ${offset + bytes.length} are not among the ${total} of this state`);
    this.checkDefined([name]);
    const writes: Write[] = [];
    for (const { buffer, from, to, at } of cut(resident, offset, offset + bytes.length))
      writes.push({ buffer, ...(await this.#words(buffer, from, to, bytes.subarray(at, at + to - from))) });
    await upload(this.#state, `writing the state '${name}'`, writes);
  }

  // Whole words for bytes [from, to): what shares a word with them is read first and written back.
  async #words(
    buffer: GPUBuffer, from: number, to: number, data: Uint8Array,
  ): Promise<{ offset: number; size: number; data: Uint8Array }> {
    const offset = from - (from % 4);
    const size = Math.ceil((to - offset) / 4) * 4;
    if (offset === from && size === to - from) return { offset, size, data };
    const whole = new Uint8Array(size);
    await this.#readback.read([{ buffer, offset, size, data: whole }]);
    whole.set(data, from - offset);
    return { offset, size, data: whole };
  }
}

// A state that is there already must be the same in the plan.
function checkShared(state: PlanState, resident: Resident | undefined): void {
  if (!resident) return;
  const [want, have] = [show(state.dtype, state.shape), show(resident.dtype, resident.shape)];
  if (want !== have) throw invalid(state.name, `the plan's state is ${want}, the memory has ${have}`);
  const sizes = state.pieces.map(({ range }) => range.size).join();
  if (sizes !== resident.sizes.join())
    throw invalid(state.name, "the plan cuts this state in another way than the memory: plan both for the same limits");
}

// Bytes of a range of elements, of all without one.
function bytesOf(name: string, resident: Resident, range?: StateRange): { begin: number; end: number } {
  const total = portBytes({ ...resident, name, pieces: [] });
  if (!range) return { begin: 0, end: total };
  const { offset, count } = range;
  const elements = resident.shape.reduce((product, extent) => product * extent, 1);
  if (!Number.isSafeInteger(offset) || !Number.isSafeInteger(count) || offset < 0 || count < 0 ||
      offset + count > elements)
    throw invalid(name, `elements ${offset} to ${offset + count} are not among the ${elements} of this state`);
  const size = elements === 0 ? 0 : total / elements;
  return { begin: offset * size, end: (offset + count) * size };
}

// The parts of buffers that hold bytes [begin, end) of a state: [from, to) of the buffer, `at` bytes behind begin.
function cut({ buffers, sizes }: Resident, begin: number, end: number) {
  const parts: { buffer: GPUBuffer; from: number; to: number; at: number }[] = [];
  let first = 0; // byte of the state that the buffer begins with
  buffers.forEach((buffer, i) => {
    const from = Math.max(begin, first) - first;
    const to = Math.min(end, first + sizes[i]!) - first;
    if (from < to) parts.push({ buffer, from, to, at: first + from - begin });
    first += sizes[i]!;
  });
  return parts;
}
