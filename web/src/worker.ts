// The worker behind the page: takes the calls of segmenter.ts one after another.

import { Desk } from "./desk.js";
import { GyrusError } from "./errors.js";
import type { Answer, Request } from "./segmenter.js";
import type { ModelSource, SegmentOptions } from "./types.js";

const scope = globalThis as unknown as DedicatedWorkerGlobalScope;
const desk = new Desk(new URL("gyrus.wasm", scope.location.href));
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
    case "device": return desk.device();
    case "openScan": return desk.openScan(args[0] as string, args[1] as ArrayBuffer).then(ahead);
    case "openModel": return desk.openModel(args[0] as ModelSource);
    case "cpuOffer": return desk.cpuOffer((args[0] as SegmentOptions).conform);
    case "brain": return desk.brain();
    case "segment":
      return desk.segment(args[0] as SegmentOptions, {
        signal,
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
      desk.conform();
    } catch {
      // said when the scan is segmented
    }
  }, aheadMs);
  return result;
}

async function answer(id: number, method: string, args: unknown[], signal: AbortSignal): Promise<void> {
  try {
    if (signal.aborted) throw new GyrusError("cancelled", "[run] cancelled while it waited");
    const result = await perform(id, method, args, signal);
    post({ id, result }, buffersOf(result));
  } catch (error) {
    const code = error instanceof GyrusError ? error.code : error instanceof RangeError ? "out-of-memory" : "device";
    post({ id, error: { code, message: error instanceof Error ? error.message : String(error) } });
  }
}

scope.onmessage = ({ data }: MessageEvent<Request>) => {
  const { id } = data;
  if ("cancel" in data) {
    cancels.get(id)?.abort();
    return;
  }
  // Not in the queue: it is to hit what runs.
  if (data.method === "debugLoseDevice" || data.method === "debugRefuseMemory") {
    if (data.method === "debugLoseDevice") desk.runner.device?.device.destroy();
    else desk.runner.refusals = Number(data.args[0]);
    post({ id, result: null });
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
