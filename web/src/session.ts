// A model on a device: plans it, loads the plan, keeps it for the next scan of the same size. What is tried after a
// failure is the policy's to say.

import { browserFacts } from "./browser-facts.js";
import type { ImageTensor, Model } from "./compiler.js";
import { dispatchFlops, noDevice, requestDevice, type OpenDevice } from "./device.js";
import { GyrusError, isCancelled, type Failure } from "./errors.js";
import { PlanExecutor } from "./executor.js";
import { parsePlan } from "./plan.js";
import { neverLess } from "./recovering.js";
import type {
  Attempt, CompiledPlan, DeviceReport, PlanRequest, Precision, Progress, RunResult,
} from "./types.js";

export interface Hooks {
  signal: AbortSignal;
  progress: (stage: string, progress: Progress) => void;
  notice: (line: string) => void;
  stopped?: () => boolean; // asked where no message gets in
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
  executor: PlanExecutor;
}

/** A run: what is to be done, for whom. */
interface Job {
  model: Model;
  modelKey: string; // tells models apart
  image: ImageTensor;
  wish: Attempt["wish"];
  hooks: Hooks;
}

interface Start {
  attempt: Attempt;
  why: string;
  notice: string;
}

export function stage(progress: Hooks["progress"], name: string): void {
  progress(name, { fraction: 0, label: "", step: 0, steps: 0, secondsLeft: null });
}

export class Session {
  #request: () => Promise<OpenDevice>;
  #around: ReturnType<typeof browserFacts>;
  #open: OpenDevice | null = null;
  #loaded: Loaded | null = null;
  #starts = new Map<string, Start>(); // by model, size and wish: what was chosen, or left after larger plans failed
  #planned: { key: string; compiled: CompiledPlan } | null = null; // the last plan that was not loaded yet

  constructor(request: () => Promise<OpenDevice> = requestDevice, around = browserFacts()) {
    this.#request = request;
    this.#around = around;
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
    model: Model, modelKey: string, image: ImageTensor, wish: Attempt["wish"], hooks: Hooks,
  ): Promise<{ result: RunResult; facts: PlanFacts; compileMs: number }> {
    const job: Job = { model, modelKey, image, wish, hooks: { ...hooks, progress: steady(hooks.progress) } };
    const begin = performance.now();
    let { attempt, why, notice } = await this.#start(job);
    if (notice) hooks.notice(notice);
    for (;;) {
      try {
        const { executor, facts } = await this.#load(job, attempt, why);
        const compileMs = performance.now() - begin;
        return { result: await this.#execute(job, executor), facts, compileMs };
      } catch (error) {
        if (!isCancelled(error)) this.drop(); // after a cancellation the plan serves the next run
        if (!(error instanceof GyrusError)) throw error;
        if (error.code === "non-finite") throw await this.#nonFinite(job, attempt, error);
        if (error.failure === null) throw error;
        const next = model.policy.next(attempt, error.failure);
        if (!next) throw gaveUp(error, error.failure);
        ({ notice, ...attempt } = next);
        hooks.notice(`${notice} (${error.message})`);
        if (attempt.losses === 0) why = "the GPU did not give the memory for a larger plan";
        this.#starts.set(startKey(job), { attempt: { ...attempt, losses: 0 }, why, notice: "" });
      }
    }
  }

  // Which plan to try first: the one that was left last time, else what the planner decides.
  async #start(job: Job): Promise<Start> {
    const { model, image, wish, hooks } = job;
    const key = startKey(job);
    const known = this.#starts.get(key);
    if (known) return known;
    const { limits, report } = await this.openDevice();
    stage(hooks.progress, "Planning");
    const memory = model.policy.likelyMemory(limits, this.#around);
    const compiled = model.plan({ ...networkOf(image), precision: wish, limits, software: report.software, memory,
      dispatchFlops: dispatchFlops(report.software) });
    const { precision, small, why, notice } = compiled.decision;
    const attempt: Attempt = { wish, precision, small, checkFinite: false, losses: 0 };
    this.#planned = { key: keyOf(job, await this.#planRequest(image, attempt)), compiled };
    const start = { attempt, why, notice };
    this.#starts.set(key, start);
    return start;
  }

  async #planRequest(image: ImageTensor, { precision, small, checkFinite }: Attempt): Promise<PlanRequest> {
    const { limits, report } = await this.openDevice();
    return { ...networkOf(image), precision, small, checkFinite, limits, software: report.software,
      dispatchFlops: dispatchFlops(report.software) };
  }

  async #load(job: Job, attempt: Attempt, why: string): Promise<Loaded> {
    const { device } = await this.openDevice();
    const request = await this.#planRequest(job.image, attempt);
    const key = keyOf(job, request);
    if (this.#loaded?.key === key) {
      this.#loaded.facts.why = why;
      return this.#loaded;
    }
    this.drop(); // its memory first
    stage(job.hooks.progress, "Planning");
    const compiled = this.#planned?.key === key ? this.#planned.compiled : job.model.plan(request);
    this.#planned = null;
    const plan = parsePlan(compiled.json, compiled.weights);
    const executor = await PlanExecutor.create(device, plan, {
      signal: job.hooks.signal,
      onCompiled: (step, steps) =>
        job.hooks.progress("Compiling kernel", { fraction: 0, label: "", step, steps, secondsLeft: null }),
    });
    const { peakBytes, flops } = compiled;
    const counts = { kernels: plan.kernels.length, steps: plan.steps.length };
    return (this.#loaded = { key, executor, facts: { precision: attempt.precision, why, peakBytes, flops, ...counts } });
  }

  #execute({ image, hooks }: Job, executor: PlanExecutor): Promise<RunResult> {
    const onProgress = (progress: Progress) => hooks.progress("Step", progress);
    const inputs = { image, scale: scalar(image.scale), shift: scalar(image.shift) };
    return executor.run(inputs, { signal: hooks.signal, onProgress });
  }

  // Runs once more with every value tested, so that the error names the first node. That plan is not kept: testing
  // takes time, which other scans need not spend.
  async #nonFinite(job: Job, attempt: Attempt, found: GyrusError): Promise<GyrusError> {
    let { message } = found;
    const checked = job.model.policy.next(attempt, "non-finite");
    try {
      if (checked) await this.#execute(job, (await this.#load(job, checked, "")).executor);
    } catch (error) {
      if (isCancelled(error)) throw error;
      if (error instanceof GyrusError && error.code === "non-finite") message = error.message;
    }
    this.drop();
    const hints = attempt.precision === "f16" ? ["single-precision", "other-device"] as const : ["other-device"] as const;
    return new GyrusError("non-finite", message, { hints });
  }
}

function gaveUp(last: GyrusError, failure: Failure): GyrusError {
  const message = `${last.message}; no smaller plan is left to try: close other tabs and programs that use the GPU`;
  return new GyrusError(last.code, message, { failure, hints: ["smaller-model"] });
}

// Progress of steps does not go back where a run starts over.
function steady(progress: Hooks["progress"]): Hooks["progress"] {
  const steps = neverLess((value) => progress("Step", value));
  return (name, value) => (name === "Step" ? steps(value) : progress(name, value));
}

function networkOf(image: ImageTensor): Pick<PlanRequest, "spatial" | "input" | "clamp" | "output"> {
  const spatial = image.shape.slice(-3) as [number, number, number];
  return { spatial, input: image.dtype, clamp: image.clamp, output: "labels" };
}

function keyOf({ modelKey }: Job, request: PlanRequest): string {
  return JSON.stringify([modelKey, request]);
}

function startKey({ modelKey, image, wish }: Job): string {
  return JSON.stringify([modelKey, networkOf(image), wish]);
}

function scalar(value: number) {
  return { dtype: "f32" as const, shape: [1], data: new Uint8Array(new Float32Array([value]).buffer) };
}
