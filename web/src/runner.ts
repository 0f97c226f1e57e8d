// One run of a loaded plan: upload, submissions of bounded length with at most two on their way, readback. What is
// small is read back on the last submission.

import { Allocations } from "./allocations.js";
import { scopeError } from "./device-state.js";
import { GyrusError } from "./errors.js";
import type { LoadedPlan } from "./load.js";
import { portBytes, stepLabel, type PlanPort, type Step } from "./plan.js";
import { argumentBytes, checkFinite, checkReported, chosenResults } from "./ports.js";
import { readBytes, upload, type Read, type Write } from "./staging.js";
import { isDeviceTensor } from "./tensors.js";
import { Timestamps } from "./timestamps.js";
import type { DeviceTensor, Inputs, RunOptions, RunResult, TensorValue } from "./types.js";

const inFlight = 2; // one runs, the next waits: the GPU is never idle
const firstSubmission = 0.25; // of the usual length, since nothing was measured yet
const mostSteps = 500; // in a submission, which bounds the time that encoding holds the thread
const warmUp = 0.2; // seconds after which a time left can be told
const ridingBytes = 2 ** 20; // of readbacks that go with the last submission

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

export class Runner {
  #loaded: LoadedPlan;
  #options: RunOptions;
  #settings: RunSettings;
  #weights: number[]; // of each step in the progress
  #totalWeight: number;
  #doneWeight = 0;
  #done = 0; // steps
  #submitted = 0; // steps
  #start = performance.now();
  #times: Timestamps | null = null;
  #timesRead: Read | null = null;
  #dispatches: number[]; // steps that are dispatches
  #encoded = 0; // dispatches
  #fromDevice: [PlanPort, DeviceTensor][] = []; // inputs
  #kept: [PlanPort, GPUBuffer][] = []; // outputs
  #report: Read | null = null;
  #riding: Read[] = []; // read back on the last submission
  #staging: GPUBuffer | null = null; // through this
  #outputs: Record<string, TensorValue> = {};
  #waiting: Read[] = []; // read back behind it
  #flying: Submission[] = [];
  #uploadedBytes = 0;

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
    if (timed && this.#dispatches.length > 0)
      this.#times = options.profile ? new Timestamps(state, loaded.allocations, 2 * this.#dispatches.length)
        : (loaded.times ??= new Timestamps(state, new Allocations(state), 2));
    if (plan.report) this.#report = this.#readOf(plan.report, new Uint8Array(plan.report.size));
  }

  /** Whether a step that writes a state is on its way or done. */
  get stateChanged(): boolean {
    return this.#submitted > this.#loaded.writes.first;
  }

  /** Until all is submitted: the last submissions are still on their way. */
  async begin(inputs: Inputs): Promise<void> {
    const { read, keep } = chosenResults(this.#loaded.plan, this.#options);
    try {
      const { outputs, reads } = this.#reads(read);
      this.#outputs = outputs;
      this.#waiting = await this.#prepare(inputs, keep, reads);
      await this.#submitAll();
    } catch (error) {
      await this.#leave(true);
      throw error;
    }
  }

  /** And to the results. */
  async end(): Promise<RunResult> {
    const { plan, readback, allocations } = this.#loaded;
    try {
      await this.#arrived();
      this.#loaded.state.check();
      if (this.#report) checkReported(plan, this.#report.data);
      await readback.read(this.#waiting);
      this.#loaded.state.check();
      const outputs = this.#outputs;
      if (this.#settings.checkFinite) checkFinite(plan, outputs);
      const kept: Record<string, DeviceTensor> = {};
      for (const [{ name, dtype, shape }, buffer] of this.#kept) {
        allocations.disown(buffer);
        kept[name] = { dtype, shape: [...shape], buffer };
      }
      const readBackBytes = readBytes(this.#riding) + readBytes(this.#waiting);
      await this.#leave(false);
      return {
        outputs, kept, uploadedBytes: this.#uploadedBytes, readBackBytes,
        wallMs: performance.now() - this.#start, ...this.#profile(),
      };
    } catch (error) {
      await this.#leave(true);
      throw error;
    }
  }

  // The steps end, and what rides on the last of them comes: asked for at once, since each asking is a way to the device
  // and back.
  async #arrived(): Promise<void> {
    const taken = this.#staging ? this.#loaded.readback.take(this.#staging, this.#riding) : Promise.resolve();
    taken.catch(() => {}); // heard below, unless a step fails
    while (this.#flying.length > 0) await this.#awaitFirst(this.#flying.shift()!);
    await taken;
    if (this.#staging) this.#loaded.readback.giveBack(this.#staging);
    this.#staging = null;
  }

  async #leave(failed: boolean): Promise<void> {
    await Promise.allSettled(this.#flying.map((submission) => submission.done));
    this.#flying.length = 0;
    if (failed) for (const [, buffer] of this.#kept) this.#loaded.allocations.destroy(buffer);
    if (this.#staging) this.#loaded.readback.drop(this.#staging);
    this.#staging = null;
    if (this.#times !== this.#loaded.times) this.#times?.destroy();
  }

  #readOf({ buffer, offset, size }: { buffer: number; offset: number; size: number }, data: Uint8Array): Read {
    return { buffer: this.#loaded.buffers[buffer]!, offset, size, data };
  }

  #reads(ports: PlanPort[]): { outputs: Record<string, TensorValue>; reads: Read[] } {
    const outputs: Record<string, TensorValue> = {};
    const reads = ports.flatMap((port) => {
      const data = new Uint8Array(portBytes(port));
      outputs[port.name] = { dtype: port.dtype, shape: [...port.shape], data };
      return port.pieces.map(({ hostOffset, range }) =>
        this.#readOf(range, data.subarray(hostOffset, hostOffset + range.size)));
    });
    return { outputs, reads };
  }

  // Everything that the steps need; answers with what is left to read after them.
  async #prepare(inputs: Inputs, keep: PlanPort[], reads: Read[]): Promise<Read[]> {
    const { allocations, readback } = this.#loaded;
    await this.#times?.ready;
    await this.#upload(inputs);
    for (const port of keep) {
      const { COPY_DST, COPY_SRC, STORAGE } = GPUBufferUsage;
      const size = Math.ceil(portBytes(port) / 4) * 4;
      const { buffer, ready } = allocations.create(port.name, size, STORAGE | COPY_SRC | COPY_DST);
      this.#kept.push([port, buffer]);
      await ready;
    }
    this.#timesRead = this.#times?.read() ?? null;
    const always = [this.#report, this.#timesRead].filter((read) => read != null);
    const small = readBytes(reads) <= ridingBytes;
    this.#riding = small ? [...always, ...reads] : always;
    this.#staging = await readback.borrow(this.#riding);
    return small ? [] : reads;
  }

  async #upload(inputs: Inputs): Promise<void> {
    const { plan, state, buffers } = this.#loaded;
    const writes: Write[] = [];
    for (const port of plan.inputs) {
      const input = inputs[port.name]!;
      if (isDeviceTensor(input)) this.#fromDevice.push([port, input]);
      else
        for (const { hostOffset, range } of port.pieces) {
          const data = input.data.subarray(hostOffset, hostOffset + range.size);
          writes.push({ buffer: buffers[range.buffer]!, offset: range.offset, size: range.size, data });
        }
    }
    const at = plan.buffers.findIndex(({ kind }) => kind === "arguments");
    if (at >= 0) {
      const { size } = plan.buffers[at]!;
      const data = argumentBytes(plan.arguments, this.#options.arguments ?? {}, size);
      writes.push({ buffer: buffers[at]!, offset: 0, size, data });
    }
    this.#uploadedBytes = writes.reduce((sum, write) => sum + write.size, 0);
    await upload(state, "uploading the inputs", writes);
  }

  async #submitAll(): Promise<void> {
    const { steps } = this.#loaded.plan;
    do {
      if (this.#flying.length === inFlight) await this.#awaitFirst(this.#flying.shift()!);
      this.#settings.stop(this.#done);
      this.#flying.push(this.#submit(this.#submitted));
    } while (this.#submitted < steps.length);
  }

  // Where a submission from `begin` on ends: after at least one step, and before it is predicted to be too long.
  #next(begin: number): { end: number; predicted: number } {
    const { plan, state } = this.#loaded;
    const budget = (this.#settings.submissionMs / 1000) * (begin === 0 ? firstSubmission : 1);
    let predicted = 0;
    let end = begin;
    for (; end < plan.steps.length && end - begin < mostSteps; ++end) {
      const more = state.pace.seconds(plan.steps[end]!);
      if (end > begin && predicted + more > budget) break;
      predicted += more;
    }
    return { end, predicted };
  }

  #submit(begin: number): Submission {
    const { plan, state } = this.#loaded;
    const { end, predicted } = this.#next(begin);
    const name = (index: number) => (plan.steps[index] ? `${index} '${stepLabel(plan.steps[index])}'` : "none");
    const { error } = state.scoped(() => {
      const encoder = state.device.createCommandEncoder({ label: name(begin) });
      if (begin === 0) this.#encodeHead(encoder);
      this.#encode(encoder, begin, end);
      if (end === plan.steps.length) this.#encodeTail(encoder);
      state.device.queue.submit([encoder.finish()]);
    });
    this.#submitted = end;
    const where = `running steps ${name(begin)} to ${name(end - 1)}`;
    const done = Promise.all([error, state.guard(state.device.queue.onSubmittedWorkDone())]).then(([found]) => {
      if (found) throw scopeError(found, where);
    });
    done.catch(() => {}); // also heard by #awaitFirst
    return { end, done, predicted, submitted: performance.now() };
  }

  // Before the first step: nothing is reported, and inputs that lie on the device go where the plan wants them.
  #encodeHead(encoder: GPUCommandEncoder): void {
    const { buffers } = this.#loaded;
    if (this.#report) encoder.clearBuffer(this.#report.buffer, this.#report.offset, this.#report.size);
    for (const [port, { buffer, offset = 0 }] of this.#fromDevice)
      for (const { hostOffset, range } of port.pieces)
        encoder.copyBufferToBuffer(buffer, offset + hostOffset, buffers[range.buffer]!, range.offset, range.size);
  }

  // After the last one: outputs that stay on the device, and small readbacks.
  #encodeTail(encoder: GPUCommandEncoder): void {
    const { buffers, readback } = this.#loaded;
    for (const [port, buffer] of this.#kept)
      for (const { hostOffset, range } of port.pieces)
        encoder.copyBufferToBuffer(buffers[range.buffer]!, range.offset, buffer, hostOffset, range.size);
    this.#times?.resolve(encoder);
    if (this.#staging) readback.encode(encoder, this.#staging, this.#riding);
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
    state.pace.observe(submission.predicted, state.pace.taken(submission.submitted, now));
    for (; this.#done < submission.end; ++this.#done) this.#doneWeight += this.#weights[this.#done]!;
    this.#settings.stop(this.#done);
    const steps = plan.steps.length;
    const fraction = this.#done === steps ? 1 : Math.min(1, this.#doneWeight / this.#totalWeight);
    const seconds = (now - this.#start) / 1000;
    this.#options.onProgress?.({
      fraction,
      label: steps > 0 ? stepLabel(plan.steps[this.#done - 1]!) : "",
      step: this.#done,
      steps,
      secondsLeft: fraction === 1 ? 0 : seconds < warmUp ? null : (seconds * (1 - fraction)) / fraction,
    });
  }

  #profile(): Pick<RunResult, "gpuMs" | "profile"> {
    const times = this.#timesRead ? Timestamps.times(this.#timesRead) : [];
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
