// What lies on the worker's desk: the compiler, a scan, a model, the last result. The steps from scan to labels are
// those of the command line: conform, normalise, run, clean, restore, report.

import { Compiler, type Model, type Volume } from "./compiler.js";
import { CpuSide, type CpuModel } from "./cpu.js";
import type { MakeThread } from "./cpu-threads.js";
import { GyrusError } from "./errors.js";
import { fetchModel } from "./model-files.js";
import { Session, stage, type Hooks } from "./session.js";
import type {
  CpuOffer, DeviceReport, ModelInfo, ModelSource, OpenModelOptions, OpenScan, Provenance, SegmentOptions, SegmentResult,
} from "./types.js";

// Lets messages in, a cancellation for one, between steps that block.
function breathe(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

// SHA-256 of a file, in hex; empty where the page is not secure.
async function fileHash(bytes: ArrayBuffer): Promise<string> {
  const hash = await globalThis.crypto?.subtle?.digest("SHA-256", bytes);
  return hash ? Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, "0")).join("") : "";
}

const conformedDims: [number, number, number] = [256, 256, 256];

export class Pipeline {
  readonly session = new Session();
  #compiler: Promise<Compiler> | null = null;
  #wasm: string | undefined;
  #scan: Volume | null = null;
  #source = { scan: "", scan_bytes: 0, scan_sha256: "" };
  #frame = 0; // of the scan's file
  #conformed: Volume | null = null;
  #model: Model | null = null;
  #files: CpuModel | null = null; // of the model
  #cpu: CpuSide;
  #modelKey = 0;
  #cpuRate: Promise<number> | null = null; // of the model
  #labels: Volume | null = null; // on the scan's grid, for brain()
  #made: Provenance | null = null; // what made them

  /** `wasm` is where the compiler's module lies, and that for the CPU beside it; beside the script unless given. */
  constructor(wasm?: string, thread?: MakeThread) {
    this.#wasm = wasm;
    const beside = wasm === undefined ? {} : { wasm: new URL("gyrus-cpu.wasm", wasm) };
    this.#cpu = new CpuSide({ ...beside, ...(thread ? { thread } : {}) });
  }

  async #open(): Promise<Compiler> {
    this.#compiler ??= Compiler.load(this.#wasm === undefined ? {} : { wasm: this.#wasm }).catch((error: unknown) => {
      this.#compiler = null;
      throw error;
    });
    return this.#compiler;
  }

  async device(): Promise<DeviceReport> {
    void this.#open().catch(() => {}); // while the person looks for a scan
    return this.session.describe();
  }

  // The scan that was open stays where the new one cannot be read.
  async openScan(name: string, bytes: ArrayBuffer, volume?: number): Promise<OpenScan> {
    const compiler = await this.#open();
    const [scan, sha256] =
      await Promise.all([compiler.openScan(name, new Uint8Array(bytes), volume ?? -1), fileHash(bytes)]);
    let nifti: Uint8Array;
    try {
      nifti = scan.nifti();
    } catch (error) {
      scan.close();
      throw error;
    }
    for (const old of [this.#scan, this.#conformed, this.#labels]) old?.close();
    this.#conformed = this.#labels = null;
    this.#scan = scan;
    this.#source = { scan: name, scan_bytes: bytes.byteLength, scan_sha256: sha256 };
    this.#frame = volume ?? 0;
    return { info: scan.info, volumes: scan.frames, volume: this.#frame, nifti };
  }

  async openModel(source: ModelSource, options: OpenModelOptions = {}): Promise<ModelInfo> {
    const compiler = await this.#open();
    const { name, files, main } = source.kind === "url"
      ? await fetchModel(source.url, { ...options, ...(source.files ? { files: source.files } : {}) })
      : { ...source, main: "" };
    const model = compiler.openModel(files, name, main);
    const { inputChannels, spatialRank } = model.info as ModelInfo & { spatialRank?: number };
    if (inputChannels !== 1 || (spatialRank ?? 3) !== 3) {
      model.close();
      throw new GyrusError("unsupported", `[${name}] takes ${inputChannels} channels in ${spatialRank} dimensions; ` +
        "segmentation needs one channel in three");
    }
    this.#model?.close();
    this.session.drop();
    this.#model = model;
    this.#files = { files, name, main: main ?? "" };
    ++this.#modelKey;
    this.#cpuRate = null;
    return model.info;
  }

  /** Conforms the scan ahead of time; segment() does it where this was not called. */
  conform(): Volume {
    const scan = this.#need();
    if (scan.info.conformed) return scan;
    return (this.#conformed ??= scan.conform());
  }

  #need(): Volume {
    if (!this.#scan) throw new GyrusError("invalid-input", "[scan] none is open; drop or choose one first");
    return this.#scan;
  }

  #needModel(): Model {
    if (!this.#model) throw new GyrusError("invalid-input", "[model] none is open; choose one first");
    return this.#model;
  }

  async cpuOffer(conform: boolean): Promise<CpuOffer> {
    this.#needModel();
    const files = this.#files!;
    const spatial = conform ? conformedDims : this.#need().info.dims;
    return this.#cpu.offer(files, spatial, () => (this.#cpuRate ??= this.#cpu.rate(files)));
  }

  async segment(options: SegmentOptions, hooks: Hooks): Promise<SegmentResult> {
    const begin = performance.now();
    const compiler = await this.#open();
    const scan = this.#need();
    const model = this.#needModel();
    const notices: string[] = [];
    const notice = (line: string) => {
      notices.push(line);
      hooks.notice(line);
    };
    const step = async (name: string) => {
      stage(hooks.progress, name);
      await breathe();
      if (hooks.signal.aborted) throw new GyrusError("cancelled", `[run] cancelled before: ${name.toLowerCase()}`);
    };
    const { conform = true, precision = "auto", cpu = false } = options;
    if (conform && !scan.info.conformed) await step("Conforming");
    const input = conform ? this.conform() : scan;
    if (input !== scan) notices.push(...input.info.notices);
    await step("Normalising");
    const { info, policy } = model;
    if (options.normalize === undefined) info.notices.forEach(notice);
    const normalize = options.normalize ?? info.normalize;
    const image = input.tensor(normalize);
    const hooked = { ...hooks, notice };
    const { result, facts, compileMs } = cpu ? await this.#cpu.run(this.#files!, image, hooked, precision)
      : await this.session.run(model, String(this.#modelKey), image, precision, hooked);
    await step("Cleaning and restoring");
    const labels = result.outputs.labels;
    if (!labels) throw new GyrusError("invalid-model", "[plan] has no output named labels");
    if (!options.allowEmpty && !info.allowEmpty) policy.refuseEmpty(labels.data, info.name, cpu);
    const { largestComponent = info.largestComponent, fillHoles = info.fillHoles } = options;
    const { seen, native } = compiler.finish(scan, input, labels, { largestComponent, fillHoles });
    try {
      await step("Measuring");
      const device = await this.device();
      const made: Provenance = {
        gyrus: compiler.version, model: info.name, weights_sha256: info.weightsSha256,
        options: {
          components: largestComponent ? "largest" : "keep", conform: conform ? "yes" : "no",
          fill_holes: fillHoles ? "yes" : "no", normalize, space: "native",
          ...(this.#frame > 0 ? { volume: String(this.#frame) } : {}),
        },
        ...this.#source, device: cpu ? "CPU" : device.adapter, precision: facts.precision,
        date: new Date().toISOString().replace(/\.\d+Z$/, "Z"),
      };
      if (seen !== native) seen.mark({ ...made, options: { ...made.options, space: "conformed" } });
      native.mark(made);
      const report = compiler.report(scan, native, model, made.scan, made);
      const out: SegmentResult = {
        model: info, provenance: made, labels: info.labels, nativeLabels: native.nifti({ labels: true }),
        conformedLabels: seen.nifti({ labels: true }), report, plan: { ...facts },
        seconds: {
          compile: compileMs / 1000, run: result.wallMs / 1000, gpu: result.gpuMs === null ? null : result.gpuMs / 1000,
          total: (performance.now() - begin) / 1000,
        },
        notices, device, onCpu: cpu,
      };
      this.#labels?.close();
      this.#labels = native;
      this.#made = made;
      if (seen !== native) seen.close();
      return out;
    } catch (error) {
      seen.close();
      native.close();
      throw error;
    }
  }

  async brain(): Promise<Uint8Array> {
    const scan = this.#need();
    if (!this.#labels) throw new GyrusError("invalid-input", "[brain] there are no labels yet; segment the scan first");
    const mask = this.#labels.mask();
    try {
      const brain = scan.masked(mask);
      try {
        if (this.#made) brain.mark(this.#made);
        return brain.nifti();
      } finally {
        brain.close();
      }
    } finally {
      mask.close();
    }
  }
}
