// A model's files from an address. What was read once is kept in Cache Storage, for when there is no network.

import { GyrusError } from "./errors.js";
import { checkFileSize } from "./gzip.js";
import type { Download, NamedBytes } from "./types.js";

const cacheName = "gyrus-models";

/** The model's name (its folder's), its files, and which of them was named, if one was. */
export interface ModelFiles {
  name: string;
  files: NamedBytes[];
  main: string;
}

export interface FetchOptions {
  files?: string[]; // of the folder, where the site says which there are
  signal?: AbortSignal;
  onDownload?: (download: Download) => void; // now and then, and at the end
}

const sayEveryMs = 100;

// Counts the bytes of a model's weights as they come. How many there are is known once every host has answered.
class Meter {
  #loaded = 0;
  #total: number | null = 0;
  #waiting = 0; // files that were asked for
  #later: ReturnType<typeof setTimeout> | null = null; // what came since it was last said

  constructor(readonly report: ((download: Download) => void) | undefined) {}

  ask(): void {
    ++this.#waiting;
  }

  // A file of this size is to come, or none (0); null where the host does not tell.
  expect(bytes: number | null): void {
    --this.#waiting;
    this.#total = this.#total === null || bytes === null ? null : this.#total + bytes;
  }

  add(bytes: number): void {
    this.#loaded += bytes;
    if (this.#later === null) this.#say();
    this.#later ??= setTimeout(() => ((this.#later = null), this.#say()), sayEveryMs);
  }

  #say(): void {
    const total = this.#waiting > 0 || (this.#total ?? 0) < this.#loaded ? null : this.#total;
    this.report?.({ loaded: this.#loaded, total });
  }

  // All have come, or no more will.
  end(complete: boolean): void {
    if (this.#later !== null) clearTimeout(this.#later);
    if (complete && this.#loaded > 0) this.report?.({ loaded: this.#loaded, total: this.#loaded });
  }
}

// Where files are read from, for one model.
class Source {
  readonly #meter: Meter;
  readonly #signal: AbortSignal | undefined;

  constructor({ signal, onDownload }: FetchOptions) {
    this.#meter = new Meter(onDownload);
    this.#signal = signal;
  }

  // From the network, else as it was last time. Null where the host says that there is no such file.
  async get(url: string): Promise<Uint8Array | null> {
    const meter = /\.json$/i.test(url) ? null : this.#meter; // which are small, and say what else is wanted
    meter?.ask();
    const cache = await store();
    const answer = await this.#ask(url, cache);
    if (answer instanceof Uint8Array || answer === null) {
      meter?.expect(0);
      return answer;
    }
    const bytes = await this.#read(url, answer, meter);
    const headers = { "Content-Type": answer.headers.get("content-type") ?? "application/octet-stream" };
    await cache?.put(url, new Response(bytes, { headers })).catch(() => {}); // a full disk does not stop the run
    return bytes;
  }

  done(complete: boolean): void {
    this.#meter.end(complete);
  }

  async need(url: string): Promise<Uint8Array> {
    const bytes = await this.get(url);
    if (!bytes) throw new GyrusError("io", `[${url}] is not there: check the address; a folder needs a model.json`);
    return bytes;
  }

  async #ask(url: string, cache: Cache | null): Promise<Response | Uint8Array | null> {
    let answer: Response;
    try {
      const signal = this.#signal ? { signal: this.#signal } : {};
      answer = await fetch(url, { credentials: "omit", referrerPolicy: "no-referrer", ...signal });
    } catch (error) {
      this.#cancelled(url);
      const kept = await cache?.match(url);
      if (kept) return new Uint8Array(await kept.arrayBuffer());
      if (globalThis.navigator?.onLine === false)
        throw new GyrusError("io", `[${url}] is not here: there is no network, and the model was not opened while there was`);
      throw new GyrusError("io", `[${url}] cannot be reached (${(error as Error).message}): no network, no such host, ` +
        "or the host does not allow other sites to read its files (CORS)");
    }
    if (answer.status === 404 || answer.status === 403) return null;
    // Hosts of single-page sites answer with a page for what they do not have.
    if (/^text\/html\b/i.test(answer.headers.get("content-type") ?? "")) return null;
    if (!answer.ok) throw new GyrusError("io", `[${url}] could not be read: ${answer.status} ${answer.statusText}`);
    return answer;
  }

  async #read(url: string, answer: Response, meter: Meter | null): Promise<Uint8Array<ArrayBuffer>> {
    const length = answer.headers.get("content-length");
    checkFileSize(url, Number(length ?? 0));
    meter?.expect(length === null || answer.headers.has("content-encoding") ? null : Number(length));
    const parts: Uint8Array[] = [];
    let size = 0;
    try {
      const reader = answer.body!.getReader();
      for (let next = await reader.read(); !next.done; next = await reader.read()) {
        parts.push(next.value);
        size += next.value.length;
        checkFileSize(url, size);
        meter?.add(next.value.length);
      }
    } catch (error) {
      this.#cancelled(url);
      if (error instanceof GyrusError) throw error;
      throw new GyrusError("io", `[${url}] broke off after ${size} bytes (${(error as Error).message}): try again`);
    }
    const bytes = new Uint8Array(size);
    parts.reduce((at, part) => (bytes.set(part, at), at + part.length), 0);
    return bytes;
  }

  #cancelled(url: string): void {
    if (this.#signal?.aborted) throw new GyrusError("cancelled", `[${url}] cancelled while it was read`);
  }
}

async function store(): Promise<Cache | null> {
  // Not on insecure pages, and some browsers refuse it in private windows.
  return globalThis.caches ? caches.open(cacheName).catch(() => null) : null;
}

// The weights of a folder that cannot be listed, by what model.json says: of these groups the first that is there.
function weightsOf(folder: string, json: Uint8Array, named: string): string[][] {
  let root: { modelTopology?: unknown; weightsManifest?: { paths?: string[] }[] };
  try {
    root = JSON.parse(new TextDecoder().decode(json));
  } catch {
    throw new GyrusError("invalid-model", `[${folder}model.json] is no JSON: not the address of a model's folder?`);
  }
  if (!root.modelTopology) return named ? [[named]] : [["model.pth"], ["model.safetensors"]];
  const shards = (root.weightsManifest ?? []).flatMap((group) => group.paths ?? []);
  return [[...new Set([...shards, ...(named ? [named] : [])])], ["model.bin"]];
}

// Of a folder's files those that the importer would look at (docs/models.md): a layer list goes with torch or
// safetensors files, a tfjs model with its shards, and of a folder with both only one kind is needed.
function wanted(names: string[], json: Uint8Array | undefined): string[] {
  const isState = (name: string) => /\.(pth|pt|ckpt|safetensors)$/i.test(name);
  const isShard = (name: string) => /\.bin$/i.test(name);
  if (!json || !names.some(isState) || !names.some(isShard)) return names;
  try {
    const root = JSON.parse(new TextDecoder().decode(json)) as { modelTopology?: unknown; layers?: unknown };
    if (root.modelTopology) return names.filter((name) => !isState(name));
    if (root.layers) return names.filter((name) => !isShard(name));
  } catch {
    // the importer says what is wrong with it
  }
  return names;
}

async function fetchListed(source: Source, names: string[], at: (file: string) => string): Promise<NamedBytes[]> {
  const read = async (name: string) => ({ name, bytes: await source.need(at(name)) });
  const first = names.includes("model.json") ? await read("model.json") : null;
  const others = wanted(names, first?.bytes).filter((name) => name !== first?.name);
  return [...(first ? [first] : []), ...(await Promise.all(others.map(read)))];
}

/** Fetches a model: a folder's address, or that of one of its files. */
export async function fetchModel(address: string, options: FetchOptions = {}): Promise<ModelFiles> {
  const source = new Source(options);
  let complete = false;
  try {
    const model = await fetchFrom(source, address, options.files);
    complete = true;
    return model;
  } finally {
    source.done(complete);
  }
}

async function fetchFrom(source: Source, address: string, listed: string[] | undefined): Promise<ModelFiles> {
  const url = new URL(address);
  const last = decodeURIComponent(url.pathname.split("/").pop() ?? "");
  const isFile = /\.\w+$/.test(last);
  if (!isFile && last !== "") url.pathname += "/";
  const folder = new URL(".", url).href;
  const name = decodeURIComponent(new URL(folder).pathname.split("/").filter(Boolean).pop() ?? "model");
  const at = (file: string) => new URL(encodeURIComponent(file), folder).href;
  if (listed) return { name, main: "", files: await fetchListed(source, listed, at) };
  const json = isFile && last.endsWith(".json") ? last : "model.json";
  const files: NamedBytes[] = [{ name: json, bytes: await source.need(at(json)) }];
  const read = async (names: string[]) => {
    const found = await Promise.all(names.map(async (file) => ({ name: file, bytes: await source.get(at(file)) })));
    return found.filter((file): file is NamedBytes => file.bytes !== null);
  };
  for (const group of weightsOf(folder, files[0]!.bytes, isFile && last !== json ? last : "")) {
    const found = await read(group);
    files.push(...found);
    if (found.length > 0) break;
  }
  files.push(...(await read(["gyrus.json", "colormap.json"].filter((file) => file !== json))));
  return { name, files, main: isFile ? last : "" };
}
