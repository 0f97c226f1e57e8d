// The worker behind the page: takes the calls of segmenter.ts one after another. The same script is that of its threads,
// which its first message says.

import { threadOf } from "./cpu-engine.js";
import { becomeThread, type ThreadSetup } from "./cpu-threads.js";
import { Pipeline } from "./pipeline.js";
import { GyrusError, outOfMemory } from "./errors.js";
import type { Answer, Failed, Request } from "./segmenter.js";
import type { ModelSource, SegmentOptions } from "./types.js";

const scope = globalThis as unknown as DedicatedWorkerGlobalScope;
let made: Pipeline | null = null;
let stop: Int32Array | null = null; // the call that the page wants to end, where memory can be shared
const thread = () => new Worker(scope.location.href, { type: "module" });
const pipeline = () => (made ??= new Pipeline(undefined, thread)); // unless the first message says where the module lies
const cancels = new Map<number, AbortController>(); // calls that wait or run
let last: Promise<unknown> = Promise.resolve();
let waiting = 0;
const aheadMs = 1000; // after the scan is drawn

function post(answer: Answer, transfer: Transferable[] = []): void {
  scope.postMessage(answer, transfer);
}

// Memory of results is handed over, not copied.
function buffersOf(value: unknown): ArrayBuffer[] {
  if (value instanceof Uint8Array) return [value.buffer as ArrayBuffer];
  if (typeof value !== "object" || value === null) return [];
  const arrays = Object.values(value).filter((item) => item instanceof Uint8Array);
  return [...new Set(arrays.map((array) => array.buffer as ArrayBuffer))];
}

function perform(id: number, method: string, args: unknown[], signal: AbortSignal): Promise<unknown> {
  switch (method) {
    case "device": return pipeline().device();
    case "openScan": return pipeline().openScan(args[0] as string, args[1] as ArrayBuffer, (args[2] as { volume?: number }).volume)
      .then(ahead);
    case "openModel":
      return pipeline().openModel(args[0] as ModelSource, { signal, onDownload: (download) => post({ id, download }) });
    case "cpuOffer": return pipeline().cpuOffer((args[0] as SegmentOptions).conform ?? true);
    case "brain": return pipeline().brain();
    case "segment":
      return pipeline().segment(args[0] as SegmentOptions, {
        signal,
        stopped: () => stop !== null && Atomics.load(stop, 0) === id,
        progress: (stage, progress) => post({ id, stage, progress }),
        notice: (notice) => post({ id, notice }),
      });
    default: return Promise.reject(new GyrusError("invalid-input", `[worker] there is no call ${method}`));
  }
}

// Conforms while the person looks at the scan, unless something else is asked for first.
function ahead<T>(result: T): T {
  setTimeout(() => {
    if (waiting > 0) return;
    try {
      pipeline().conform();
    } catch {
      // said when the scan is segmented
    }
  }, aheadMs);
  return result;
}

// Errors lose their class on the way to the page. A RangeError is the page's own memory, gone.
function described(error: unknown): Failed {
  const message = error instanceof Error ? error.message : String(error);
  const known = error instanceof GyrusError ? error
    : error instanceof RangeError ? outOfMemory(message, ["smaller-volume"]) : new GyrusError("device", message);
  const { code, hints, failure } = known;
  return { code, message, hints, failure };
}

async function answer(id: number, method: string, args: unknown[], signal: AbortSignal): Promise<void> {
  try {
    if (signal.aborted) throw new GyrusError("cancelled", "[run] cancelled while it waited");
    const result = await perform(id, method, args, signal);
    post({ id, result }, buffersOf(result));
  } catch (error) {
    post({ id, error: described(error) });
  }
}

scope.onmessage = ({ data }: MessageEvent<Request | ThreadSetup>) => {
  if ("thread" in data) return void becomeThread(data, scope, threadOf);
  if ("start" in data) {
    if (data.start.stop) stop = new Int32Array(data.start.stop);
    if (data.start.wasm !== undefined) made = new Pipeline(data.start.wasm, thread);
    return;
  }
  const { id } = data;
  if ("cancel" in data) {
    cancels.get(id)?.abort();
    return;
  }
  const control = new AbortController();
  cancels.set(id, control);
  ++waiting;
  last = last.then(() => answer(id, data.method, data.args, control.signal)).finally(() => {
    --waiting;
    cancels.delete(id);
  });
};
