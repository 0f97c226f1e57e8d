// Loads the module that web/wasm/ builds and speaks its C ABI: numbers, strings, bytes, errors.
import { GyrusError, outOfMemory, type ErrorCode, type Hint } from "./errors.js";

export type WasmSource = BufferSource | Response | PromiseLike<Response> | WebAssembly.Module | URL | string;

type Call = (...args: number[]) => number;

/** What a module is given where it brings no memory of its own (cpu-engine.ts). */
export interface WasmHost {
  memory: WebAssembly.Memory;
  /** Functions that it imports, by module and name; `wasm` is there once they are called. */
  functions: (wasm: () => Wasm) => Record<string, Record<string, (...args: number[]) => unknown>>;
  /** The export that makes its globals: not for an instance that is a thread of another one. */
  start: string | null;
}

export class Wasm {
  #exports: Record<string, Call>;
  #memory: WebAssembly.Memory;

  private constructor(instance: WebAssembly.Instance, memory: WebAssembly.Memory) {
    this.#exports = instance.exports as unknown as Record<string, Call>;
    this.#memory = memory;
  }

  static async load(source: WasmSource, host?: WasmHost): Promise<Wasm> {
    const module = await compileWasm(source);
    let wasm: Wasm | undefined;
    let memory = host?.memory;
    const known = host?.functions(() => wasm!) ?? {};
    const given = imports(module, () => memory!, known);
    const instance = await WebAssembly.instantiate(module, given);
    memory ??= instance.exports.memory as WebAssembly.Memory;
    wasm = new Wasm(instance, memory);
    const start = host ? host.start : "_initialize";
    if (start !== null) wasm.call(start);
    return wasm;
  }

  get memoryBytes(): number {
    return this.#memory.buffer.byteLength;
  }

  // Calls an export with numbers as they are, strings as UTF-8 and bytes as address and size.
  call(name: string, ...args: (number | string | Uint8Array)[]): number {
    const taken: number[] = [];
    const numbers: number[] = [];
    try {
      for (const arg of args) {
        if (typeof arg === "number") numbers.push(arg);
        else if (typeof arg === "string") numbers.push(this.#place(new TextEncoder().encode(arg + "\0"), taken));
        else numbers.push(this.#place(arg, taken), arg.length);
      }
      // Addresses above 2 GiB come back negative.
      const result = this.#exports[name]!(...numbers);
      return result < 0 ? result + 2 ** 32 : result;
    } finally {
      for (const address of taken) this.#exports.gyrus_free!(address);
    }
  }

  // The same for a call that answers 0 where it failed: throws what the module says.
  check(name: string, ...args: (number | string | Uint8Array)[]): number {
    const result = this.call(name, ...args);
    if (result !== 0) return result;
    const [code, message, hints] = ["code", "message", "hints"].map((part) =>
      this.cText(`gyrus_error_${part}`)) as [ErrorCode, string, string];
    throw new GyrusError(code, message, { hints: hints.split(",").filter(Boolean) as Hint[] });
  }

  // What the last call left.
  text(): string {
    const at = this.call("gyrus_text");
    return decoded(new Uint8Array(this.#memory.buffer, at, this.call("gyrus_text_size")));
  }

  // The same, copied out of the module.
  data(): Uint8Array<ArrayBuffer> {
    const at = this.call("gyrus_data");
    const bytes = new Uint8Array(this.#memory.buffer, at, this.call("gyrus_size")).slice();
    this.call("gyrus_clear");
    return bytes as Uint8Array<ArrayBuffer>;
  }

  #place(bytes: Uint8Array, taken: number[]): number {
    const at = this.#exports.gyrus_alloc!(bytes.length + 1) >>> 0;
    if (at === 0)
      throw outOfMemory(`[compiler] no memory left in the page for ${bytes.length} more bytes`, ["smaller-volume"]);
    taken.push(at);
    new Uint8Array(this.#memory.buffer, at, bytes.length).set(bytes);
    return at;
  }

  // What a call answers that gives a C string.
  cText(name: string): string {
    const at = this.call(name);
    const bytes = new Uint8Array(this.#memory.buffer);
    return decoded(bytes.subarray(at, bytes.indexOf(0, at)));
  }
}

// Decoders take no memory that is shared.
function decoded(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes.buffer instanceof ArrayBuffer ? bytes : bytes.slice());
}

export async function compileWasm(source: WasmSource): Promise<WebAssembly.Module> {
  if (source instanceof WebAssembly.Module) return source;
  if (typeof source === "string" || source instanceof URL) return compileWasm(fetch(source));
  if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return WebAssembly.compile(source);
  const response = await source;
  if (!response.ok)
    throw new GyrusError("io", `[${response.url}] the compiler's module cannot be loaded: HTTP ${response.status}`);
  // Not by streaming: that needs the server to send application/wasm, and not all do.
  return WebAssembly.compile(await response.arrayBuffer());
}

// The module has no files, environment or streams; what its C library asks for is answered with nothing.
function imports(
  module: WebAssembly.Module, memory: () => WebAssembly.Memory, given: ReturnType<WasmHost["functions"]>,
): WebAssembly.Imports {
  const NOT_SUPPORTED = 58; // WASI's errno
  const known: Record<string, (...args: never[]) => unknown> = {
    environ_sizes_get: (count: number, size: number) => {
      const view = new DataView(memory().buffer);
      view.setUint32(count >>> 0, 0, true);
      view.setUint32(size >>> 0, 0, true);
      return 0;
    },
    environ_get: () => 0,
    emscripten_notify_memory_growth: () => undefined,
    proc_exit: (status: number) => {
      throw new GyrusError("device", `[compiler] stopped with status ${status}; reload the page`);
    },
  };
  const out: WebAssembly.Imports = {};
  for (const { module: from, name, kind } of WebAssembly.Module.imports(module))
    (out[from] ??= {})[name] = kind === "memory" ? memory() : given[from]?.[name] ?? known[name] ?? (() => NOT_SUPPORTED);
  return out;
}
