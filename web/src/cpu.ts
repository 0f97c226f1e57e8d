// Networks without a GPU: whether the page can hold one, how long it will take, and its run.

import { browserFacts } from "./browser-facts.js";
import type { ImageTensor } from "./compiler.js";
import { CpuEngine, type CpuNetwork, type CpuVolumeRequest } from "./cpu-engine.js";
import type { MakeThread } from "./cpu-threads.js";
import { GyrusError } from "./errors.js";
import { stage, type PlanFacts, type Hooks } from "./session.js";
import type { CpuOffer, HostTensor, NamedBytes, Precision, Progress, RunResult } from "./types.js";
import { compileWasm, type WasmSource } from "./wasm.js";

/** So many seconds are worth a question before they are spent. */
export const MOST_CPU_SECONDS = 60;

const sampleSide = 64; // voxels: more than the widest window of the small models
const warmMs = 150; // browsers compile what runs often once more, and faster
const sampleMs = 500;
const mostBytes = 2 ** 32 - 2 ** 26; // of a module's memory, less what is no map

/** A model's files, which the module for the processor reads for itself. */
export interface CpuModel {
  files: NamedBytes[];
  name: string;
  main: string;
}

export interface CpuSetup {
  wasm?: WasmSource; // where gyrus-cpu.wasm lies
  thread?: MakeThread;
  threads?: number;
}

type Extents = [number, number, number];

/** What runs on the processor: the module, compiled once; every call makes an engine and drops it with its memory. */
export class CpuSide {
  #setup: CpuSetup;
  #module: Promise<WebAssembly.Module> | null = null;

  constructor(setup: CpuSetup = {}) {
    this.#setup = setup;
  }

  async #open(threads: number | undefined): Promise<CpuEngine> {
    const from = this.#setup.wasm ?? new URL("./gyrus-cpu.wasm", import.meta.url);
    this.#module ??= compileWasm(from).catch((error: unknown) => {
      this.#module = null;
      throw error;
    });
    return CpuEngine.load({ ...this.#setup, wasm: await this.#module, ...(threads ? { threads } : {}) });
  }

  async #with<T>(
    { files, name, main }: CpuModel, request: CpuVolumeRequest, body: (network: CpuNetwork, engine: CpuEngine) => Promise<T>,
    threads?: number,
  ): Promise<T> {
    const engine = await this.#open(threads);
    try {
      return await body(engine.openVolume(files, name, main, request), engine);
    } finally {
      engine.close();
    }
  }

  // How maps are stored, and why the network does not fit all the same; empty where it does.
  async #storage(model: CpuModel, request: CpuVolumeRequest, wish: "auto" | Precision) {
    const look = async (halves: boolean) => {
      const facts = await this.#with(model, { ...request, halves }, async (network) => network.facts, 1);
      return { halves, flops: facts.flops, why: memoryWhy(model.name, facts.bytes) };
    };
    const singles = await look(wish === "f16");
    return singles.why && wish === "auto" ? { ...(await look(true)), notice: `storing feature maps in f16: ${singles.why}` }
      : { ...singles, notice: "" };
  }

  /** Floating-point operations a second that this machine does on this network, from half a second of it. */
  rate(model: CpuModel): Promise<number> {
    const spatial: Extents = [sampleSide, sampleSide, sampleSide];
    const data = new Uint8Array(sampleSide ** 3).map((_, i) => (i * 7) % 251);
    const image: ImageTensor = { dtype: "u8", shape: [1, 1, ...spatial], data, scale: 1 / 251, shift: 0, clamp: true };
    return this.#with(model, { spatial, input: "u8", clamp: true }, (network) => sample(network, image));
  }

  /** Whether the network may run on the CPU for volumes of these extents. */
  async offer(model: CpuModel, spatial: Extents, rate: () => Promise<number>): Promise<CpuOffer> {
    const { flops, why } = await this.#storage(model, { spatial, input: "u8", clamp: true }, "auto");
    if (why) return { possible: false, flops, mostSeconds: MOST_CPU_SECONDS, seconds: 0, why };
    return { possible: true, flops, mostSeconds: MOST_CPU_SECONDS, seconds: flops / (await rate()), why: "" };
  }

  /** The network on an image. */
  async run(
    model: CpuModel, image: ImageTensor, hooks: Hooks, wish: "auto" | Precision = "auto",
  ): Promise<{ result: RunResult; facts: PlanFacts; compileMs: number }> {
    stage(hooks.progress, "Planning");
    const begin = performance.now();
    const wanted = { spatial: image.shape.slice(-3) as Extents, input: image.dtype, clamp: image.clamp };
    const { halves, notice } = await this.#storage(model, wanted, wish);
    if (notice) hooks.notice(notice);
    return this.#with(model, { ...wanted, halves }, async (network, engine) => {
      const { flops, bytes, steps } = network.facts;
      const compileMs = performance.now() - begin;
      const onProgress = (progress: Progress) => hooks.progress("On the CPU", { ...progress, step: 0, steps: 0 });
      const stopped = hooks.stopped ? { stopped: hooks.stopped } : {};
      const { outputs, wallMs } = await network.run(inputsOf(image), { signal: hooks.signal, onProgress, ...stopped });
      const result = { outputs, kept: {}, uploadedBytes: 0, readBackBytes: 0, gpuMs: null, wallMs, profile: [] } as RunResult;
      const why = `as always on the CPU; ${engine.threads === 1 ? "one thread" : `${engine.threads} threads`}`;
      const precision: Precision = halves ? "f16" : "f32";
      return { result, compileMs, facts: { precision, why, peakBytes: bytes, flops, kernels: 0, steps } };
    });
  }
}

function inputsOf(image: ImageTensor): Record<string, HostTensor> {
  const scalar = (value: number): HostTensor =>
    ({ dtype: "f32", shape: [1], data: new Uint8Array(new Float32Array([value]).buffer) });
  const { dtype, shape, data } = image;
  return { image: { dtype, shape, data }, scale: scalar(image.scale), shift: scalar(image.shift) };
}

// Why the network does not fit; empty where it does.
function memoryWhy(name: string, bytes: number): string {
  const gib = (count: number) => `${(count / 2 ** 30).toFixed(1)} GiB`;
  const { memoryGiB } = browserFacts();
  if (bytes > mostBytes) return `[${name}] needs ${gib(bytes)} of memory on the CPU; a page can have 4.0 GiB`;
  if (memoryGiB !== null && memoryGiB <= 4 && bytes > memoryGiB * 2 ** 29)
    return `[${name}] needs ${gib(bytes)} of memory on the CPU; this machine has ${gib(memoryGiB * 2 ** 30)} in all`;
  return "";
}

async function sample(network: CpuNetwork, image: ImageTensor): Promise<number> {
  const begin = performance.now();
  let work = 0;
  let busy = 0; // ms
  while (busy < sampleMs) {
    const stop = new AbortController();
    let last = performance.now();
    let before = 0;
    const onProgress = ({ fraction }: { fraction: number }) => {
      const now = performance.now();
      if (last - begin >= warmMs) (work += (fraction - before) * network.facts.flops), (busy += now - last);
      (last = now), (before = fraction);
      if (busy >= sampleMs) stop.abort();
    };
    const stopped = () => busy >= sampleMs; // within long layers too
    try {
      await network.run(inputsOf(image), { signal: stop.signal, onProgress, stopped });
    } catch (error) {
      if (!(error instanceof GyrusError && error.code === "cancelled")) throw error;
    }
  }
  return work / (busy / 1000);
}
