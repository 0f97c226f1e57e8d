// A model's files from an address. What was read once is kept in Cache Storage, for when there is no network.

import { GyrusError } from "./errors.js";
import { checkFileSize } from "./gzip.js";
import type { NamedBytes } from "./types.js";

const cacheName = "gyrus-models";

/** The model's name (its folder's), its files, and which of them was named, if one was. */
export interface ModelFiles {
  name: string;
  files: NamedBytes[];
  main: string;
}

async function store(): Promise<Cache | null> {
  // Not on insecure pages, and some browsers refuse it in private windows.
  return globalThis.caches ? caches.open(cacheName).catch(() => null) : null;
}

// From the network, else as it was last time. Null where the host says that there is no such file.
async function get(url: string): Promise<Uint8Array | null> {
  const cache = await store();
  let answer: Response;
  try {
    answer = await fetch(url, { credentials: "omit", referrerPolicy: "no-referrer" });
  } catch (error) {
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
  checkFileSize(url, Number(answer.headers.get("content-length") ?? 0));
  if (!answer.ok) throw new GyrusError("io", `[${url}] could not be read: ${answer.status} ${answer.statusText}`);
  await cache?.put(url, answer.clone()).catch(() => {}); // a full disk does not stop the run
  return new Uint8Array(await answer.arrayBuffer());
}

async function need(url: string): Promise<Uint8Array> {
  const bytes = await get(url);
  if (!bytes) throw new GyrusError("io", `[${url}] is not there: check the address; a folder needs a model.json`);
  return bytes;
}

// The files of a folder that cannot be listed: what model.json names, and what models usually have beside it.
async function guess(folder: string, json: Uint8Array): Promise<string[]> {
  const optional = ["gyrus.json", "colormap.json"];
  let root: { modelTopology?: unknown; weightsManifest?: { paths?: string[] }[] };
  try {
    root = JSON.parse(new TextDecoder().decode(json));
  } catch {
    throw new GyrusError("invalid-model", `[${folder}model.json] is no JSON: not the address of a model's folder?`);
  }
  if (!root.modelTopology) return ["model.pth", "model.safetensors", ...optional];
  return [...(root.weightsManifest ?? []).flatMap((group) => group.paths ?? []), "model.bin", ...optional];
}

/** Fetches a model; `listed` names its files where the site says which there are. */
export async function fetchModel(address: string, listed?: string[]): Promise<ModelFiles> {
  const url = new URL(address);
  const last = decodeURIComponent(url.pathname.split("/").pop() ?? "");
  const isFile = /\.\w+$/.test(last);
  if (!isFile && last !== "") url.pathname += "/";
  const folder = new URL(".", url).href;
  const name = decodeURIComponent(new URL(folder).pathname.split("/").filter(Boolean).pop() ?? "model");
  const at = (file: string) => new URL(encodeURIComponent(file), folder).href;
  if (listed) {
    const bytes = await Promise.all(listed.map((file) => need(at(file))));
    return { name, main: "", files: listed.map((file, i) => ({ name: file, bytes: bytes[i]! })) };
  }
  const json = isFile && last.endsWith(".json") ? last : "model.json";
  const files: NamedBytes[] = [{ name: json, bytes: await need(at(json)) }];
  const others = new Set(await guess(folder, files[0]!.bytes));
  if (isFile) others.add(last);
  others.delete(json);
  for (const file of others) {
    if (file === "model.safetensors" && files.some((f) => f.name === "model.pth")) continue;
    const bytes = await get(at(file));
    if (bytes) files.push({ name: file, bytes });
  }
  return { name, files, main: isFile ? last : "" };
}
