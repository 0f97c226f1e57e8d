// A language model inside the compiler that knows them, gyrus-text.wasm: its file's head, its tokens, plans of its steps and
// the texts in the making. Its weights never come here.

import type { ByteSource } from "./byte-source.js";
import { GyrusError } from "./errors.js";
import type { NetworkPlan, NetworkRequest } from "./types.js";
import { Wasm, type WasmSource } from "./wasm.js";

/** How keys and values are kept: in singles, halves or bytes with a scale for each head. */
export type CacheFormat = "f32" | "f16" | "q8";

export interface TextOptions {
  /** Tokens of a sequence that the cache holds; as the model says, at most 4096, unless given. */
  context?: number;
  /** Sequences that it holds at once; 1 unless given. */
  sequences?: number;
  /** Tokens of a prompt that go through at once, at most; 256 unless given. */
  chunk?: number;
  cache?: CacheFormat; // "f32" unless given
}

/** What stands in the head of a file. */
export interface TextModelInfo {
  architecture: string;
  name: string;
  layers: number;
  width: number;
  heads: number;
  kvHeads: number;
  headWidth: number;
  vocabulary: number;
  context: number; // that it was trained for
  parameters: number;
  formats: Record<string, number>; // bytes of weights in each
}

/** What a model takes on a device, to the byte. */
export interface TextMemory {
  weights: number;
  cache: number;
  scratch: number; // of the plans of a token and of a chunk: values, constants, parameters
}

export interface ChatMessage {
  role: string; // "system", "user", "assistant"
  content: string;
}

/** A token's natural logarithm of probability before any sampling option. */
export interface TokenScore {
  token: number;
  logProbability: number;
}

export interface GeneratedToken {
  token: number; // -1: none, but text that was held back until the end
  text: string; // that became whole with it
  candidates: TokenScore[]; // the token itself, then the best ones, where asked for
}

export type Finish = "length" | "stop" | "end" | "cancelled"; // end: a token that ends a text

interface WeightPart {
  name: string; // of the tensor
  offset: number; // in the file
  bytes: number;
  at: number; // in the state
  unpack: boolean; // to f32 first
}

export interface Configured {
  info: TextModelInfo;
  options: Required<TextOptions>;
  chatTemplate: string;
  weights: { name: string; parts: WeightPart[] }[];
  sizes: number[]; // rows that plans are made for
  valueRows: number; // of a step that gives logits
  pooling: "mean" | "first" | "last"; // which of the last layer's values are the embedding of a text
}

export type StepKind = "last" | "each" | "logits" | "normed";

export interface Step {
  kind: StepKind;
  rows: number;
  last: number; // the row whose token is wanted, of kind "last"
  tokens: number;
  logits: boolean;
  foretold: boolean; // it is the one that ahead() gave
  seen: { sequence: number; tokens: number[] } | null;
  table: Uint8Array; // of rows
  params: Uint8Array;
}

export interface Result {
  text: string;
  tokens: GeneratedToken[];
  finish: Finish;
  promptTokens: number;
  reusedTokens: number;
}

const rowBytes = 16; // of a row of a step
const utf8 = (text: string) => new TextEncoder().encode(text);
const idBytes = (ids: number[]) => new Uint8Array(new Int32Array(ids).buffer);
const idsOf = (bytes: Uint8Array<ArrayBuffer>) => Array.from(new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4));

/** The compiler for language models; several generators may share one. */
export class TextCompiler {
  readonly wasm: Wasm;

  private constructor(wasm: Wasm) {
    this.wasm = wasm;
  }

  /** The module's bytes, a response that brings them, or where they lie; gyrus-text.wasm beside this script by default. */
  static async load(options: { wasm?: WasmSource } = {}): Promise<TextCompiler> {
    return new TextCompiler(await Wasm.load(options.wasm ?? new URL("./gyrus-text.wasm", import.meta.url)));
  }

  get version(): string {
    return this.wasm.cText("gyrus_version");
  }

  /** What the module holds; it never shrinks. */
  get memoryBytes(): number {
    return this.wasm.memoryBytes;
  }
}

export class TextModel {
  readonly source: ByteSource;
  #wasm: Wasm;
  #handle: number;

  private constructor({ wasm }: TextCompiler, source: ByteSource) {
    this.source = source;
    this.#wasm = wasm;
    this.#handle = wasm.check("gyrus_text_new", source.name);
  }

  /** Reads the file's head, as many bytes as it has. */
  static async open(compiler: TextCompiler, source: ByteSource, signal?: AbortSignal): Promise<TextModel> {
    const model = new TextModel(compiler, source);
    try {
      await model.#readHead(signal);
      return model;
    } catch (error) {
      model.close();
      throw error;
    }
  }

  configure(options: TextOptions): Configured {
    const { context, sequences, chunk, cache } = options;
    this.#check("gyrus_text_configure", JSON.stringify({ context, sequences, chunk, cache }));
    return JSON.parse(this.#wasm.text()) as Configured;
  }

  plan(kind: StepKind, rows: number, request: NetworkRequest): Pick<NetworkPlan, "json" | "weights"> {
    this.#check("gyrus_text_plan", kind, rows, JSON.stringify(request));
    const json = this.#wasm.text();
    return { json, weights: this.#wasm.data() };
  }

  memory(request: NetworkRequest): TextMemory {
    this.#check("gyrus_text_memory", JSON.stringify(request));
    return JSON.parse(this.#wasm.text()) as TextMemory;
  }

  /** The floats of a tensor as bytes. */
  unpack(name: string, bytes: Uint8Array): Uint8Array<ArrayBuffer> {
    this.#check("gyrus_text_unpack", name, bytes);
    return this.#wasm.data();
  }

  tokenize(text: string, special: boolean, begin: boolean): number[] {
    this.#check("gyrus_text_tokenize", utf8(text), Number(special), Number(begin));
    return idsOf(this.#wasm.data());
  }

  textOf(tokens: number[], special: boolean): string {
    this.#check("gyrus_text_decode", idBytes(tokens), Number(special));
    return this.#wasm.text();
  }

  endsText(token: number): boolean {
    return this.#wasm.call("gyrus_text_ends", this.#open(), token) !== 0;
  }

  chat(messages: ChatMessage[], variables: Record<string, unknown>): { text: string; tokens: number[] } {
    const told = messages.map(({ role, content }) => ({ role, content }));
    this.#check("gyrus_text_chat", JSON.stringify(told), JSON.stringify(variables));
    const text = this.#wasm.text();
    return { text, tokens: idsOf(this.#wasm.data()) };
  }

  begin(texts: { prompt: number[]; options: object }[]): void {
    this.#check("gyrus_text_begin", JSON.stringify(texts));
  }

  /** Null once all texts are done. */
  next(): Step | null {
    return this.#step("gyrus_text_next");
  }

  /** The step behind the one that next() gave, which takes tokens from the device; null where it cannot be known yet. */
  ahead(): Step | null {
    return this.#step("gyrus_text_ahead");
  }

  #step(name: string): Step | null {
    this.#check(name);
    const text = this.#wasm.text();
    if (text === "") return null;
    const step = JSON.parse(text) as Omit<Step, "table" | "params">;
    const data = this.#wasm.data();
    return { ...step, table: data.subarray(0, step.rows * rowBytes), params: data.subarray(step.rows * rowBytes) };
  }

  take(tokens: Uint8Array, logits?: Uint8Array): { made: (GeneratedToken & { index: number })[]; started: boolean } {
    this.#check("gyrus_text_take", tokens, logits ?? new Uint8Array(0));
    return JSON.parse(this.#wasm.text()) as ReturnType<TextModel["take"]>;
  }

  stop(index: number): void {
    this.#check("gyrus_text_stop", index);
  }

  results(): Result[] {
    this.#check("gyrus_text_results");
    return JSON.parse(this.#wasm.text()) as Result[];
  }

  /** The table of a step of `rows` rows for tokens from `first` on. */
  rowTable(tokens: number[], sequence: number, first: number, rows: number): Uint8Array {
    this.#check("gyrus_text_rows", idBytes(tokens), sequence, first, rows);
    return this.#wasm.data();
  }

  /** Says what a sequence of the cache holds now. */
  hold(tokens: number[], sequence: number): void {
    this.#check("gyrus_text_hold", idBytes(tokens), sequence);
  }

  close(): void {
    if (this.#handle !== 0) this.#wasm.call("gyrus_text_close", this.#handle);
    this.#handle = 0;
  }

  #open(): number {
    if (this.#handle === 0) throw new GyrusError("cancelled", "[model] was closed; load it again");
    return this.#handle;
  }

  #check(name: string, ...args: (number | string | Uint8Array)[]): void {
    this.#wasm.check(name, this.#open(), ...args);
  }

  async #readHead(signal?: AbortSignal): Promise<void> {
    const { source } = this;
    let tensors: { name: string; offset: number; bytes: number }[] = [];
    for (let wanted = Math.min(source.size, 2 ** 20); wanted > 0; ) {
      const bytes = await source.read(0, wanted, signal);
      this.#check("gyrus_text_head", bytes, source.size);
      const said = JSON.parse(this.#wasm.text()) as { wanted: number; tensors: typeof tensors };
      wanted = Math.min(said.wanted, source.size);
      tensors = said.tensors;
    }
    for (const { name, offset, bytes } of tensors)
      this.#check("gyrus_text_tensor", name, await source.read(offset, offset + bytes, signal));
  }
}
