// What lies on the worker's desk: the compiler, a scan, a model, the last result. The steps from scan to labels are
// those of the command line: conform, normalise, run, clean, restore, report.

import { Compiler, type Model, type Volume } from "./compiler.js";
import { cpuOffer, cpuRate, runOnCpu } from "./cpu.js";
import { GyrusError } from "./errors.js";
import { fetchModel } from "./model-files.js";
import { Session, stage, type Hooks } from "./session.js";
import type {
  CpuOffer, DeviceReport, ModelInfo, ModelSource, OpenScan, SegmentOptions, SegmentResult,
} from "./types.js";

// Lets messages in, a cancellation for one, between steps that block.
function breathe(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

const conformedDims: [number, number, number] = [256, 256, 256];

export class Pipeline {
  readonly session = new Session();
  #compiler: Promise<Compiler> | null = null;
  #wasm: URL;
  #scan: Volume | null = null;
  #scanName = "";
  #conformed: Volume | null = null;
  #model: Model | null = null;
  #modelKey = 0;
  #cpuRate: Promise<number> | null = null; // of the model
  #labels: Volume | null = null; // on the scan's grid, for brain()

  constructor(wasm: URL) {
    this.#wasm = wasm;
  }

  async #open(): Promise<Compiler> {
    this.#compiler ??= Compiler.load({ wasm: this.#wasm }).catch((error: unknown) => {
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
  async openScan(name: string, bytes: ArrayBuffer): Promise<OpenScan> {
    const compiler = await this.#open();
    const scan = await compiler.openScan(name, new Uint8Array(bytes));
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
    this.#scanName = name;
    return { info: scan.info, nifti };
  }

  async openModel(source: ModelSource): Promise<ModelInfo> {
    const compiler = await this.#open();
    const { name, files, main } =
      source.kind === "url" ? await fetchModel(source.url, source.files) : { ...source, main: "" };
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
    const model = this.#needModel();
    const spatial = conform ? conformedDims : this.#need().info.dims;
    return cpuOffer(model, spatial, () => (this.#cpuRate ??= cpuRate(model)));
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
    if (options.conform && !scan.info.conformed) await step("Conforming");
    const input = options.conform ? this.conform() : scan;
    if (input !== scan) notices.push(...input.info.notices);
    await step("Normalising");
    const { info, policy } = model;
    if (options.normalize === undefined) info.notices.forEach(notice);
    const image = input.tensor(options.normalize ?? info.normalize);
    const hooked = { ...hooks, notice };
    const { result, facts, compileMs } = options.cpu ? await runOnCpu(model, image, hooked)
      : await this.session.run(model, String(this.#modelKey), image, options.precision, hooked);
    await step("Cleaning and restoring");
    const labels = result.outputs.labels;
    if (!labels) throw new GyrusError("invalid-model", "[plan] has no output named labels");
    if (!options.allowEmpty && !info.allowEmpty) policy.refuseEmpty(labels.data, info.name, options.cpu === true);
    const { largestComponent = info.largestComponent, fillHoles = info.fillHoles } = options;
    const { seen, native } = compiler.finish(scan, input, labels, { largestComponent, fillHoles });
    try {
      await step("Measuring");
      const report = compiler.report(scan, native, model, this.#scanName);
      const out: SegmentResult = {
        labels: model.info.labels, nativeLabels: native.nifti({ labels: true }),
        conformedLabels: seen.nifti({ labels: true }), report, plan: { ...facts },
        seconds: {
          compile: compileMs / 1000, run: result.wallMs / 1000, gpu: result.gpuMs === null ? null : result.gpuMs / 1000,
          total: (performance.now() - begin) / 1000,
        },
        notices, device: await this.device(), onCpu: options.cpu === true,
      };
      this.#labels?.close();
      this.#labels = native;
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
        return brain.nifti();
      } finally {
        brain.close();
      }
    } finally {
      mask.close();
    }
  }
}
