// One call from nothing to a function that segments scans: worker, model and device as the options say, or as they come.

import { GyrusError } from "./errors.js";
import { WorkerSegmenter } from "./segmenter.js";
import type {
  CpuOffer, DeviceReport, Download, ModelInfo, ModelSource, NamedBytes, SegmentOptions, SegmentResult, SiteModel,
} from "./types.js";

/** A file, its bytes, or its address (relative to the page). */
export type ScanSource = Blob | ArrayBuffer | Uint8Array | URL | string;

export interface CreateOptions extends Omit<SegmentOptions, "cpu"> {
  /** A name of the site's list, an address (of a folder or file; anything with a slash), or files. The list's first. */
  model?: string | URL | { name: string; files: NamedBytes[] };
  /** Address of the site's list of models (docs/web.md): "models/index.json". */
  models?: string | URL;
  /** "gpu"; "cpu"; "auto": the GPU, the CPU where one would only stand in for the GPU, and without any the CPU where it
   *  takes no minutes. */
  device?: "auto" | "gpu" | "cpu";
  /** Makes the worker; that of this package, found beside its own script. */
  worker?: () => Worker;
  /** Where the compiler's module lies: beside the worker's script. */
  wasm?: string | URL;
  onDownload?: (download: Download) => void; // of the model
}

export interface ScanOptions extends Omit<SegmentOptions, "cpu"> {
  name?: string; // of the scan; its ending says the format where its content does not. That of the file or address
  volume?: number; // of a 4-D file, from 0: the first
}

export type Labels = Uint8Array | Int16Array | Uint16Array | Int32Array;

export interface Segmentation extends SegmentResult {
  /** The label of each voxel of the scan, x fastest: a view of `nativeLabels`. */
  voxels: Labels;
  dims: [number, number, number];
  spacing: [number, number, number]; // mm
}

/** Segments a scan; calls wait for each other. */
export interface SegmentFunction {
  (scan: ScanSource, options?: ScanOptions): Promise<Segmentation>;
  readonly model: ModelInfo;
  readonly device: DeviceReport;
  /** The last scan with zero outside its labels, as NIfTI. */
  brain(): Promise<Uint8Array>;
  /** Ends the worker; calls under way reject. */
  dispose(): void;
}

const here = () => globalThis.document?.baseURI ?? globalThis.location?.href;

// Bundlers look for exactly this form, and bundle the worker.
const ownWorker = () => new Worker(new URL("./worker.js", import.meta.url), { type: "module" });

async function fetched(url: string, signal: AbortSignal | undefined): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(url, signal ? { signal } : {});
  } catch (error) {
    if (signal?.aborted) throw new GyrusError("cancelled", `[${url}] cancelled while it was read`);
    throw new GyrusError("io", `[${url}] cannot be reached (${(error as Error).message})`);
  }
  if (!answer.ok) throw new GyrusError("io", `[${url}] could not be read: ${answer.status} ${answer.statusText}`);
  return answer;
}

// From the site's list, by name; without one its first.
async function listed(list: string, name: string | undefined, signal: AbortSignal | undefined): Promise<ModelSource> {
  const answer = await fetched(list, signal);
  const { models = [] } = (await answer.json().catch(() => ({}))) as { models?: SiteModel[] };
  const found = name === undefined ? models[0] : models.find((model) => model.name === name);
  if (found)
    return { kind: "url", url: new URL(found.path, list).href, files: found.files.map((file) => file.name) };
  const known = models.map((model) => model.name).join(", ") || "none";
  throw new GyrusError("invalid-input", `[${list}] has no model${name === undefined ? "" : ` ${name}`}; it lists ${known}`);
}

async function sourceOf({ model, models = "models/index.json", signal }: CreateOptions): Promise<ModelSource> {
  if (typeof model === "object" && !(model instanceof URL)) return { kind: "files", ...model };
  if (model instanceof URL || model?.includes("/")) return { kind: "url", url: new URL(model, here()).href };
  return listed(new URL(models, here()).href, model, signal);
}

async function readScan(scan: ScanSource, signal: AbortSignal | undefined): Promise<{ name: string; bytes: ArrayBuffer }> {
  if (typeof scan === "string" || scan instanceof URL) {
    const url = new URL(scan, here());
    const answer = await fetched(url.href, signal);
    return { name: decodeURIComponent(url.pathname.split("/").pop() || "scan"), bytes: await answer.arrayBuffer() };
  }
  if (scan instanceof Blob) return { name: (scan as File).name ?? "scan", bytes: await scan.arrayBuffer() };
  // A copy: the worker takes over what it is given.
  return { name: "scan", bytes: scan instanceof ArrayBuffer ? scan.slice(0) : new Uint8Array(scan).buffer };
}

/** The voxels of a NIfTI file of labels, without a copy where its offset allows that. */
export function niftiLabels(file: Uint8Array): Labels {
  const header = new DataView(file.buffer, file.byteOffset, 348);
  const count = [1, 2, 3].reduce((product, axis) => product * Math.max(1, header.getInt16(40 + 2 * axis, true)), 1);
  const Type = { 2: Uint8Array, 4: Int16Array, 512: Uint16Array, 8: Int32Array }[header.getInt16(70, true)];
  if (!Type) throw new GyrusError("invalid-input", "[labels] hold no whole numbers");
  const at = file.byteOffset + header.getFloat32(108, true);
  if (at % Type.BYTES_PER_ELEMENT === 0) return new Type(file.buffer as ArrayBuffer, at, count);
  return new Type(file.buffer.slice(at, at + count * Type.BYTES_PER_ELEMENT) as ArrayBuffer);
}

/** Whether to run on the CPU; throws where neither will do. A driver that computes on the CPU is slower than its own kernels. */
export async function onCpu(
  wish: CreateOptions["device"], device: Pick<DeviceReport, "available" | "software" | "why">, offer: () => Promise<CpuOffer>,
): Promise<boolean> {
  if (wish === "cpu") return true;
  if (wish === "gpu" || (device.available && !device.software)) return false;
  const { possible, mostSeconds, seconds, why } = await offer();
  if (device.available) return possible;
  if (possible && seconds <= mostSeconds) return true;
  const reason = possible ? `on the CPU it takes about ${Math.round(seconds)} s, which device: "cpu" accepts` : why;
  throw new GyrusError("device", `[device] ${device.why}; ${reason}`, { hints: ["smaller-model", "other-device"] });
}

// What is said of every run.
function settingsOf({ model, models, device, worker, wasm, onDownload, ...settings }: CreateOptions): SegmentOptions {
  return settings;
}

/** Starts the worker and opens the model. */
export async function createSegmenter(options: CreateOptions = {}): Promise<SegmentFunction> {
  const { device: wish = "auto", worker = ownWorker, wasm, onDownload } = options;
  const common = settingsOf(options);
  const segmenter = new WorkerSegmenter(worker, wasm === undefined ? {} : { wasm });
  const open = async () => {
    const { signal } = options;
    const source = await sourceOf(options);
    const model = await segmenter.openModel(source, { ...(signal ? { signal } : {}), ...(onDownload ? { onDownload } : {}) });
    return { source, model, device: await segmenter.device() };
  };
  const { source, model, device } = await open().catch((error: unknown) => {
    segmenter.close();
    throw error;
  });
  let stale = false; // the worker died, and its model with it
  segmenter.onRestart = () => (stale = true);
  let gone = false;
  const run = async (scan: ScanSource, given: ScanOptions): Promise<Segmentation> => {
    if (gone) throw new GyrusError("cancelled", "[segmenter] was disposed of");
    const { name, volume, ...rest } = given;
    const settings: SegmentOptions = { ...common, ...rest };
    const { bytes, name: own } = await readScan(scan, settings.signal);
    if (stale) await segmenter.openModel(source);
    stale = false;
    const { info } = await segmenter.openScan(name ?? own, bytes, volume === undefined ? {} : { volume });
    const cpu = await onCpu(wish, device, () => segmenter.cpuOffer({ conform: settings.conform ?? true }));
    const result = await segmenter.segment({ ...settings, cpu });
    return { ...result, voxels: niftiLabels(result.nativeLabels), dims: info.dims, spacing: info.spacing };
  };
  let last: Promise<unknown> = Promise.resolve();
  const segment = (scan: ScanSource, given: ScanOptions = {}) => {
    const next = last.then(() => run(scan, given));
    last = next.catch(() => {});
    return next;
  };
  const dispose = () => ((gone = true), segmenter.close());
  return Object.assign(segment, { model, device, brain: () => segmenter.brain(), dispose });
}
