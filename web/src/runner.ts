// One run of a loaded plan: upload, submissions of bounded length with at most two on their way, readback.

import { scopeError } from "./device-state.js";
import { GyrusError } from "./errors.js";
import type { LoadedPlan } from "./load.js";
import { portBytes, stepLabel, type PlanPort, type Step } from "./plan.js";
import { Timestamps } from "./timestamps.js";
import { upload, type Read, type Write } from "./staging.js";
import type { RunOptions, RunResult, TensorValue } from "./types.js";

const inFlight = 2; // one runs, the next waits: the GPU is never idle
const firstSubmission = 0.25; // of the usual length, since nothing was measured yet
const mostSteps = 500; // in a submission, which bounds the time that encoding holds the thread
const warmUp = 0.2; // seconds after which a time left can be told

type Inputs = Record<string, TensorValue>;

interface Submission {
  end: number; // step behind the last one
  done: Promise<void>;
  predicted: number; // seconds
  submitted: number; // ms
}

export interface RunSettings {
  submissionMs: number;
  checkFinite: boolean;
  /** Throws where the run must not go on: aborted or destroyed. */
  stop(done: number): void;
}

function show(dtype: string, shape: number[]): string {
  return `${dtype}[${shape.join(",")}]`;
}

/** Throws "invalid-input" unless there is one fitting tensor for each input. */
export function checkInputs(ports: PlanPort[], inputs: Inputs): void {
  const invalid = (name: string, message: string) => new GyrusError("invalid-input", `[${name}] ${message}`);
  for (const port of ports) {
    const input = inputs[port.name];
    if (!input) throw invalid(port.name, "this input is missing");
    const [want, got] = [show(port.dtype, port.shape), show(input.dtype, input.shape)];
    if (want !== got) throw invalid(port.name, `the plan takes ${want}, the input is ${got}`);
    if (input.data.byteLength !== portBytes(port))
      throw invalid(port.name, `the input has ${input.data.byteLength} bytes, ${want} has ${portBytes(port)}`);
  }
  for (const name of Object.keys(inputs))
    if (!ports.some((port) => port.name === name)) throw invalid(name, "the plan has no such input");
}

/** The captures that options ask for; throws "invalid-input" for a name that the plan does not have. */
export function chosenCaptures(captures: PlanPort[], wanted: RunOptions["captures"]): PlanPort[] {
  if (!wanted) return [];
  if (wanted === true) return captures;
  return wanted.map((name) => {
    const found = captures.find((port) => port.name === name);
    if (found) return found;
    const names = captures.map((port) => port.name).join(", ") || "none";
    throw new GyrusError("invalid-input", `[${name}] the plan has no such capture; it has: ${names}`);
  });
}

// Index of the first infinity or NaN, or -1.
function firstNonFinite({ dtype, data }: TensorValue): number {
  if (dtype === "f32") return new Float32Array(data.buffer).findIndex((value) => !Number.isFinite(value));
  if (dtype === "f16") return new Uint16Array(data.buffer).findIndex((bits) => (bits & 0x7c00) === 0x7c00);
  return -1;
}

export class Runner {
  #loaded: LoadedPlan;
  #options: RunOptions;
  #settings: RunSettings;
  #weights: number[]; // of each step in the progress
  #totalWeight: number;
  #doneWeight = 0;
  #done = 0; // steps
  #start = performance.now();
  #lastDone = 0;
  #times: Timestamps | null = null;
  #dispatches: number[]; // steps that are dispatches
  #encoded = 0; // dispatches

  constructor(loaded: LoadedPlan, options: RunOptions, settings: RunSettings) {
    this.#loaded = loaded;
    this.#options = options;
    this.#settings = settings;
    const { plan, state } = loaded;
    this.#weights = plan.steps.map((step) => state.pace.seconds(step));
    this.#totalWeight = this.#weights.reduce((sum, weight) => sum + weight, 0);
    this.#dispatches = plan.steps.flatMap((step, i) => (step.op === "dispatch" ? [i] : []));
    const timed = state.device.features.has("timestamp-query");
    if (options.profile && !timed)
      throw new GyrusError("unsupported", "[profile] needs the feature timestamp-query, which the device has not");
    const queries = options.profile ? 2 * this.#dispatches.length : 2;
    if (timed && this.#dispatches.length > 0) this.#times = new Timestamps(state, loaded.allocations, queries);
  }

  async run(inputs: Inputs): Promise<RunResult> {
    try {
      await this.#upload(inputs);
      await this.#steps();
      const outputs = await this.#read();
      const times = this.#times ? await this.#times.read(this.#loaded.readback) : [];
      this.#loaded.state.check();
      if (this.#settings.checkFinite) this.#checkFinite(outputs);
      return { outputs, wallMs: performance.now() - this.#start, ...this.#profile(times) };
    } finally {
      this.#times?.destroy();
    }
  }

  async #upload(inputs: Inputs): Promise<void> {
    const { plan, state, buffers } = this.#loaded;
    const writes = plan.inputs.flatMap((port) =>
      port.pieces.map(({ hostOffset, range }): Write => {
        const data = inputs[port.name]!.data.subarray(hostOffset, hostOffset + range.size);
        return { buffer: buffers[range.buffer]!, offset: range.offset, size: range.size, data };
      }),
    );
    await upload(state, "uploading the inputs", writes);
  }

  async #steps(): Promise<void> {
    const { steps } = this.#loaded.plan;
    const flying: Submission[] = [];
    this.#lastDone = performance.now();
    try {
      for (let begin = 0; begin < steps.length || flying.length > 0; ) {
        if (flying.length === inFlight || begin === steps.length) await this.#awaitFirst(flying.shift()!);
        this.#settings.stop(this.#done);
        if (begin === steps.length) continue;
        flying.push(this.#submit(begin));
        begin = flying.at(-1)!.end;
      }
    } finally {
      await Promise.allSettled(flying.map((submission) => submission.done));
    }
  }

  // Steps from `begin` on: at least one, and no more than are predicted to keep the submission short.
  #submit(begin: number): Submission {
    const { plan, state } = this.#loaded;
    const budget = (this.#settings.submissionMs / 1000) * (begin === 0 ? firstSubmission : 1);
    let predicted = state.pace.seconds(plan.steps[begin]!);
    let end = begin + 1;
    for (; end < plan.steps.length && end - begin < mostSteps; ++end) {
      const more = state.pace.seconds(plan.steps[end]!);
      if (predicted + more > budget) break;
      predicted += more;
    }
    const { error } = state.scoped(() => {
      const encoder = state.device.createCommandEncoder({ label: stepLabel(plan.steps[begin]!) });
      this.#encode(encoder, begin, end);
      state.device.queue.submit([encoder.finish()]);
    });
    const [first, last] = [stepLabel(plan.steps[begin]!), stepLabel(plan.steps[end - 1]!)];
    const where = `running steps ${begin} '${first}' to ${end - 1} '${last}'`;
    const done = Promise.all([error, state.guard(state.device.queue.onSubmittedWorkDone())]).then(([found]) => {
      if (found) throw scopeError(found, where);
    });
    done.catch(() => {}); // also heard by #awaitFirst
    return { end, done, predicted, submitted: performance.now() };
  }

  #encode(encoder: GPUCommandEncoder, begin: number, end: number): void {
    const { plan, buffers, pipelines, groups } = this.#loaded;
    let pass: GPUComputePassEncoder | null = null;
    const endPass = () => {
      pass?.end();
      pass = null;
    };
    for (let i = begin; i < end; ++i) {
      const step: Step = plan.steps[i]!;
      if (step.op === "dispatch") {
        pass ??= encoder.beginComputePass(this.#passDescriptor(i, end));
        pass.setPipeline(pipelines.get(step.kernel)!.pipeline);
        pass.setBindGroup(0, groups[i]!);
        pass.dispatchWorkgroups(...step.groups);
        ++this.#encoded;
        if (this.#options.profile) endPass();
        continue;
      }
      endPass();
      if (step.op === "copy") {
        const { from, to } = step;
        encoder.copyBufferToBuffer(buffers[from.buffer]!, from.offset, buffers[to.buffer]!, to.offset, from.size);
      } else {
        encoder.clearBuffer(buffers[step.range.buffer]!, step.range.offset, step.range.size);
      }
    }
    endPass();
  }

  #passDescriptor(step: number, end: number): GPUComputePassDescriptor {
    const label = stepLabel(this.#loaded.plan.steps[step]!);
    if (!this.#times) return { label };
    if (this.#options.profile)
      return { label, timestampWrites: this.#times.writes(2 * this.#encoded, 2 * this.#encoded + 1) };
    let passEnd = step;
    while (passEnd < end && this.#loaded.plan.steps[passEnd]!.op === "dispatch") ++passEnd;
    const first = step === this.#dispatches[0];
    const last = this.#dispatches.at(-1)! < passEnd;
    if (!first && !last) return { label };
    return { label, timestampWrites: this.#times.writes(first ? 0 : null, last ? 1 : null) };
  }

  async #awaitFirst(submission: Submission): Promise<void> {
    await submission.done;
    const { plan, state } = this.#loaded;
    const now = performance.now();
    state.pace.observe(submission.predicted, (now - Math.max(this.#lastDone, submission.submitted)) / 1000);
    this.#lastDone = now;
    for (; this.#done < submission.end; ++this.#done) this.#doneWeight += this.#weights[this.#done]!;
    this.#settings.stop(this.#done);
    const steps = plan.steps.length;
    const fraction = this.#done === steps ? 1 : Math.min(1, this.#doneWeight / this.#totalWeight);
    const seconds = (now - this.#start) / 1000;
    this.#options.onProgress?.({
      fraction,
      label: stepLabel(plan.steps[this.#done - 1]!),
      step: this.#done,
      steps,
      secondsLeft: fraction === 1 ? 0 : seconds < warmUp ? null : (seconds * (1 - fraction)) / fraction,
    });
  }

  async #read(): Promise<Record<string, TensorValue>> {
    const { plan, buffers, readback } = this.#loaded;
    const outputs: Record<string, TensorValue> = {};
    const reads: Read[] = [];
    for (const port of [...plan.outputs, ...chosenCaptures(plan.captures, this.#options.captures)]) {
      const data = new Uint8Array(portBytes(port));
      outputs[port.name] = { dtype: port.dtype, shape: [...port.shape], data };
      for (const { hostOffset, range } of port.pieces) {
        const part = data.subarray(hostOffset, hostOffset + range.size);
        reads.push({ buffer: buffers[range.buffer]!, offset: range.offset, size: range.size, data: part });
      }
    }
    await readback.read(reads);
    return outputs;
  }

  #checkFinite(outputs: Record<string, TensorValue>): void {
    for (const { name } of this.#loaded.plan.outputs) {
      const at = firstNonFinite(outputs[name]!);
      if (at < 0) continue;
      throw new GyrusError("non-finite", `[${name}] element ${at} of the result is not finite; the network ` +
        "overflowed or the driver is at fault", { hints: ["single-precision", "other-device"] });
    }
  }

  #profile(times: number[]): Pick<RunResult, "gpuMs" | "profile"> {
    const total = Math.max(0, ...times.filter((_, i) => i % 2 === 1));
    const gpuMs = total > 0 ? total * 1e-6 : null;
    if (!this.#options.profile) return { gpuMs, profile: [] };
    const { steps, kernels } = this.#loaded.plan;
    const profile = this.#dispatches.map((step, i) => {
      const { label, kernel } = steps[step] as Step & { op: "dispatch" };
      return { label, kernel: kernels[kernel]!.name, ms: Math.max(0, times[2 * i + 1]! - times[2 * i]!) * 1e-6 };
    });
    return { gpuMs, profile };
  }
}
