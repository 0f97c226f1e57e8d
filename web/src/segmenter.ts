// The page's end of the worker: calls become messages, answers come back to who asked.

import { GyrusError, type ErrorCode, type Failure, type Hint } from "./errors.js";
import type {
  CpuOffer, DeviceReport, Download, ModelInfo, ModelSource, OpenModelOptions, OpenScan, Progress, Segmenter, SegmentOptions,
  SegmentResult,
} from "./types.js";

export type Method = "device" | "openScan" | "openModel" | "cpuOffer" | "segment" | "brain";

export type Request = { id: number; method: Method; args: unknown[] } | { id: number; cancel: true }
  | { start: { wasm?: string; stop?: SharedArrayBuffer } };

/** A GyrusError on its way. */
export interface Failed {
  code: ErrorCode;
  message: string;
  hints: readonly Hint[];
  failure: Failure | null;
}

export type Answer =
  | { id: number; result: unknown }
  | { id: number; error: Failed }
  | { id: number; stage: string; progress: Progress }
  | { id: number; notice: string }
  | { id: number; download: Download };

interface Call {
  resolve: (value: never) => void;
  reject: (error: Error) => void;
  onProgress?: SegmentOptions["onProgress"];
  onNotice?: SegmentOptions["onNotice"];
  onDownload?: OpenModelOptions["onDownload"];
}

export class WorkerSegmenter implements Segmenter {
  /** Called when the worker died and a new one stands in: scan and model are to be opened again. */
  onRestart: () => void = () => {};
  #make: () => Worker;
  #wasm: string | null;
  #worker: Worker | null = null;
  #calls = new Map<number, Call>();
  #next = 1;
  // Where memory can be shared a call is ended within a step as well, when no message gets in.
  #stop = globalThis.crossOriginIsolated ? new Int32Array(new SharedArrayBuffer(4)) : null;

  /** `wasm` says where the compiler's module lies, where that is not beside the worker's script. */
  constructor(make: () => Worker, options: { wasm?: string | URL } = {}) {
    this.#make = make;
    const here = globalThis.document?.baseURI ?? globalThis.location?.href;
    this.#wasm = options.wasm === undefined ? null : new URL(options.wasm, here).href;
  }

  device(): Promise<DeviceReport> {
    return this.#call("device", []);
  }

  /** `bytes` is handed over: it is empty here afterwards. */
  openScan(name: string, bytes: ArrayBuffer, options: { volume?: number } = {}): Promise<OpenScan> {
    return this.#call("openScan", [name, bytes, options], [bytes]);
  }

  openModel(source: ModelSource, { signal, onDownload }: OpenModelOptions = {}): Promise<ModelInfo> {
    return this.#cancellable(signal, () => this.#call("openModel", [source], [], { onDownload }));
  }

  cpuOffer(options: Pick<SegmentOptions, "conform"> = {}): Promise<CpuOffer> {
    return this.#call("cpuOffer", [options]);
  }

  segment(options: SegmentOptions = {}): Promise<SegmentResult> {
    const { signal, onProgress, onNotice, ...plain } = options;
    return this.#cancellable(signal, () => this.#call("segment", [plain], [], { onProgress, onNotice }));
  }

  brain(): Promise<Uint8Array> {
    return this.#call("brain", []);
  }

  close(): void {
    this.#worker?.terminate();
    this.#worker = null;
    this.#fail(new GyrusError("cancelled", "the segmenter was closed"));
  }

  // The next call, until the signal says otherwise.
  #cancellable<T>(signal: AbortSignal | undefined, call: () => Promise<T>): Promise<T> {
    if (signal?.aborted) return Promise.reject(new GyrusError("cancelled", "cancelled before the start"));
    const id = this.#next;
    const cancel = () => {
      if (this.#stop) Atomics.store(this.#stop, 0, id);
      this.#post({ id, cancel: true });
    };
    signal?.addEventListener("abort", cancel);
    return call().finally(() => signal?.removeEventListener("abort", cancel));
  }

  #call<T>(method: Method, args: unknown[], transfer: Transferable[] = [], hooks: Partial<Call> = {}): Promise<T> {
    const id = this.#next++;
    return new Promise<T>((resolve, reject) => {
      this.#calls.set(id, { ...hooks, resolve, reject });
      try {
        this.#post({ id, method, args }, transfer);
      } catch (error) {
        this.#calls.delete(id);
        reject(error);
      }
    });
  }

  #post(request: Request, transfer: Transferable[] = []): void {
    this.#worker ??= this.#start();
    this.#worker.postMessage(request, transfer);
  }

  #start(): Worker {
    const worker = this.#make();
    worker.onmessage = (event: MessageEvent<Answer>) => this.#heard(event.data);
    worker.onerror = (event) => {
      event.preventDefault();
      worker.terminate();
      if (this.#worker === worker) this.#worker = null;
      const reason = event.message || "its script did not load; reload the page";
      this.#fail(new GyrusError("device", `[worker] stopped (${reason}); open scan and model again`));
      this.onRestart();
    };
    const stop = this.#stop ? { stop: this.#stop.buffer as SharedArrayBuffer } : {};
    const wasm = this.#wasm !== null ? { wasm: this.#wasm } : {};
    worker.postMessage({ start: { ...stop, ...wasm } } satisfies Request);
    return worker;
  }

  #heard(answer: Answer): void {
    const call = this.#calls.get(answer.id);
    if (!call) return;
    if ("progress" in answer) return call.onProgress?.(answer.stage, answer.progress);
    if ("notice" in answer) return call.onNotice?.(answer.notice);
    if ("download" in answer) return call.onDownload?.(answer.download);
    this.#calls.delete(answer.id);
    if ("result" in answer) return call.resolve(answer.result as never);
    const { code, message, hints, failure } = answer.error;
    call.reject(new GyrusError(code, message, failure ? { hints, failure } : { hints }));
  }

  #fail(error: Error): void {
    const calls = [...this.#calls.values()];
    this.#calls.clear();
    for (const call of calls) call.reject(error);
  }
}
