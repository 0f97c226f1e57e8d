// Large files of which only ranges are read: chosen by a person, or under an address.

import { GyrusError } from "./errors.js";

/** A file of which ranges can be read. */
export interface ByteSource {
  readonly name: string; // stands in errors
  readonly size: number; // bytes
  /** Bytes [begin, end). */
  read(begin: number, end: number, signal?: AbortSignal): Promise<Uint8Array<ArrayBuffer>>;
}

/** A file under an address; two answers with the same version are the same file. */
export interface UrlSource extends ByteSource {
  readonly url: string;
  readonly version: string;
}

export type TextSource = Blob | Uint8Array | URL | string | ByteSource;

const attempts = 4; // at a range
const firstPause = 250; // ms between two of them; doubles

export const cancelledReading = (name: string) => new GyrusError("cancelled", `[${name}] cancelled while it was read`);

export function blobSource(blob: Blob, name = (blob as File).name ?? "model"): ByteSource {
  return {
    name,
    size: blob.size,
    async read(begin, end, signal) {
      if (signal?.aborted) throw cancelledReading(name);
      return new Uint8Array(await blob.slice(begin, end).arrayBuffer().catch((error: Error) => {
        throw new GyrusError("io", `[${name}] could not be read: ${error.message}`);
      }));
    },
  };
}

function bytesSource(bytes: Uint8Array, name = "model"): ByteSource {
  return { name, size: bytes.length, read: async (begin, end) => bytes.slice(begin, end) as Uint8Array<ArrayBuffer> };
}

async function request(url: string, begin: number, end: number, signal?: AbortSignal): Promise<Response> {
  const headers = { Range: `bytes=${begin}-${end - 1}` };
  try {
    return await fetch(url, { headers, ...(signal ? { signal } : {}) });
  } catch (error) {
    if (signal?.aborted) throw cancelledReading(url);
    throw new GyrusError("io", `[${url}] cannot be reached: ${(error as Error).message}`);
  }
}

const versionOf = ({ headers }: Response) => headers.get("etag") ?? headers.get("last-modified") ?? "";

/** What a host answers that sends ranges: their bytes, and how large the whole is. */
async function rangeOf(url: string, begin: number, end: number, signal?: AbortSignal) {
  const response = await request(url, begin, end, signal);
  if (response.status !== 206) {
    if (response.status !== 200) await response.body?.cancel();
    return { response, total: null };
  }
  const total = Number(/\/(\d+)$/.exec(response.headers.get("content-range") ?? "")?.[1] ?? NaN);
  return { response, total: Number.isSafeInteger(total) ? total : null };
}

// Goes on after connections that broke, and hosts that are busy for a while.
async function readRange(source: UrlSource, begin: number, end: number, signal?: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
  for (let attempt = 1, pause = firstPause; ; ++attempt, pause *= 2) {
    try {
      const { response, total } = await rangeOf(source.url, begin, end, signal);
      if (response.status === 206) {
        if ((total !== null && total !== source.size) || versionOf(response) !== source.version)
          throw new GyrusError("invalid-input", `[${source.url}] has changed while it was read: load it again`);
        const bytes = new Uint8Array(await response.arrayBuffer());
        if (bytes.length === end - begin) return bytes;
        throw new GyrusError("io", `[${source.url}] gave ${bytes.length} of ${end - begin} bytes from ${begin} on`);
      }
      throw new GyrusError("io", `[${source.url}] could not be read: ${response.status} ${response.statusText}`);
    } catch (error) {
      if (signal?.aborted) throw cancelledReading(source.name);
      const final = error instanceof GyrusError && error.code !== "io";
      if (final || attempt === attempts) throw error;
      await new Promise((done) => setTimeout(done, pause));
    }
  }
}

// What an address ends in, which need not be well-formed.
function nameIn(url: string): string {
  const last = new URL(url).pathname.split("/").pop() || url;
  try {
    return decodeURIComponent(last);
  } catch {
    return last;
  }
}

/** A file under an address. Of a host that knows no ranges the whole is taken, as a Blob, which browsers keep on disk. */
export async function urlSource(address: string | URL, signal?: AbortSignal): Promise<UrlSource> {
  const url = new URL(address, globalThis.location?.href).href;
  const name = nameIn(url);
  const { response, total } = await rangeOf(url, 0, 1, signal);
  if (!response.ok) throw new GyrusError("io", `[${url}] could not be read: ${response.status} ${response.statusText}`);
  const version = versionOf(response);
  if (response.status === 200) {
    const blob = await response.blob().catch((error: Error) => {
      throw signal?.aborted ? cancelledReading(name) : new GyrusError("io", `[${url}] broke off: ${error.message}`);
    });
    return { ...blobSource(blob, name), url, version };
  }
  await response.body?.cancel();
  if (total === null)
    throw new GyrusError("io", `[${url}] does not say how large it is: its host must let pages read Content-Range`);
  const source: UrlSource = { name, url, version, size: total, read: (begin, end, stop) => readRange(source, begin, end, stop) };
  return source;
}

/** Whatever a person gives as a model; addresses are not kept. */
export async function openSource(model: TextSource, signal?: AbortSignal): Promise<ByteSource> {
  if (typeof model === "string" || model instanceof URL) return urlSource(model, signal);
  if (model instanceof Blob) return blobSource(model);
  return model instanceof Uint8Array ? bytesSource(model) : model;
}
