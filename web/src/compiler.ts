// The compiler core as a module: models become plans, files become volumes and results go back to the scan's grid.
// The same C++ code as in the command line, hence the same results. Works in pages, workers and Node.
import { GyrusError } from "./errors.js";
import { checkFileSize, gunzip, isGzip } from "./gzip.js";
import { Policy } from "./policy.js";
import type {
  CompiledPlan,
  Decision,
  DType,
  HostTensor,
  ModelInfo,
  NamedBytes,
  NetworkPlan,
  NetworkPort,
  NetworkRequest,
  Normalize,
  PlanRequest,
  Provenance,
  Report,
  TensorValue,
  VolumeInfo,
} from "./types.js";
import { Wasm, type WasmSource } from "./wasm.js";

// A scan as the network takes it: normalised on the device as image · scale + shift, limited to [0, 1] where `clamp`.
export interface ImageTensor extends TensorValue {
  dtype: "u8" | "f32";
  scale: number;
  shift: number;
  clamp: boolean;
}

export interface FinishOptions {
  largestComponent: boolean;
  fillHoles: boolean;
}

export class Compiler {
  #wasm: Wasm;

  private constructor(wasm: Wasm) {
    this.#wasm = wasm;
  }

  // The module's bytes, a response that brings them, or where they lie; gyrus.wasm beside this script by default.
  static async load(options: { wasm?: WasmSource } = {}): Promise<Compiler> {
    return new Compiler(await Wasm.load(options.wasm ?? new URL("./gyrus.wasm", import.meta.url)));
  }

  // Of gyrus.
  get version(): string {
    return this.#wasm.cText("gyrus_version");
  }

  // What the module holds; it never shrinks.
  get memoryBytes(): number {
    return this.#wasm.memoryBytes;
  }

  // `name` is the model's, usually its folder's; `main` the file that a person named, where it was no folder.
  openModel(files: NamedBytes[], name: string, main = ""): Model {
    const wasm = this.#wasm;
    const folder = wasm.check("gyrus_files_new", name, main);
    try {
      for (const file of files) wasm.check("gyrus_files_add", folder, file.name, file.bytes);
      return new Model(wasm, wasm.check("gyrus_model_open", folder));
    } finally {
      wasm.call("gyrus_files_close", folder);
    }
  }

  // A network of any kind: an ONNX file with what it refers to, or a model's folder. `name` stands in errors; `main` is
  // the file meant, where several may be.
  openNetwork(files: NamedBytes[], name = "", main = ""): Network {
    const wasm = this.#wasm;
    const folder = wasm.check("gyrus_files_new", name, main);
    try {
      for (const file of files) wasm.check("gyrus_files_add", folder, file.name, file.bytes);
    } catch (error) {
      wasm.call("gyrus_files_close", folder);
      throw error;
    }
    return new Network(wasm, wasm.check("gyrus_network_open", folder)); // which takes the files over
  }

  // An ONNX tensor in a file of its own (.pb), as test data is stored; `type` is the element type that the file has.
  readTensor(bytes: Uint8Array, name = "tensor.pb"): HostTensor & { name: string; type: string } {
    this.#wasm.check("gyrus_tensor_read", name, bytes);
    const rest = JSON.parse(this.#wasm.text()) as Omit<HostTensor, "data"> & { name: string; type: string };
    return { ...rest, data: this.#wasm.data() };
  }

  // A NIfTI or MGH file, of a 4-D one the given volume or the first. One that is gzipped is better given to openScan,
  // which inflates it much faster.
  openVolume(name: string, bytes: Uint8Array, frame = -1): Volume {
    checkFileSize(name, bytes.length);
    const handle = this.#wasm.check("gyrus_volume_open", name, bytes, frame);
    return new Volume(this.#wasm, handle, Number(this.#wasm.text()));
  }

  // The same for a file that may be gzipped (.nii.gz, .mgz).
  async openScan(name: string, bytes: Uint8Array, frame = -1): Promise<Volume> {
    checkFileSize(name, bytes.length);
    return this.openVolume(name, isGzip(bytes) ? await this.#inflated(name, bytes) : bytes, frame);
  }

  // What the platform's stream refuses may still be good: browsers take a single member and nothing behind it. The
  // module's own reader decides, and says what is wrong.
  async #inflated(name: string, bytes: Uint8Array): Promise<Uint8Array> {
    try {
      return await gunzip(bytes, name);
    } catch (error) {
      if (error instanceof GyrusError && error.code === "io") return bytes;
      throw error;
    }
  }

  // The network's labels as a volume on the grid that the network saw.
  labelsToVolume(grid: Volume, labels: TensorValue): Volume {
    return new Volume(this.#wasm, this.#wasm.check("gyrus_volume_labels", grid.handle, labels.dtype, labels.data));
  }

  // From the network's labels to those on the scan's own grid, in the order of the command line: clean, then restore.
  // `input` is what the network saw: the scan, or what conform() made of it. Both results are the caller's to close;
  // where the network saw the scan itself they are one.
  finish(scan: Volume, input: Volume, labels: TensorValue, options: FinishOptions): { seen: Volume; native: Volume } {
    const seen = this.labelsToVolume(input, labels);
    try {
      if (options.largestComponent) seen.keepLargest();
      if (options.fillHoles) seen.fillHoles();
      return { seen, native: input === scan ? seen : seen.restore(scan) };
    } catch (error) {
      seen.close();
      throw error;
    }
  }

  // Volumes and intensities of labels; both on one grid. `name` stands in the report as the scan's, `made` as what made
  // the labels.
  report(scan: Volume, labels: Volume, model: Model, name = scan.info.name, made?: Provenance): Report {
    const by = made ? JSON.stringify(made) : "";
    this.#wasm.check("gyrus_report", scan.handle, labels.handle, model.handle, name, by);
    return JSON.parse(this.#wasm.text()) as Report;
  }
}

// An object inside the module, until it is closed.
class Handle {
  protected readonly wasm: Wasm;
  #handle: number;
  #closer: string;

  constructor(wasm: Wasm, handle: number, closer: string) {
    this.wasm = wasm;
    this.#handle = handle;
    this.#closer = closer;
  }

  // For the compiler's own calls.
  get handle(): number {
    if (this.#handle === 0) throw new GyrusError("invalid-input", "[compiler] this model, network or volume was closed");
    return this.#handle;
  }

  // Frees its memory; twice does no harm.
  close(): void {
    if (this.#handle !== 0) this.wasm.call(this.#closer, this.#handle);
    this.#handle = 0;
  }
}

export class Model extends Handle {
  readonly info: ModelInfo;
  readonly policy: Policy;

  constructor(wasm: Wasm, handle: number) {
    super(wasm, handle, "gyrus_model_close");
    this.policy = new Policy(wasm);
    wasm.check("gyrus_model_info", handle);
    this.info = JSON.parse(wasm.text()) as ModelInfo;
  }

  // A plan that keeps the limits; throws "over-limits" where none does. With "auto" the first that is likely to fit:
  // f32, f32 for WebGPU's default limits, f16.
  plan(request: PlanRequest): CompiledPlan {
    this.wasm.check("gyrus_model_plan", this.handle, JSON.stringify(request));
    const json = this.wasm.text();
    const peakBytes = this.wasm.call("gyrus_plan_peak_bytes");
    const flops = this.wasm.call("gyrus_plan_flops");
    const decision = JSON.parse(this.wasm.cText("gyrus_plan_decision")) as Decision;
    return { json, weights: this.wasm.data(), peakBytes, flops, decision };
  }
}

// What Program runs: a file, its ports, and plans for the shapes of its inputs.
export class Network extends Handle {
  readonly inputs: NetworkPort[];
  readonly outputs: NetworkPort[];

  constructor(wasm: Wasm, handle: number) {
    super(wasm, handle, "gyrus_network_close");
    wasm.check("gyrus_network_info", handle);
    const info = JSON.parse(wasm.text()) as { inputs: NetworkPort[]; outputs: NetworkPort[] };
    this.inputs = info.inputs;
    this.outputs = info.outputs;
  }

  // Makes an input part of the network, for all plans to come.
  bind(name: string, { dtype, shape, data }: HostTensor): void {
    this.wasm.check("gyrus_network_bind", this.handle, name, JSON.stringify({ dtype, shape }), data);
  }

  // A plan that keeps the limits. Throws "unsupported" with every node that gyrus does not have, "over-limits" where no
  // plan fits.
  plan(request: NetworkRequest): NetworkPlan {
    this.wasm.check("gyrus_network_plan", this.handle, JSON.stringify(request));
    const json = this.wasm.text();
    const ports = JSON.parse(this.wasm.cText("gyrus_network_ports")) as Omit<NetworkPlan, "json" | "weights">;
    return { json, weights: this.wasm.data(), ...ports };
  }
}

export class Volume extends Handle {
  readonly info: VolumeInfo;
  readonly frames: number; // of the file that it was read from

  constructor(wasm: Wasm, handle: number, frames = 1) {
    super(wasm, handle, "gyrus_volume_close");
    this.frames = frames;
    wasm.check("gyrus_volume_info", handle);
    this.info = JSON.parse(wasm.text()) as VolumeInfo;
  }

  // Says in the header of its files what made it.
  mark(made: Provenance): void {
    this.wasm.check("gyrus_volume_mark", this.handle, JSON.stringify(made));
  }

  // A NIfTI file, not compressed; marked as a label map where asked for.
  nifti(options: { labels?: boolean } = {}): Uint8Array<ArrayBuffer> {
    this.wasm.check("gyrus_volume_nifti", this.handle, options.labels ? 1 : 0);
    return this.wasm.data();
  }

  // 256³ voxels of 1 mm, 8 bits, standard orientation: what networks for whole heads take. Does the work even where
  // info.conformed says that nothing would change.
  conform(): Volume {
    return new Volume(this.wasm, this.wasm.check("gyrus_volume_conform", this.handle));
  }

  // "quantile:LOW,HIGH" with fractions is possible too.
  tensor(normalize: Normalize | (string & {})): ImageTensor {
    this.wasm.check("gyrus_volume_tensor", this.handle, normalize);
    const rest = JSON.parse(this.wasm.text()) as Omit<ImageTensor, "data"> & { dtype: DType };
    return { ...rest, data: this.wasm.data() } as ImageTensor;
  }

  // Clears all but the largest part of every label; answers with the number of voxels changed.
  keepLargest(): number {
    return this.wasm.check("gyrus_volume_keep_largest", this.handle) - 1;
  }

  // Fills background that labels enclose; likewise.
  fillHoles(): number {
    return this.wasm.check("gyrus_volume_fill_holes", this.handle) - 1;
  }

  // These labels on the grid of another volume.
  restore(grid: Volume): Volume {
    return new Volume(this.wasm, this.wasm.check("gyrus_volume_restore", this.handle, grid.handle));
  }

  // 1 where a label is, grown (or, negative, shrunk) by so many mm.
  mask(borderMm = 0): Volume {
    return new Volume(this.wasm, this.wasm.check("gyrus_volume_mask", this.handle, borderMm));
  }

  // This scan with zero outside the mask.
  masked(mask: Volume): Volume {
    return new Volume(this.wasm, this.wasm.check("gyrus_volume_masked", this.handle, mask.handle));
  }
}
