// Language models on a device: the counterpart of gyrus/text.h.

import { cancelledReading, openSource, type TextSource } from "./byte-source.js";
import { dispatchFlops, isSoftware, type DeviceRequest, type OpenDevice } from "./device.js";
import { GyrusError } from "./errors.js";
import { PlanExecutor } from "./executor.js";
import { Memory } from "./memory.js";
import { storedSource } from "./model-store.js";
import { parsePlan } from "./plan.js";
import { opened } from "./shaped-plans.js";
import {
  TextCompiler, TextModel, type ChatMessage, type Configured, type GeneratedToken, type Result, type Step, type StepKind,
  type TextMemory, type TextModelInfo, type TextOptions,
} from "./text-model.js";
import type { NetworkRequest, PlanLimits, RunResult, TensorValue } from "./types.js";
import type { WasmSource } from "./wasm.js";

export interface DescribeOptions {
  /** The compiler, which several generators may share, or where its module lies; see TextCompiler.load. */
  compiler?: TextCompiler;
  wasm?: WasmSource;
  /** Keeps the pieces of a model from an address in the browser's private file system; true unless given. */
  store?: boolean;
  signal?: AbortSignal;
}

export interface TextGeneratorOptions extends TextOptions, DescribeOptions {
  /** Where it runs; opened with requestDevice unless given. One that is given stays open after destroy(). */
  device?: GPUDevice | OpenDevice;
  /** For requestDevice, where no device is given: under Node, `{ gpu: create([]) }`. */
  request?: DeviceRequest;
  /** That plans keep, where that is to be less than the device has. */
  limits?: PlanLimits;
  /** Bytes of weights that are on the device, of all. */
  onProgress?: (loaded: number, total: number) => void;
}

/** How the next token is chosen. What is not given changes nothing. */
export interface Sampling {
  temperature?: number; // 0: the best one
  topK?: number; // among so many best ones
  topP?: number; // among the best ones that have this share of the probability together
  minP?: number; // among those at least so probable as this share of the best one
  repetitionPenalty?: number; // of tokens that the sequence has already: divides a positive score, multiplies others
  seed?: number; // 0 to 2^32 - 1
}

export interface GenerateOptions extends Sampling {
  tokens?: number; // at most; 256 unless given
  stop?: string[]; // generation ends before the first of these texts
  candidates?: number; // log-probabilities of so many best tokens and of the chosen one; none unless given
  keep?: number; // tokens from the start that stay where the context is full and its older half is dropped
  shift?: boolean; // drop them; else generation ends where the context is full. True unless given
  ignoreEnd?: boolean; // go on behind a token that ends a text
  sequence?: number; // of the cache
  onToken?: (token: GeneratedToken) => boolean | void; // called for every token; returning false ends it
  signal?: AbortSignal; // ends it: "cancelled" within the prompt, and later as finish
}

export interface Generated extends Result {
  promptSeconds: number; // until the first token was chosen
  generateSeconds: number; // for the others
}

/** What a model is, and what it takes with these options, before it is loaded. */
export interface TextPlan {
  info: TextModelInfo;
  options: Required<TextOptions>;
  memory: TextMemory;
  chatTemplate: string;
}

const pieceBytes = 16 * 2 ** 20; // of weights on their way
const tokenMs = 8000; // how long the submission of a token may hold the device: it goes in one
const chunkMs = 50;

type Tensors = Record<string, TensorValue>;

const i32 = (shape: number[], data: Uint8Array): TensorValue => ({ dtype: "i32", shape, data });

async function openModel(model: TextSource, options: DescribeOptions): Promise<TextModel> {
  const { compiler, wasm, store = true, signal } = options;
  const named = typeof model === "string" || model instanceof URL;
  const source = await (named && store ? storedSource(model, signal) : openSource(model, signal));
  return TextModel.open(compiler ?? (await TextCompiler.load(wasm === undefined ? {} : { wasm })), source, signal);
}

function requestFor(limits: PlanLimits, software: boolean): NetworkRequest {
  return { shapes: {}, captures: [], precision: "f32", checkFinite: false, software, limits,
    dispatchFlops: dispatchFlops(software) };
}

/**
 * What a model is and what it takes on a device of these limits, to the byte: only the head of its file is read.
 * `software`: a CPU stands in for the GPU.
 */
export async function planTextModel(
  model: TextSource, limits: PlanLimits, options: TextOptions & DescribeOptions & { software?: boolean } = {},
): Promise<TextPlan> {
  const text = await openModel(model, options);
  try {
    const { info, options: used, chatTemplate } = text.configure(options);
    return { info, options: used, chatTemplate, memory: text.memory(requestFor(limits, options.software ?? false)) };
  } finally {
    text.close();
  }
}

/**
 * A language model from a GGUF file on a device. Weights stay in the blocks of the file and go there in pieces; a token is
 * one submission.
 *
 * ```ts
 * const generator = await TextGenerator.load("https://example.org/model.gguf", { onProgress: console.log });
 * const { text, tokens } = generator.chat([{ role: "user", content: "What is a gyrus?" }]);
 * const made = await generator.generate(tokens, { temperature: 0.7, onToken: ({ text }) => console.log(text) });
 * generator.destroy();
 * ```
 *
 * Calls take turns. All errors are {@link GyrusError}s.
 */
export class TextGenerator {
  readonly device: GPUDevice;
  readonly info: TextModelInfo;
  /** As they came out: with the context filled in. */
  readonly options: Required<TextOptions>;
  /** The model's chat template as its file has it; empty where it has none. */
  readonly chatTemplate: string;
  #model: TextModel;
  #about: Configured;
  #request: NetworkRequest;
  #memory: Memory;
  #executors = new Map<string, PlanExecutor>();
  #ownsDevice: boolean;
  #last: Promise<unknown> = Promise.resolve();
  #destroyed = false;

  private constructor(model: TextModel, about: Configured, device: GPUDevice, limits: PlanLimits, ownsDevice: boolean) {
    this.device = device;
    this.info = about.info;
    this.options = about.options;
    this.chatTemplate = about.chatTemplate;
    this.#model = model;
    this.#about = about;
    this.#request = requestFor(limits, isSoftware(device.adapterInfo));
    this.#memory = new Memory(device);
    this.#ownsDevice = ownsDevice;
  }

  /**
   * Loads a model: a file that a person chose, an address whose host answers requests for ranges, bytes, or a source of
   * one's own.
   */
  static async load(model: TextSource, options: TextGeneratorOptions = {}): Promise<TextGenerator> {
    const text = await openModel(model, options);
    let generator: TextGenerator | undefined;
    try {
      const about = text.configure(options);
      const { device, limits } = await opened(options.device, options.request);
      generator = new TextGenerator(text, about, device, options.limits ?? limits, !options.device);
      await generator.#load(options);
      return generator;
    } catch (error) {
      if (generator) generator.destroy();
      else text.close();
      throw error;
    }
  }

  /** As allocated. */
  get memory(): TextMemory {
    const names = new Set(this.#about.weights.map(({ name }) => name));
    const bytes = [...names].reduce((sum, name) => sum + this.#stateBytes(name), 0);
    const scratch = [...this.#executors.values()].reduce((sum, { plan }) => sum + ownBytes(plan.buffers), 0);
    return { weights: bytes, cache: this.#memory.bytes - bytes, scratch };
  }

  /**
   * `special`: texts of control tokens are those tokens, as in the output of a chat template. `begin`: with the token that
   * begins a text, where the model wants one.
   */
  tokenize(text: string, { special = false, begin = true } = {}): number[] {
    return this.#model.tokenize(text, special, begin);
  }

  textOf(tokens: number[], { special = false } = {}): string {
    return this.#model.textOf(tokens, special);
  }

  endsText(token: number): boolean {
    return this.#model.endsText(token);
  }

  /** The prompt for the next answer, as the model's chat template makes it; `variables` are what else it is told. */
  chat(messages: ChatMessage[], variables: Record<string, unknown> = {}): { text: string; tokens: number[] } {
    return this.#model.chat(messages, variables);
  }

  /**
   * Goes on behind a prompt. What the prompt shares with the start of what the sequence holds already is not computed
   * again.
   */
  async generate(prompt: string | number[], options: GenerateOptions = {}): Promise<Generated> {
    return (await this.#inTurn(() => this.#write([prompt], [options])))[0]!;
  }

  /** Several prompts at once, each in a sequence of its own, a token of all of them in one submission. */
  generateBatch(prompts: (string | number[])[], options: GenerateOptions[]): Promise<Generated[]> {
    return this.#inTurn(() => this.#write(prompts, options.map((each, sequence) => ({ ...each, sequence }))));
  }

  /** The logits behind each of these tokens, f32 [tokens, vocabulary]. */
  logits(tokens: number[], sequence = 0): Promise<TensorValue> {
    return this.#inTurn(async () => {
      const parts = await this.#values(tokens, sequence, "logits");
      const data = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
      parts.reduce((at, part) => (data.set(part, at), at + part.length), 0);
      return { dtype: "f32", shape: [tokens.length, this.info.vocabulary], data };
    });
  }

  /**
   * The mean over the tokens of the last layer's normed values, or the first or last of them, as the file says; of
   * length 1.
   */
  embed(tokens: number[], sequence = 0): Promise<Float32Array> {
    return this.#inTurn(async () => {
      const { width } = this.info;
      const sums = new Float64Array(width);
      const only = { mean: -1, first: 0, last: tokens.length - 1 }[this.#about.pooling];
      let before = 0;
      for (const part of await this.#values(tokens, sequence, "normed")) {
        const values = new Float32Array(part.buffer, part.byteOffset, part.length / 4);
        values.forEach((x, i) => {
          if (only < 0 || before + Math.floor(i / width) === only) sums[i % width]! += x;
        });
        before += values.length / width;
      }
      const length = Math.hypot(...sums);
      if (!Number.isFinite(length))
        throw new GyrusError("non-finite", "[model] the values of the last layer are not finite numbers");
      return Float32Array.from(sums, (x) => (length > 0 ? x / length : 0));
    });
  }

  /** Forgets what a sequence holds. */
  forget(sequence = 0): Promise<void> {
    return this.#inTurn(async () => this.#model.hold([], sequence));
  }

  /** Frees everything; a device that was given to load() stays open. Twice does no harm. */
  destroy(): void {
    if (this.#destroyed) return;
    this.#destroyed = true;
    for (const executor of this.#executors.values()) executor.destroy();
    this.#memory.destroy();
    this.#model.close();
    if (this.#ownsDevice) this.device.destroy();
  }

  #stateBytes(name: string): number {
    return this.#memory.describe(name).shape.reduce((product, extent) => product * extent, 4);
  }

  #inTurn<T>(body: () => Promise<T>): Promise<T> {
    const result = this.#last.then(async () => {
      if (this.#destroyed) throw new GyrusError("cancelled", "[generator] was destroyed; load it again");
      try {
        return await body();
      } catch (error) {
        await this.#recover();
        throw error;
      }
    });
    this.#last = result.catch(() => {});
    return result;
  }

  // After a run that failed the cache is empty, so that the next call can do without what it held.
  async #recover(): Promise<void> {
    if (this.#destroyed || this.#memory.undefined.length === 0) return;
    for (let sequence = 0; sequence < this.options.sequences; ++sequence) this.#model.hold([], sequence);
    await this.#memory.reset(this.#memory.undefined).catch(() => {});
  }

  async #load({ onProgress, signal }: TextGeneratorOptions): Promise<void> {
    for (const rows of this.#about.sizes) {
      if (signal?.aborted) throw cancelledReading(this.#model.source.name);
      await this.#executor("last", rows);
    }
    await this.#upload(onProgress ?? (() => {}), signal);
  }

  // The next piece is read while one is on its way to the device.
  async #upload(onProgress: (loaded: number, total: number) => void, signal?: AbortSignal): Promise<void> {
    const { source } = this.#model;
    const pieces = this.#about.weights.flatMap(({ name, parts }) => parts.flatMap((part) =>
      cutPart(part.bytes, part.unpack).map(([from, to]) => ({ state: name, part, from, to }))));
    const total = pieces.reduce((sum, { from, to }) => sum + to - from, 0);
    const read = (i: number) => {
      const piece = pieces[i];
      const bytes = piece && source.read(piece.part.offset + piece.from, piece.part.offset + piece.to, signal);
      bytes?.catch(() => {}); // heard where it is awaited
      return bytes;
    };
    let loaded = 0;
    let next = read(0);
    for (const [i, { state, part, from, to }] of pieces.entries()) {
      const bytes = await next!;
      next = read(i + 1);
      const values = part.unpack ? this.#model.unpack(part.name, bytes) : bytes;
      await this.#memory.writeBytes(state, part.at + from, values);
      onProgress((loaded += to - from), total);
    }
  }

  async #executor(kind: StepKind, rows: number): Promise<PlanExecutor> {
    const key = `${kind} ${rows}`;
    const known = this.#executors.get(key);
    if (known) return known;
    const { json, weights } = this.#model.plan(kind, rows, this.#request);
    const submissionMs = rows === 1 || kind === "each" ? tokenMs : chunkMs;
    const executor = await PlanExecutor.create(this.device, parsePlan(json, weights), { memory: this.#memory, submissionMs });
    if (this.#destroyed) {
      executor.destroy();
      throw new GyrusError("cancelled", "[generator] was destroyed while it was loaded");
    }
    this.#executors.set(key, executor);
    return executor;
  }

  // Once the step has its place behind those before.
  async #start(step: Step): Promise<{ result: Promise<RunResult> }> {
    if (step.seen) await this.#markSeen(step.seen.sequence, step.seen.tokens);
    const executor = await this.#executor(step.kind, step.rows);
    const inputs: Tensors = { rows: i32([step.rows, 4], step.table), params: i32([step.tokens, 8], step.params) };
    const result = executor.start(inputs, {
      arguments: step.kind === "last" && step.rows > 1 ? { last: step.last } : {},
      captures: step.logits ? ["logits"] : [],
    });
    result.catch(() => {}); // heard where it is awaited; one that was started in vain is not
    return { result };
  }

  async #markSeen(sequence: number, tokens: number[]): Promise<void> {
    const count = this.info.vocabulary;
    const row = new Uint32Array(count);
    for (const token of tokens) row[token] = 1;
    const value: TensorValue = { dtype: "u32", shape: [count], data: new Uint8Array(row.buffer) };
    await this.#memory.write("seen", value, { offset: sequence * count, count });
  }

  async #write(prompts: (string | number[])[], options: GenerateOptions[]): Promise<Generated[]> {
    const model = this.#model;
    model.begin(prompts.map((prompt, i) => {
      const { onToken, signal, ...plain } = options[i] ?? {};
      return { prompt: typeof prompt === "string" ? this.tokenize(prompt) : prompt, options: plain };
    }));
    const begin = performance.now();
    let promptMs: number | null = null;
    // The device has the next step before it gives the tokens of this one, so that it never waits for the page.
    let ahead: { result: Promise<RunResult> } | null = null;
    for (;;) {
      options.forEach(({ signal }, i) => {
        if (!signal?.aborted) return;
        if (promptMs === null) throw new GyrusError("cancelled", "[generate] cancelled in the prompt");
        model.stop(i);
      });
      const step = model.next();
      if (!step) break;
      const under: { result: Promise<RunResult> } = step.foretold && ahead ? ahead : await this.#start(step);
      const further = model.ahead();
      ahead = further && (await this.#start(further));
      const { outputs } = await under.result;
      const { made, started } = model.take(outputs.tokens!.data, outputs.logits?.data);
      if (started) promptMs ??= performance.now() - begin;
      for (const { index, ...token } of made) if (options[index]!.onToken?.(token) === false) model.stop(index);
    }
    const ms = performance.now() - begin;
    return model.results().map((result) => ({
      ...result, promptSeconds: (promptMs ?? ms) / 1000, generateSeconds: (ms - (promptMs ?? ms)) / 1000,
    }));
  }

  // Values of each token, in stretches.
  async #values(tokens: number[], sequence: number, kind: "logits" | "normed"): Promise<Uint8Array[]> {
    const rows = this.#about.valueRows;
    const parts: Uint8Array[] = [];
    for (let first = 0; first === 0 || first < tokens.length; first += rows) {
      const table = this.#model.rowTable(tokens, sequence, first, rows);
      const executor = await this.#executor(kind, rows);
      const { data } = (await executor.run({ rows: i32([rows, 4], table) })).outputs[kind]!;
      parts.push(data.subarray(0, (data.length / rows) * Math.min(rows, tokens.length - first)));
    }
    this.#model.hold(tokens, sequence);
    return parts;
  }
}

// Of buffers, those that are no states.
function ownBytes(buffers: { size: number; kind: string }[]): number {
  return buffers.reduce((sum, { size, kind }) => sum + (kind === "state" ? 0 : size), 0);
}

// What is unpacked comes whole.
function cutPart(bytes: number, whole: boolean): [number, number][] {
  if (whole) return [[0, bytes]];
  const count = Math.ceil(bytes / pieceBytes);
  return Array.from({ length: count }, (_, i) => [i * pieceBytes, Math.min(bytes, (i + 1) * pieceBytes)]);
}
