// Models from addresses, kept in the browser's private file system in pieces. The name of a piece has the hash of its bytes,
// which is checked when it is read, so a download that broke off goes on where it was, and a piece that rotted comes again.

import { cancelledReading, urlSource, type ByteSource, type UrlSource } from "./byte-source.js";
import { GyrusError } from "./errors.js";

const folderName = "gyrus-models";
const aboutName = "about.json";
const pieceBytes = 16 * 2 ** 20;

/** A model as the store has it, whole or in part. */
export interface StoredModel {
  url: string;
  name: string;
  size: number; // bytes
  stored: number; // of these
}

interface About {
  url: string;
  name: string;
  size: number;
  version: string;
}

// What TypeScript's declarations of folders leave out.
type Folder = FileSystemDirectoryHandle & { keys(): AsyncIterable<string>; values(): AsyncIterable<FileSystemHandle> };

async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Null where the browser has no such file system, or gives it to no page like this one. */
async function storeFolder(): Promise<FileSystemDirectoryHandle | null> {
  try {
    const root = await navigator.storage.getDirectory();
    return await root.getDirectoryHandle(folderName, { create: true });
  } catch {
    return null;
  }
}

async function writeFile(folder: FileSystemDirectoryHandle, name: string, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
  const file = await folder.getFileHandle(name, { create: true });
  const writable = await file.createWritable(); // replaces the file when it is closed, as a whole
  try {
    await writable.write(bytes);
    await writable.close();
  } catch (error) {
    await writable.abort().catch(() => {});
    await folder.removeEntry(name).catch(() => {});
    throw error;
  }
}

async function readAbout(folder: FileSystemDirectoryHandle): Promise<About | null> {
  try {
    const file = await (await folder.getFileHandle(aboutName)).getFile();
    return JSON.parse(await file.text()) as About;
  } catch {
    return null;
  }
}

/** Names of the pieces by number. */
async function piecesIn(folder: FileSystemDirectoryHandle): Promise<Map<number, string>> {
  const pieces = new Map<number, string>();
  for await (const name of (folder as Folder).keys()) {
    const [, number] = /^(\d+)-[0-9a-f]{64}$/.exec(name) ?? [];
    if (number !== undefined) pieces.set(Number(number), name);
  }
  return pieces;
}

const lengthOf = (piece: number, size: number) => Math.min(pieceBytes, size - piece * pieceBytes);

/** A source whose pieces are kept as they come. */
class StoredSource implements ByteSource {
  readonly name: string;
  readonly size: number;
  #folder: FileSystemDirectoryHandle;
  #pieces: Map<number, string>;
  #source: UrlSource | null; // null: not to be reached
  #last: { piece: number; bytes: Promise<Uint8Array<ArrayBuffer>> } | null = null;
  #full = false; // the browser gives no more room: the rest is not kept

  constructor(about: About, folder: FileSystemDirectoryHandle, pieces: Map<number, string>, source: UrlSource | null) {
    this.name = about.name;
    this.size = about.size;
    this.#folder = folder;
    this.#pieces = pieces;
    this.#source = source;
  }

  async read(begin: number, end: number, signal?: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
    const out = new Uint8Array(end - begin);
    for (let at = begin; at < end; ) {
      const piece = Math.floor(at / pieceBytes);
      const bytes = await this.#piece(piece, signal);
      const first = piece * pieceBytes;
      const stop = Math.min(end, first + bytes.length);
      out.set(bytes.subarray(at - first, stop - first), at - begin);
      at = stop;
    }
    return out;
  }

  // The piece used last stays, since tensors follow one another.
  async #piece(piece: number, signal?: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
    if (signal?.aborted) throw cancelledReading(this.name);
    if (this.#last?.piece !== piece) this.#last = { piece, bytes: this.#load(piece, signal) };
    const mine = this.#last;
    return mine.bytes.catch((error: unknown) => {
      if (this.#last === mine) this.#last = null;
      throw error;
    });
  }

  async #load(piece: number, signal?: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
    const kept = await this.#kept(piece);
    if (kept) return kept;
    if (!this.#source)
      throw new GyrusError("io", `[${this.name}] is not here as a whole, and its address cannot be reached`);
    const begin = piece * pieceBytes;
    const bytes = await this.#source.read(begin, begin + lengthOf(piece, this.size), signal);
    if (this.#full) return bytes;
    const name = `${piece}-${await sha256(bytes)}`;
    await writeFile(this.#folder, name, bytes).then(() => this.#pieces.set(piece, name), () => (this.#full = true));
    return bytes;
  }

  async #kept(piece: number): Promise<Uint8Array<ArrayBuffer> | null> {
    const name = this.#pieces.get(piece);
    if (name === undefined) return null;
    try {
      const file = await (await this.#folder.getFileHandle(name)).getFile();
      const bytes = new Uint8Array(await file.arrayBuffer());
      if (bytes.length === lengthOf(piece, this.size) && name.endsWith(await sha256(bytes))) return bytes;
    } catch {
      // It comes again.
    }
    this.#pieces.delete(piece);
    await this.#folder.removeEntry(name).catch(() => {});
    return null;
  }
}

/**
 * A model under an address, whose pieces are kept in the browser; without a network, or the address, as it was kept. Where
 * the browser keeps nothing, the address alone.
 */
export async function storedSource(address: string | URL, signal?: AbortSignal): Promise<ByteSource> {
  const url = new URL(address, globalThis.location?.href).href;
  const store = await storeFolder();
  const reached = await urlSource(url, signal).catch((error: unknown) => {
    if (!store || (error instanceof GyrusError && error.code !== "io")) throw error;
    return error as GyrusError;
  });
  if (!store) return reached as UrlSource;
  const name = (await sha256(new TextEncoder().encode(url))).slice(0, 32);
  const known = await store.getDirectoryHandle(name).then(readAbout, () => null);
  if (reached instanceof GyrusError) {
    if (!known) throw reached;
    const folder = await store.getDirectoryHandle(name);
    return new StoredSource(known, folder, await piecesIn(folder), null);
  }
  const about: About = { url, name: reached.name, size: reached.size, version: reached.version };
  if (known && (known.size !== about.size || known.version !== about.version))
    await store.removeEntry(name, { recursive: true });
  try {
    const folder = await store.getDirectoryHandle(name, { create: true });
    await writeFile(folder, aboutName, new TextEncoder().encode(JSON.stringify(about)));
    await navigator.storage.persist?.().catch(() => false);
    return new StoredSource(about, folder, await piecesIn(folder), reached);
  } catch {
    return reached;
  }
}

/** What the store has. */
export async function storedModels(): Promise<StoredModel[]> {
  const store = await storeFolder();
  const models: StoredModel[] = [];
  if (!store) return models;
  for await (const handle of (store as Folder).values()) {
    if (handle.kind !== "directory") continue;
    const folder = handle as FileSystemDirectoryHandle;
    const about = await readAbout(folder);
    if (!about) continue;
    const pieces = await piecesIn(folder);
    const stored = [...pieces.keys()].reduce((sum, piece) => sum + lengthOf(piece, about.size), 0);
    models.push({ url: about.url, name: about.name, size: about.size, stored });
  }
  return models.sort((a, b) => a.name.localeCompare(b.name));
}

/** Frees what the store has of a model. */
export async function forgetModel(url: string): Promise<void> {
  const name = (await sha256(new TextEncoder().encode(new URL(url, globalThis.location?.href).href))).slice(0, 32);
  await (await storeFolder())?.removeEntry(name, { recursive: true }).catch(() => {});
}
