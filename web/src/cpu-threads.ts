// Threads of the module for the processor: workers that share its memory. A page has them where it is isolated (headers
// COOP and COEP) and where what loads the module may wait, in a worker; elsewhere the module runs with one thread.

import type { Wasm } from "./wasm.js";

/** The first message to a worker that is to be a thread. */
export interface ThreadSetup {
  thread: { module: WebAssembly.Module; memory: WebAssembly.Memory };
}

// Which thread it becomes: addresses in the module's memory.
interface ThreadStart {
  self: number;
  stack: [begin: number, end: number];
  start: number;
  argument: number;
}

/** The worker's own side of its messages. */
export interface ThreadScope {
  onmessage: ((event: MessageEvent) => unknown) | null;
  postMessage(message: unknown): void;
}

/** What a thread runs in: a Worker with this package's worker script, or what behaves like one. */
export type MakeThread = () => Worker;

// Least first: a machine may refuse to set aside 4 GiB of addresses.
const MOST_PAGES = [65536, 32768, 16384]; // of 64 KiB
const LEAST_PAGES = 256;
const READY_MS = 5000;

/** Memory that the module can grow into, shared with threads where there are any. */
export function sharedMemory(): WebAssembly.Memory {
  for (const maximum of MOST_PAGES) {
    try {
      return new WebAssembly.Memory({ initial: LEAST_PAGES, maximum, shared: true });
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
  }
  throw new RangeError("the browser has no memory left for a network on the CPU");
}

/** How many threads there can be here, this one among them. */
export function mostThreads(): number {
  const { crossOriginIsolated, WorkerGlobalScope, navigator } = globalThis as unknown as {
    crossOriginIsolated?: boolean; WorkerGlobalScope?: unknown; navigator?: { hardwareConcurrency?: number };
  };
  if (!crossOriginIsolated || WorkerGlobalScope === undefined) return 1;
  return Math.max(1, navigator?.hardwareConcurrency ?? 1);
}

/** Workers that are ready to become threads; those that do not answer are left out. */
export class Threads {
  #ready: Worker[] = [];
  #all: Worker[] = [];

  static async open(count: number, make: MakeThread | null, module: WebAssembly.Module, memory: WebAssembly.Memory): Promise<Threads> {
    const threads = new Threads();
    const waits: Promise<void>[] = [];
    for (let i = 0; make && i < count; ++i) waits.push(threads.#add(make, { thread: { module, memory } }));
    await Promise.all(waits);
    return threads;
  }

  get count(): number {
    return this.#ready.length;
  }

  /** The module asks for a thread: 0, or the C library's number for "try again". */
  create(wasm: Wasm, self: number, start: number, argument: number): number {
    const EAGAIN = 6;
    const worker = this.#ready.pop();
    if (!worker) return EAGAIN;
    wasm.call("gyrus_thread_stack", self);
    const stack = JSON.parse(wasm.text()) as [number, number];
    worker.postMessage({ self, stack, start, argument } satisfies ThreadStart);
    return 0;
  }

  close(): void {
    for (const worker of this.#all.splice(0)) worker.terminate();
    this.#ready = [];
  }

  #add(make: MakeThread, setup: ThreadSetup): Promise<void> {
    return new Promise((resolve) => {
      const late = setTimeout(resolve, READY_MS);
      const done = () => (clearTimeout(late), resolve());
      try {
        const worker = make();
        this.#all.push(worker);
        worker.onmessage = () => (this.#ready.push(worker), done());
        worker.onerror = (event) => (event.preventDefault(), done());
        worker.postMessage(setup);
      } catch {
        done(); // no such worker here: fewer threads
      }
    });
  }
}

/** The worker's side: becomes a thread, and stays one. `open` makes an instance of the module in the given memory. */
export async function becomeThread(
  { thread }: ThreadSetup, scope: ThreadScope,
  open: (module: WebAssembly.Module, memory: WebAssembly.Memory) => Promise<Wasm>,
): Promise<void> {
  const wasm = await open(thread.module, thread.memory);
  scope.onmessage = ({ data }: MessageEvent<ThreadStart>) => {
    wasm.call("stackRestore", data.stack[0]);
    wasm.call("emscripten_stack_set_limits", ...data.stack);
    wasm.call("gyrus_thread_run", data.self, data.start, data.argument);
  };
  scope.postMessage("ready");
}
