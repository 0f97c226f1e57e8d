// Training: the counterpart of gyrus/trainer.h.

import type { OpenDevice } from "./device.js";
import { GyrusError } from "./errors.js";
import { Memory } from "./memory.js";
import type { NetworkGraph } from "./network-graph.js";
import { readSafetensors, writeSafetensors } from "./safetensors.js";
import { opened, ShapedPlans, type PlanningOptions, type ProgramResult } from "./shaped-plans.js";
import { Trainee, TrainingCompiler, type NetworkFiles, type StepKind } from "./trainee.js";
import type { DeviceTensor, HostTensor, PlanLimits, RunOptions, TensorValue } from "./types.js";
import type { WasmSource } from "./wasm.js";
import { Weights } from "./weights.js";

/** What each kind means by its numbers is what PyTorch means; those of other kinds are not looked at. */
export interface Optimizer {
  kind?: "sgd" | "adam" | "adamw" | "rmsprop" | "adagrad" | "lion"; // "adam" unless given
  weightDecay?: number; // adamw and lion: taken off the parameter; others: added to the gradient
  momentum?: number; // sgd, rmsprop
  dampening?: number; // sgd
  nesterov?: boolean; // sgd
  beta1?: number; // 0.9; adam, adamw, lion
  beta2?: number; // 0.999, of lion 0.99
  eps?: number; // 1e-8; adam, adamw, rmsprop, adagrad
  amsgrad?: boolean; // adam, adamw
  alpha?: number; // 0.99; rmsprop
  centered?: boolean; // rmsprop
  lrDecay?: number; // adagrad
  initialAccumulator?: number; // adagrad
}

/** The learning rate of every step; nothing is compiled again for it. */
export interface Schedule {
  kind?: "constant" | "step" | "multi_step" | "exponential" | "cosine" | "warmup_cosine" | "one_cycle";
  rate?: number; // 1e-3; the base, of one_cycle the largest
  gamma?: number; // 0.1; step, multi_step, exponential
  stepSize?: number; // step, which needs it
  milestones?: number[]; // multi_step
  least?: number; // cosine, warmup_cosine
  total?: number; // cosine, warmup_cosine: steps of the cosine; one_cycle: all; they need it
  warmup?: number; // warmup_cosine: steps before it
  start?: number; // warmup_cosine: part of the rate at step 0
  rising?: number; // 0.3; one_cycle: part of all steps
  div?: number; // 25; one_cycle: largest over first
  finalDiv?: number; // 1e4; one_cycle: first over last
  linear?: boolean; // one_cycle: not by cosines
}

/** Parameters whose names match, with what differs for them. The first group that matches counts. */
export interface ParameterGroup {
  pattern: string; // "*" stands for any characters
  weightDecay?: number;
  rate?: number; // times the learning rate
  frozen?: boolean; // not trained
}

/**
 * Keeps small gradients from becoming 0 where maps are stored in halves (precision "f16"): the loss is multiplied before
 * gradients are taken, and they are divided again. A step whose gradients are not finite changes nothing and halves the
 * scale, at the least scale it is "non-finite"; after `patience` good updates in a row it is doubled.
 */
export interface LossScaling {
  start?: number; // 65536
  patience?: number; // 2000
  least?: number; // 1
  most?: number; // 2^24
}

export interface TrainerOptions extends PlanningOptions {
  /** The output, one f32, that is made smaller; "loss" unless given. */
  loss?: string;
  optimizer?: Optimizer;
  schedule?: Schedule;
  groups?: ParameterGroup[];
  /** The largest norm of all gradients together. */
  clipNorm?: number;
  normType?: 1 | 2 | typeof Infinity;
  /** The largest size of every element, before the norm. */
  clipValue?: number;
  /** Gradients of so many steps are averaged before parameters change. */
  accumulate?: number;
  /** An exponential average of every parameter, with this decay, in the state "average/NAME". */
  average?: number;
  lossScaling?: LossScaling;
  /** What the way back makes again instead of keeping it: nothing, results of norms ("norms", unless given), or everything
   *  elementwise as well. */
  recompute?: "none" | "norms" | "cheap";
  /** Of the random numbers of a network with dropout; 0 unless given. */
  seed?: number;
  /** Where states live; a memory of the trainer's own unless given. */
  memory?: Memory;
  /** The compiler, which several trainers may share, or where its module lies; see TrainingCompiler.load. */
  compiler?: TrainingCompiler;
  wasm?: WasmSource;
}

/** As for a plan, but outputs are read where they are named alone; captures may name "gradient/NAME". */
export type StepOptions = RunOptions;

export interface StepResult extends ProgramResult {
  loss: number;
  updated: boolean; // false while gradients are only collected, and where the step was skipped
  skipped: boolean; // gradients were not finite; the loss scale is smaller now
}

type Tensors = Record<string, HostTensor | DeviceTensor>;

const counts = "trainer/counts"; // of a saved file: updates, steps that only collected since, all steps, seed
const countsKept = 4;
const scaling = "trainer/loss_scaling"; // likewise: scale, good updates since it changed, skipped updates
const scalingKept = 3;
const ownStates = ["optimizer/", "accumulated/"];

function invalid(subject: string, message: string): GyrusError {
  return new GyrusError("invalid-input", `[${subject}] ${message}`);
}

const listed = (names: string[]) => names.join(", ") || "none";

/**
 * Trains a network on a device: a graph with a loss, whose parameters are its states. Training and inference are compiled
 * apart and share one Memory; plans are made for the shapes that come.
 *
 * ```ts
 * const trainer = await Trainer.create(device, graph, { optimizer: { kind: "adamw" }, schedule: { rate: 0.01 } });
 * for (const batch of batches) console.log((await trainer.step(batch)).loss);
 * const { outputs } = await trainer.run({ image });
 * trainer.destroy();
 * ```
 *
 * Calls take turns in the order in which they come, so several may be under way. A loss that is not finite is
 * "non-finite", naming the step and the first node whose values are not finite: all states are then those of the last
 * good step.
 */
export class Trainer {
  readonly device: GPUDevice;
  /** With all states of the network and of the optimiser, once prepare() or a step has planned. */
  readonly memory: Memory;
  #trainee: Trainee;
  #options: TrainerOptions;
  #schedule: Schedule;
  #weights = new Weights();
  #plans: Record<StepKind, ShapedPlans>;
  #seed: number;
  #updates = 0;
  #collected = 0;
  #steps = 0;
  #scale = 1;
  #good = 0; // updates since the scale changed
  #skipped = 0;
  #last: Promise<unknown> = Promise.resolve();
  #destroyed = false;

  private constructor(trainee: Trainee, device: GPUDevice, limits: PlanLimits, options: TrainerOptions) {
    this.device = device;
    this.memory = options.memory ?? new Memory(device);
    this.#trainee = trainee;
    this.#options = options;
    this.#schedule = options.schedule ?? {};
    this.#seed = options.seed ?? 0;
    this.#resetScale();
    const place = { device, memory: this.memory, weights: this.#weights, limits };
    const plans = (kind: StepKind, checkFinite: boolean) => new ShapedPlans("trainer", place,
      (request) => trainee.plan(kind, request), false, { ...options, checkFinite });
    const checked = options.checkFinite ?? false;
    this.#plans = { update: plans("update", checked), collect: plans("collect", checked),
      inference: plans("inference", checked), forward: plans("forward", true) };
  }

  /** Compiles the network. Throws what is wrong with it and the options; nothing is planned before the first step. */
  static async create(
    device: GPUDevice | OpenDevice, network: NetworkGraph | NetworkFiles, options: TrainerOptions = {},
  ): Promise<Trainer> {
    const wasm = options.wasm === undefined ? {} : { wasm: options.wasm };
    const compiler = options.compiler ?? (await TrainingCompiler.load(wasm));
    const trainee = new Trainee(compiler, network, trainingOptions(options));
    try {
      trainee.rate(options.schedule ?? {}, 0);
      const { device: open, limits } = await opened(device);
      return new Trainer(trainee, open, options.limits ?? limits, options);
    } catch (error) {
      trainee.close();
      throw error;
    }
  }

  /** Of the parameters that are trained. */
  names(): string[] {
    return [...this.#trainee.names];
  }

  /** Made so far. */
  get updates(): number {
    return this.#updates;
  }

  /** So far, with those that only collected; the next one draws with it. */
  get steps(): number {
    return this.#steps;
  }

  /** Of the next update. */
  get rate(): number {
    return this.#trainee.rate(this.#schedule, this.#updates);
  }

  /** Of the next step; 1 without loss scaling. */
  get lossScale(): number {
    return this.#scale;
  }

  /** Updates so far that were not made, since gradients were not finite. */
  get skipped(): number {
    return this.#skipped;
  }

  /** Bytes of its buffers on the device, without states. */
  get allocatedBytes(): number {
    return Object.values(this.#plans).reduce((sum, plans) => sum + plans.allocatedBytes, this.#weights.bytes);
  }

  /** From the next step on. */
  setSchedule(schedule: Schedule): void {
    this.#trainee.rate(schedule, 0); // what is wrong is said now
    this.#schedule = schedule;
  }

  /** Plans steps for inputs of these shapes, those of the network unless given; its states are in the memory then. */
  prepare(shapes: Record<string, number[]> = {}): Promise<void> {
    return this.#inTurn(async () => {
      await this.#plans.update.prepare({ ...this.#trainee.shapes, ...shapes });
    });
  }

  /**
   * One step: forward, backward, and, unless gradients are collected, the update. The result has the loss, and outputs and
   * captures that `options` name.
   */
  step(inputs: Tensors, options: StepOptions = {}): Promise<StepResult> {
    return this.#inTurn(() => this.#step(inputs, options));
  }

  /** The network without its loss, for batches of any size. */
  run(inputs: Tensors, options: RunOptions = {}): Promise<ProgramResult> {
    return this.#inTurn(() => this.#plans.inference.run(inputs, options));
  }

  parameters(): Promise<Record<string, TensorValue>> {
    return this.#inTurn(async () => {
      await this.#prepare();
      const all: Record<string, TensorValue> = {};
      for (const name of this.#trainee.names) all[name] = await this.memory.read(name);
      return all;
    });
  }

  /** Replaces parameters: all of them, or with `partial` some. Names that are unknown or missing are "invalid-input". */
  setParameters(values: Record<string, TensorValue>, { partial = false } = {}): Promise<void> {
    return this.#inTurn(async () => {
      await this.#prepare();
      const names = this.#trainee.names;
      const unknown = Object.keys(values).filter((name) => !names.includes(name));
      const missing = names.filter((name) => !Object.hasOwn(values, name));
      if (unknown.length > 0)
        throw invalid("parameters", `there are none of the names ${listed(unknown)}; there are: ${listed(names)}`);
      if (!partial && missing.length > 0)
        throw invalid("parameters", `missing are ${listed(missing)}; give all, or say that some are enough`);
      await this.memory.write(values);
    });
  }

  /** The optimiser as it was at first, and the count of steps; parameters stay. */
  resetOptimizer(): Promise<void> {
    return this.#inTurn(async () => {
      await this.#prepare();
      await this.memory.reset(this.memory.names.filter((name) => ownStates.some((prefix) => name.startsWith(prefix))));
      this.#updates = this.#collected = this.#steps = 0;
      this.#resetScale();
    });
  }

  /**
   * Everything that the next step depends on, as the bytes of a safetensors file: parameters, the optimiser's states,
   * counts. After load() the losses are those that would have followed save(), here and in C++.
   */
  save(): Promise<Uint8Array<ArrayBuffer>> {
    return this.#inTurn(async () => {
      await this.#prepare();
      const all: Record<string, TensorValue> = {};
      for (const name of this.memory.names) all[name] = await this.memory.read(name);
      const data = new Uint8Array(new Int32Array([this.#updates, this.#collected, this.#steps, this.#seed]).buffer);
      all[counts] = { dtype: "i32", shape: [countsKept], data };
      if (this.#options.lossScaling) {
        const values = new Float32Array([this.#scale, this.#good, this.#skipped]);
        all[scaling] = { dtype: "f32", shape: [scalingKept], data: new Uint8Array(values.buffer) };
      }
      return writeSafetensors(all);
    });
  }

  load(file: Uint8Array): Promise<void> {
    return this.#inTurn(async () => {
      await this.#prepare();
      const { [counts]: counted, [scaling]: scaled, ...states } = readSafetensors(file);
      if (counted?.dtype !== "i32" || counted.shape.length !== 1 || counted.shape[0] !== countsKept)
        throw invalid("checkpoint", `has no '${counts}': it was not saved by a trainer`);
      const scales = this.#options.lossScaling !== undefined;
      if (scales && (scaled?.dtype !== "f32" || scaled.shape.length !== 1 || scaled.shape[0] !== scalingKept))
        throw invalid("checkpoint", `has no '${scaling}': it was saved without loss scaling`);
      const missing = this.memory.names.filter((name) => !Object.hasOwn(states, name));
      if (missing.length > 0) throw invalid("checkpoint", `has no ${listed(missing)}`);
      await this.memory.write(states);
      const [updates, collected, steps, seed] = new Int32Array(counted.data.buffer);
      [this.#updates, this.#collected, this.#steps, this.#seed] = [updates!, collected!, steps!, seed!];
      if (!scales) return;
      const [scale, good, skipped] = new Float32Array(scaled!.data.buffer);
      [this.#scale, this.#good, this.#skipped] = [scale!, good!, skipped!];
    });
  }

  /** Frees everything but the device, and a memory that was given. Twice does no harm. */
  destroy(): void {
    if (this.#destroyed) return;
    this.#destroyed = true;
    for (const plans of Object.values(this.#plans)) plans.destroy();
    this.#weights.destroy();
    this.#trainee.close();
    if (!this.#options.memory) this.memory.destroy();
  }

  #inTurn<T>(body: () => Promise<T>): Promise<T> {
    const result = this.#last.then(() => {
      if (this.#destroyed) throw new GyrusError("cancelled", "[trainer] was destroyed; create a new one");
      return body();
    });
    this.#last = result.catch(() => {});
    return result;
  }

  async #prepare(): Promise<void> {
    if (!this.memory.has(this.#trainee.names[0]!)) await this.#plans.update.prepare(this.#trainee.shapes);
  }

  async #step(inputs: Tensors, options: StepOptions): Promise<StepResult> {
    const { loss: name = "loss", accumulate = 1, lossScaling } = this.#options;
    const updates = this.#collected + 1 >= accumulate;
    const watches = lossScaling !== undefined && updates && !isAsked(options.captures, overflow);
    const drawn = { ...options.arguments, ...this.#randomKey() };
    const more: Record<string, number> = updates ? { learning_rate: this.rate, step: this.#updates + 1 } : {};
    if (lossScaling) more.loss_scale = this.#scale;
    const given = { ...options, outputs: [...new Set([...(options.outputs ?? []), name])], arguments: { ...drawn, ...more } };
    if (watches) given.captures = [...(options.captures || []) as string[], overflow];
    const result = await this.#plans[updates ? "update" : "collect"].run(inputs, given);
    const loss = firstFloat(result.outputs[name]!);
    if (!Number.isFinite(loss)) throw await this.#refusal(inputs, drawn, loss);
    const skipped = lossScaling !== undefined && updates && firstFloat(result.outputs[overflow]!) !== 0;
    if (skipped && this.#scale <= (lossScaling.least ?? 1)) {
      this.#collected = 0;
      throw this.#overflowed();
    }
    if (lossScaling && updates) this.#adaptScale(skipped);
    if (watches) delete result.outputs[overflow];
    this.#collected = updates ? 0 : this.#collected + 1;
    if (updates && !skipped) ++this.#updates;
    ++this.#steps;
    return { ...result, loss, updated: updates && !skipped, skipped };
  }

  #resetScale(): void {
    this.#scale = this.#options.lossScaling ? this.#options.lossScaling.start ?? 65536 : 1;
    this.#good = this.#skipped = 0;
  }

  // After an update, or one that was not made.
  #adaptScale(skipped: boolean): void {
    const { patience = 2000, least = 1, most = 2 ** 24 } = this.#options.lossScaling!;
    this.#skipped += Number(skipped);
    this.#good = skipped ? 0 : this.#good + 1;
    if (skipped) this.#scale = Math.max(this.#scale / 2, least);
    if (this.#good < patience) return;
    this.#scale = Math.min(this.#scale * 2, most);
    this.#good = 0;
  }

  #overflowed(): GyrusError {
    return new GyrusError("non-finite", `[training] gradients of step ${this.#updates + 1} are not finite at the least ` +
      `loss scale, ${this.#scale}; parameters are those of the last good step; lower the learning rate, clip gradients, ` +
      "give a smaller least scale or store maps in f32");
  }

  // Of a network that draws random numbers.
  #randomKey(): Record<string, number> {
    const key = { random_seed: this.#seed, random_step: this.#steps };
    return Object.fromEntries(Object.entries(key).filter(([name]) => this.#trainee.arguments.includes(name)));
  }

  // Nothing was updated. The step again, with every value tested, says where it went wrong.
  async #refusal(inputs: Tensors, args: Record<string, number>, loss: number): Promise<GyrusError> {
    let where = "every node is finite when it is run again";
    try {
      await this.#plans.forward.run(inputs, { arguments: args });
    } catch (error) {
      where = (error as Error).message;
    }
    const kept = await this.#areParametersFinite() ? "parameters are those of the last good step" : "parameters are not " +
      "finite since the update before, whose gradients or rate were too large: load what was saved";
    return new GyrusError("non-finite", `[training] the loss of step ${this.#updates + 1} is ${loss}; ${kept}; ${where}`);
  }

  async #areParametersFinite(): Promise<boolean> {
    for (const name of this.#trainee.names) {
      const { data } = await this.memory.read(name);
      if (!new Float32Array(data.slice().buffer).every(Number.isFinite)) return false;
    }
    return true;
  }
}

const overflow = "overflow"; // a capture, with loss scaling: not 0 where gradients are not finite

const isAsked = (captures: boolean | string[] | undefined, name: string) =>
  Array.isArray(captures) ? captures.includes(name) : captures === true;

const firstFloat = ({ data }: HostTensor) => new DataView(data.buffer, data.byteOffset).getFloat32(0, true);

// Without what concerns plans and devices; JSON has no infinity.
function trainingOptions(options: TrainerOptions): object {
  const { precision: _precision, limits: _limits, checkFinite: _finite, keepPlans: _keep, submissionMs: _ms,
    onPlanned: _planned, schedule: _schedule, seed: _seed, memory: _memory, compiler: _compiler, wasm: _wasm, normType, ...rest } = options;
  return normType === undefined ? rest : { ...rest, normType: normType === Infinity ? "inf" : String(normType) };
}
