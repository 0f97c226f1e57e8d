// A model on a device: plans it, loads the plan, keeps it for the next scan of the same size, and makes a smaller plan
// where the device gives less than it said.

import type { ImageTensor, Model } from "./compiler.js";
import { noDevice, requestDevice, type OpenDevice } from "./device.js";
import { GyrusError, isCancelled } from "./errors.js";
import { parsePlan, type Plan } from "./plan.js";
import { choosePlan, host, type Choice, type Host } from "./precision.js";
import { RecoveringExecutor } from "./recovering.js";
import type {
  CompiledPlan, DeviceReport, PlanLimits, PlanRequest, Precision, Progress, RunResult, SegmentOptions,
} from "./types.js";

/** WebGPU's default limits, which every device has: those that a failed allocation may have to do with. */
const defaultLimits: Partial<PlanLimits> = { maxBufferSize: 256 * 2 ** 20, maxStorageBufferBindingSize: 128 * 2 ** 20 };

export interface Hooks {
  signal: AbortSignal;
  progress: (stage: string, progress: Progress) => void;
  notice: (line: string) => void;
}

export interface PlanFacts {
  precision: Precision;
  why: string;
  peakBytes: number;
  flops: number;
  kernels: number;
  steps: number;
}

interface Loaded {
  key: string;
  facts: PlanFacts;
  executor: RecoveringExecutor;
}

/** One try: a plan in this precision, for the device's own limits or (small) for the defaults. */
interface Attempt {
  precision: Precision;
  small: boolean;
  why: string;
}

export function stage(progress: Hooks["progress"], name: string): void {
  progress(name, { fraction: 0, label: "", step: 0, steps: 0, secondsLeft: null });
}

export class Session {
  #request: () => Promise<OpenDevice>;
  #host: Host;
  #open: OpenDevice | null = null;
  #loaded: Loaded | null = null;
  #fits: { key: string; attempt: Attempt } | null = null; // what was left after larger plans failed
  #chosen: { key: string; choice: Choice } | null = null; // by the rule; planning to see takes a second
  #hooks: Hooks | null = null; // of the run under way
  #planned: { key: string; compiled: CompiledPlan } | null = null; // the last plan that was not loaded yet

  constructor(request: () => Promise<OpenDevice> = requestDevice, around = host()) {
    this.#request = request;
    this.#host = around;
  }

  get device(): OpenDevice | null {
    return this.#open;
  }

  /** Opens the device anew where there is none or it was lost. */
  async openDevice(): Promise<OpenDevice> {
    if (this.#open) return this.#open;
    const open = await this.#request();
    void open.device.lost.then(() => {
      if (this.#open === open) this.#open = null;
    });
    return (this.#open = open);
  }

  /** The device, opened to see that it can be, or why there is none. Never throws. */
  async describe(): Promise<DeviceReport> {
    try {
      return (await this.openDevice()).report;
    } catch (error) {
      return noDevice(error);
    }
  }

  /** Frees the plan on the device: another model, or no use for it. */
  drop(): void {
    this.#loaded?.executor.destroy();
    this.#loaded = null;
  }

  /** The network on an image. `modelKey` tells models apart. */
  async run(
    model: Model, modelKey: string, image: ImageTensor, wish: SegmentOptions["precision"], hooks: Hooks,
  ): Promise<{ result: RunResult; facts: PlanFacts; compileMs: number }> {
    let last: GyrusError | null = null;
    const begin = performance.now();
    this.#hooks = hooks;
    for (let attempt = await this.#first(model, modelKey, image, wish, hooks), tries = 1; ; ++tries) {
      try {
        const { executor, facts } = await this.#load(model, modelKey, image, attempt, hooks);
        const compileMs = performance.now() - begin;
        const onProgress = (progress: Progress) => hooks.progress("Step", progress);
        const inputs = { image, scale: scalar(image.scale), shift: scalar(image.shift) };
        const result = await executor.run(inputs, { signal: hooks.signal, onProgress });
        return { result, facts, compileMs };
      } catch (error) {
        if (!isCancelled(error)) this.drop(); // after a cancellation the plan serves the next run
        // A device lost twice in a run is as good as one without memory: drivers give up in either way.
        if (!(error instanceof GyrusError) || error.failure === null) throw error;
        last = error;
      }
      const next = smaller(attempt, wish);
      if (!next || tries >= 3)
        throw new GyrusError(last.code, `${last.message}; no smaller plan is left to try: close other tabs and ` +
          "programs that use the GPU", { failure: last.failure!, hints: ["smaller-model"] });
      const failed = last.failure === "device-lost" ? "was lost with" : "did not give the memory for";
      hooks.notice(`The GPU ${failed} ${name(attempt)}; trying ${name(next)}.`);
      this.#fits = { key: fitKey(modelKey, image, wish), attempt: next };
      attempt = next;
    }
  }

  // What to try first; the memory of an f32 plan decides where the precision is left open.
  async #first(
    model: Model, modelKey: string, image: ImageTensor, wish: SegmentOptions["precision"], hooks: Hooks,
  ): Promise<Attempt> {
    if (this.#fits?.key === fitKey(modelKey, image, wish)) return this.#fits.attempt;
    if (wish !== "auto") return { precision: wish, small: false, why: "chosen in the settings" };
    const { limits, report } = await this.openDevice();
    const request = planRequest(image, "f32", limits, report.software);
    const key = keyOf(modelKey, request);
    if (this.#chosen?.key !== key) {
      stage(hooks.progress, "Planning");
      const smaller = { ...request, limits: capped(limits, defaultLimits) };
      const bytes = (one: PlanRequest) => this.#bytes(model, modelKey, one);
      this.#chosen = { key, choice: choosePlan(bytes(request), () => bytes(smaller), report, this.#host) };
    }
    const { choice } = this.#chosen;
    if (choice.notice) hooks.notice(choice.notice);
    return choice;
  }

  // What a plan needs; null where none keeps the limits.
  #bytes(model: Model, modelKey: string, request: PlanRequest): number | null {
    try {
      return this.#plan(model, modelKey, request).peakBytes;
    } catch (error) {
      if (error instanceof GyrusError && error.code === "over-limits") return null;
      throw error;
    }
  }

  #plan(model: Model, modelKey: string, request: PlanRequest): CompiledPlan {
    const key = keyOf(modelKey, request);
    if (this.#planned?.key !== key) this.#planned = { key, compiled: model.plan(request) };
    return this.#planned.compiled;
  }

  async #load(model: Model, modelKey: string, image: ImageTensor, attempt: Attempt, hooks: Hooks): Promise<Loaded> {
    const { limits, report } = await this.openDevice();
    const wanted = attempt.small ? capped(limits, defaultLimits) : limits;
    const request = planRequest(image, attempt.precision, wanted, report.software);
    const key = keyOf(modelKey, request);
    if (this.#loaded?.key === key) {
      this.#loaded.facts.why = attempt.why;
      return this.#loaded;
    }
    this.drop(); // its memory first
    stage(hooks.progress, "Planning");
    const compiled = this.#plan(model, modelKey, request);
    this.#planned = null;
    const plan = parsePlan(compiled.json, compiled.weights);
    // The executor outlives this run: what it says goes to the run of the time, and this run's end does not stop it.
    const loading = new AbortController();
    const stop = () => loading.abort();
    hooks.signal.addEventListener("abort", stop);
    const executor = await RecoveringExecutor.create(plan, {
      requestDevice: async () => (await this.openDevice()).device,
      signal: loading.signal,
      onNotice: (line) => this.#hooks?.notice(line),
      onCompiled: (step, steps) =>
        this.#hooks?.progress("Compiling kernel", { fraction: 0, label: "", step, steps, secondsLeft: null }),
    }).finally(() => hooks.signal.removeEventListener("abort", stop));
    return (this.#loaded = { key, executor, facts: factsOf(compiled, plan, attempt) });
  }
}

function factsOf(compiled: CompiledPlan, plan: Plan, attempt: Attempt): PlanFacts {
  const { peakBytes, flops } = compiled;
  const { precision, why } = attempt;
  return { precision, why, peakBytes, flops, kernels: plan.kernels.length, steps: plan.steps.length };
}

function planRequest(image: ImageTensor, precision: Precision, limits: PlanLimits, software: boolean): PlanRequest {
  const spatial = image.shape.slice(-3) as [number, number, number];
  return { spatial, input: image.dtype, clamp: image.clamp, output: "labels", precision, limits, software };
}

function keyOf(modelKey: string, request: PlanRequest): string {
  return JSON.stringify([modelKey, request]);
}

function fitKey(modelKey: string, image: ImageTensor, wish: SegmentOptions["precision"]): string {
  return JSON.stringify([modelKey, image.shape, wish]);
}

function capped(limits: PlanLimits, caps: Partial<PlanLimits>): PlanLimits {
  const out = { ...limits };
  for (const [key, cap] of Object.entries(caps) as [keyof PlanLimits, number][]) out[key] = Math.min(out[key], cap);
  return out;
}

// Halves first, then smaller buffers: an adapter may offer larger ones than its driver can find room for.
function smaller(attempt: Attempt, wish: SegmentOptions["precision"]): Attempt | null {
  const why = "the GPU did not give the memory for a larger plan";
  if (attempt.precision === "f32" && wish === "auto") return { precision: "f16", small: attempt.small, why };
  return attempt.small ? null : { ...attempt, small: true, why };
}

function name(attempt: Attempt): string {
  return `the plan in ${attempt.precision}${attempt.small ? " with WebGPU's default limits" : ""}`;
}

function scalar(value: number) {
  return { dtype: "f32" as const, shape: [1], data: new Uint8Array(new Float32Array([value]).buffer) };
}
