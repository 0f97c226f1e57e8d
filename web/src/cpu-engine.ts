// The module for the processor: the kernels of the command line on one thread, or on several where the page is isolated.
// An engine holds what its networks need until it is closed; the module's memory never shrinks, so that engines are made
// for a run or a few and the compiled module is kept.

import { mostThreads, sharedMemory, Threads, type MakeThread } from "./cpu-threads.js";
import { GyrusError, outOfMemory } from "./errors.js";
import { emptyTensor, elements, narrow, widen } from "./host-tensors.js";
import { show } from "./tensors.js";
import type { DType, HostPort, HostTensor, NamedBytes, PlanRequest, Progress } from "./types.js";
import { compileWasm, Wasm, type WasmHost, type WasmSource } from "./wasm.js";

export interface CpuEngineOptions {
  /** The module's bytes, a response that brings them, or where they lie; gyrus-cpu.wasm beside this script unless given. */
  wasm?: WasmSource;
  /** How many, the caller among them; all that the machine has unless given. */
  threads?: number;
  /** Makes the worker of a thread, with this package's worker script. Without it there is one thread. */
  thread?: MakeThread;
}

export interface CpuRunOptions {
  signal?: AbortSignal;
  onProgress?: (progress: Progress) => void;
  /** Asked within steps, where no message gets in: whether to stop. */
  stopped?: () => boolean;
}

export interface CpuVolumeRequest extends Pick<PlanRequest, "spatial" | "input" | "clamp"> {
  halves?: boolean;
}

export interface CpuNetworkFacts {
  flops: number;
  bytes: number;
  steps: number;
  generic: number; // share of the work in steps without a kernel
  inputs: HostPort[];
  outputs: HostPort[];
  captures: HostPort[];
}

// Between steps messages are let in as often.
const SLICE_MS = 100;

// What the module's C library asks for. `main`: not for threads, which start none and have their state from elsewhere.
function host(memory: WebAssembly.Memory, tick: (fraction: number) => number, main: Threads | null): WasmHost {
  const PAGE = 65536;
  const AGAIN = 6; // EAGAIN of the C library: no thread to be had
  const resize = (bytes: number) => {
    try {
      memory.grow(Math.max(0, Math.ceil(((bytes >>> 0) - memory.buffer.byteLength) / PAGE)));
      return 1;
    } catch {
      return 0;
    }
  };
  const clock = (_id: number, at: number) => {
    const now = performance.timeOrigin + performance.now();
    const time = new DataView(memory.buffer, at >>> 0, 8);
    time.setInt32(0, now / 1000, true);
    time.setInt32(4, (now % 1000) * 1e6, true);
    return 0;
  };
  const copy = (to: number, from: number, bytes: number) =>
    void new Uint8Array(memory.buffer).copyWithin(to >>> 0, from >>> 0, (from >>> 0) + (bytes >>> 0));
  const stop = () => {
    throw new GyrusError("device", "[cpu] the module stopped; reload the page");
  };
  return {
    memory,
    start: main ? "__wasm_call_ctors" : null,
    functions: (wasm) => ({
      gyrus: { tick },
      env: {
        emscripten_get_now: () => performance.timeOrigin + performance.now(),
        clock_gettime: clock,
        __clock_gettime: clock,
        emscripten_memcpy_big: copy,
        emscripten_resize_heap: resize,
        emscripten_check_blocking_allowed: () => undefined,
        _emscripten_default_pthread_stack_size: () => 1 << 20,
        __emscripten_init_main_thread_js: (self: number) => {
          wasm().call("gyrus_thread_main", self, 1);
          wasm().call("emscripten_tls_init");
        },
        __pthread_create_js: (self: number, _attributes: number, start: number, argument: number) =>
          main ? main.create(wasm(), self >>> 0, start, argument >>> 0) : AGAIN,
        abort: stop,
        exit: stop,
      },
    }),
  };
}

/** An instance of the module in the memory of another one, for a thread. */
export function threadOf(module: WebAssembly.Module, memory: WebAssembly.Memory): Promise<Wasm> {
  return Wasm.load(module, host(memory, () => 0, null));
}

export class CpuEngine {
  readonly threads: number;
  #wasm: Wasm;
  #workers: Threads;
  #tick: { heard: (fraction: number) => number };

  private constructor(wasm: Wasm, workers: Threads, tick: { heard: (fraction: number) => number }) {
    this.#wasm = wasm;
    this.#workers = workers;
    this.#tick = tick;
    this.threads = wasm.check("gyrus_threads_start", 1 + workers.count);
  }

  static async load(options: CpuEngineOptions = {}): Promise<CpuEngine> {
    const module = await compileWasm(options.wasm ?? new URL("./gyrus-cpu.wasm", import.meta.url));
    const memory = sharedMemory();
    const { thread, threads = mostThreads() } = options;
    const workers = await Threads.open(thread ? threads - 1 : 0, thread ?? null, module, memory);
    try {
      const tick = { heard: (_fraction: number) => 0 };
      const wasm = await Wasm.load(module, host(memory, (fraction) => tick.heard(fraction), workers));
      return new CpuEngine(wasm, workers, tick);
    } catch (error) {
      workers.close();
      throw error;
    }
  }

  get memoryBytes(): number {
    return this.#wasm.memoryBytes;
  }

  /** A model of layers for volumes of these extents: "image", "scale" and "shift" to "labels". `halves`: maps are f16. */
  openVolume(files: NamedBytes[], name: string, main: string, request: CpuVolumeRequest): CpuNetwork {
    const folder = this.#folder(files, name, main);
    try {
      const text = JSON.stringify({ halves: false, ...request });
      return new CpuNetwork(this.#wasm, this.#tick, this.#wasm.check("gyrus_cpu_volume", folder, text));
    } finally {
      this.#wasm.call("gyrus_files_close", folder);
    }
  }

  /** An ONNX file with what it refers to, or a model's folder, for inputs of the shapes that are asked for. */
  openFile(files: NamedBytes[], name: string, main: string): CpuFile {
    return new CpuFile(this.#wasm, this.#tick, this.#wasm.check("gyrus_network_open", this.#folder(files, name, main)));
  }

  /** Ends its threads; its memory goes with the last network. */
  close(): void {
    this.#workers.close();
  }

  #folder(files: NamedBytes[], name: string, main: string): number {
    const folder = this.#wasm.check("gyrus_files_new", name, main);
    try {
      for (const file of files) this.#wasm.check("gyrus_files_add", folder, file.name, file.bytes);
    } catch (error) {
      this.#wasm.call("gyrus_files_close", folder);
      throw error;
    }
    return folder;
  }
}

type Tick = { heard: (fraction: number) => number };

export class CpuFile {
  #wasm: Wasm;
  #tick: Tick;
  #handle: number;

  constructor(wasm: Wasm, tick: Tick, handle: number) {
    this.#wasm = wasm;
    this.#tick = tick;
    this.#handle = handle;
  }

  bind(name: string, { dtype, shape, data }: HostTensor): void {
    this.#wasm.check("gyrus_network_bind", this.#handle, name, JSON.stringify({ dtype, shape }), data);
  }

  network(request: { shapes: Record<string, number[]>; captures: boolean | string[]; checkFinite: boolean }): CpuNetwork {
    const handle = this.#wasm.check("gyrus_cpu_network", this.#handle, JSON.stringify(request));
    return new CpuNetwork(this.#wasm, this.#tick, handle);
  }

  close(): void {
    if (this.#handle !== 0) this.#wasm.call("gyrus_network_close", this.#handle);
    this.#handle = 0;
  }
}

export class CpuNetwork {
  readonly facts: CpuNetworkFacts;
  #wasm: Wasm;
  #tick: Tick;
  #handle: number;
  #busy = false;

  constructor(wasm: Wasm, tick: Tick, handle: number) {
    this.#wasm = wasm;
    this.#tick = tick;
    this.#handle = handle;
    this.facts = JSON.parse(wasm.text()) as CpuNetworkFacts;
  }

  close(): void {
    if (this.#handle !== 0) this.#wasm.call("gyrus_cpu_close", this.#handle);
    this.#handle = 0;
  }

  /** All outputs, and captures. One run at a time; an abort takes effect after a step, or within one where `stopped` says so. */
  async run(
    inputs: Record<string, HostTensor>, options: CpuRunOptions = {},
  ): Promise<{ outputs: Record<string, HostTensor>; wallMs: number }> {
    if (this.#handle === 0) throw new GyrusError("invalid-input", "[cpu] this network was closed");
    if (this.#busy) throw new GyrusError("invalid-input", "[cpu] a run is under way; wait for it or abort it");
    this.#busy = true;
    try {
      const begin = performance.now();
      this.#give(inputs);
      await this.#steps(options, begin);
      return { outputs: this.#results(), wallMs: performance.now() - begin };
    } catch (error) {
      if (error instanceof RangeError) throw outOfMemory(`[cpu] ${error.message}`, ["smaller-volume"]);
      throw error;
    } finally {
      this.#tick.heard = () => 0;
      this.#busy = false;
    }
  }

  #give(inputs: Record<string, HostTensor>): void {
    for (const { name, dtype, shape } of this.facts.inputs) {
      const input = inputs[name];
      if (!input) throw new GyrusError("invalid-input", `[${name}] this input is missing`);
      if (input.dtype !== dtype || input.shape.join() !== shape.join())
        throw new GyrusError("invalid-input",
          `[${name}] the network takes ${show(dtype, shape)}, the input is ${show(input.dtype, input.shape)}`);
      if (elements(shape) > 0) this.#wasm.check("gyrus_cpu_give", this.#handle, name, narrow(name, input).data);
    }
  }

  async #steps({ signal, onProgress, stopped }: CpuRunOptions, begin: number): Promise<void> {
    const steps = this.#wasm.check("gyrus_cpu_start", this.#handle) - 1;
    const tell = (fraction: number, label: string, step: number) => {
      const seconds = (performance.now() - begin) / 1000;
      onProgress?.({ fraction, label, step, steps, secondsLeft: fraction > 0.01 ? seconds * (1 / fraction - 1) : null });
    };
    let let_in = performance.now();
    for (let step = 0; step < steps; ++step) {
      if (signal?.aborted || stopped?.()) throw new GyrusError("cancelled", "[cpu] the run was stopped");
      this.#wasm.check("gyrus_cpu_label", this.#handle);
      const label = this.#wasm.text();
      this.#tick.heard = (fraction) => (tell(fraction, label, step), stopped?.() ? 1 : 0);
      tell(this.#wasm.check("gyrus_cpu_step", this.#handle), label, step + 1);
      if (performance.now() - let_in < SLICE_MS && step + 1 < steps) continue;
      await nextTask();
      let_in = performance.now();
    }
  }

  #results(): Record<string, HostTensor> {
    const outputs: Record<string, HostTensor> = {};
    for (const port of [...this.facts.outputs, ...this.facts.captures]) {
      if (elements(port.shape) === 0) {
        outputs[port.name] = emptyTensor(port);
        continue;
      }
      this.#wasm.check("gyrus_cpu_result", this.#handle, port.name);
      const { dtype, shape } = JSON.parse(this.#wasm.text()) as { dtype: DType; shape: number[] };
      outputs[port.name] = widen({ dtype, shape, data: this.#wasm.data() }, port.dtype);
    }
    return outputs;
  }
}

// Lets messages in; a timer would wait for milliseconds.
function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(0);
  });
}
