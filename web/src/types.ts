// What the parts of the package say to each other. Errors are thrown as GyrusError (errors.ts) everywhere.

// ---- devices ----

// The limits a plan depends on, named as in the WebGPU specification; the planner's input.
export interface PlanLimits {
  maxBufferSize: number;
  maxStorageBufferBindingSize: number;
  maxUniformBufferBindingSize: number;
  maxStorageBuffersPerShaderStage: number;
  minStorageBufferOffsetAlignment: number;
  minUniformBufferOffsetAlignment: number;
  maxComputeWorkgroupsPerDimension: number;
  maxComputeInvocationsPerWorkgroup: number;
  maxComputeWorkgroupSizeX: number;
  maxComputeWorkgroupSizeY: number;
  maxComputeWorkgroupSizeZ: number;
  maxComputeWorkgroupStorageSize: number;
}

export type Precision = "f32" | "f16";
export type DType = "f32" | "f16" | "i32" | "u32" | "u8";
// Of tensors outside of the device, which has neither of the two: i64 passes through i32, bool (bytes 0 and 1) through u8.
export type HostDType = DType | "i64" | "bool";

// ---- the compiler (WASM) ----

// A file of a model, named relative to the model's folder: "model.json", "model.pth", "colormap.json" …
export interface NamedBytes {
  name: string;
  bytes: Uint8Array;
}

export interface LabelEntry {
  value: number;
  name: string;
  colour: string; // "#rrggbb"
}

export interface LayerInfo {
  name: string;
  kind: string;
  weightShape: number[];
  parameters: number;
  activation: string;
  norm: string;
}

export interface ModelInfo {
  name: string;
  format: string;
  classes: number;
  inputChannels: number;
  parameters: number;
  receptiveField: number;
  title: string; // this and what follows: from gyrus.json, else what is known of its weights (docs/models.md)
  description: string;
  licence: string;
  citation: string;
  normalize: string; // "minmax", "quantile:0.02,0.98", "none"
  largestComponent: boolean;
  fillHoles: boolean;
  allowEmpty: boolean; // a result without any label is one
  notices: string[]; // what had to be assumed
  layers: LayerInfo[];
  labels: LabelEntry[]; // from colormap.json, else default names and colours; entry 0 is the background
  weightsSha256: string; // of weights and biases, the same for every file format and folder
}

export interface PlanRequest {
  spatial: [number, number, number]; // extents as the network sees them: Volume's tensorShape
  input: "u8" | "f32"; // dtype of the image
  clamp: boolean;
  output: "labels" | "logits";
  precision: "auto" | Precision; // with `small` given: exactly this plan, not "auto"
  small?: boolean; // within WebGPU's default limits: less memory, a little more time
  limits: PlanLimits;
  software: boolean; // a CPU stands in for the GPU: other kernel shapes
  memory?: MemoryBudget; // what "auto" goes by
  checkFinite?: boolean; // kernels test every value that they store, and report the first that is not finite
  dispatchFlops?: number; // more work than this is cut into several dispatches; see device.ts's dispatchFlops()
}

// How much memory a plan may need, and what that rests on.
export interface MemoryBudget {
  bytes: number;
  because: string;
}

// What a browser tells of the machine around the GPU.
export interface BrowserFacts {
  mobile: boolean;
  memoryGiB: number | null; // of the machine, rounded by the browser and never said to be more than 8
}

// One try to run a network.
export interface Attempt {
  wish: "auto" | Precision;
  precision: Precision;
  small: boolean; // for WebGPU's default limits, not for the device's own
  checkFinite: boolean;
  losses: number; // of devices, with this plan
}

// Which plan it became.
export interface Decision {
  precision: Precision;
  small: boolean;
  why: string;
  notice: string; // what to tell the person; empty for the plan that anyone would expect
}

// A plan in its two files, and its sums.
export interface CompiledPlan {
  json: string;
  weights: Uint8Array;
  peakBytes: number;
  flops: number;
  decision: Decision;
}

// An input or output as a network's file declares it.
export interface NetworkPort {
  name: string;
  type: string; // as the file calls it: "float", "int64", "sequence" …
  dtype: HostDType | null; // in which gyrus takes and gives it; null where it has no such tensors
  dims: (number | string | null)[] | null; // names and nulls are extents that are not fixed; null: of any rank
}

// A port of a plan as the caller sees it.
export interface HostPort {
  name: string;
  dtype: HostDType;
  shape: number[];
}

export interface NetworkRequest {
  shapes: Record<string, number[]>; // of the inputs that are not bound; those that the file fixes may be left out
  captures: boolean | string[]; // values of the network to give as well; true: all that it computes
  precision: Precision;
  limits: PlanLimits;
  software: boolean;
  checkFinite: boolean;
  dispatchFlops?: number; // as in PlanRequest
}

// A plan in its two files, and its ports as the caller sees them; json is empty where no result has an element.
export interface NetworkPlan {
  json: string;
  weights: Uint8Array;
  inputs: HostPort[];
  outputs: HostPort[];
  captures: HostPort[];
}

export type Normalize = "minmax" | "quantile" | "none";

export interface VolumeInfo {
  name: string;
  dims: [number, number, number]; // x, y, z
  spacing: [number, number, number]; // mm
  type: string;
  affine: number[]; // 12 numbers: the first three rows, voxel → RAS mm
  range: [number, number] | null; // least and greatest finite value; null where there is none
  conformed: boolean; // already 256³, 1 mm, u8, standard orientation: conform() would change nothing
  notices: string[];
}

export interface LabelStatistics {
  value: number;
  name: string;
  voxels: number;
  mm3: number;
  mean: number;
  sd: number;
  centroid: [number, number, number];
}

export interface Report {
  labels: LabelStatistics[];
  totalMm3: number;
  greyMm3: number | null;
  whiteMm3: number | null;
  csfMm3: number | null;
  warnings: string[];
  json: string; // as the command line writes it
  csv: string;
}

// ---- the executor ----

export interface TensorValue {
  dtype: DType;
  shape: number[];
  data: Uint8Array; // row-major bytes
}

// The same where integers may be of 64 bits and truth values are told apart from bytes.
export interface HostTensor {
  dtype: HostDType;
  shape: number[];
  data: Uint8Array;
}

// A tensor on the device: its row-major bytes in a buffer that can be copied from, rounded up to a multiple of 4.
export interface DeviceTensor {
  dtype: DType;
  shape: number[];
  buffer: GPUBuffer;
  offset?: number; // bytes, a multiple of 4
}

// One for each of the plan's inputs, from the host or from the device.
export type Inputs = Record<string, TensorValue | DeviceTensor>;

export interface Progress {
  fraction: number; // 0 to 1, never less than before
  label: string; // of the last step done
  step: number;
  steps: number;
  secondsLeft: number | null; // null until there is something to go by
}

export interface RunOptions {
  signal?: AbortSignal;
  onProgress?: (progress: Progress) => void;
  arguments?: Record<string, number>; // one for each of the plan's arguments
  outputs?: string[]; // those to read back; all unless given
  captures?: boolean | string[]; // read the plan's captures back as well, or those named
  keep?: string[]; // outputs and captures that stay on the device instead
  profile?: boolean; // GPU times of each step; needs timestamp-query
}

export interface RunResult {
  outputs: Record<string, TensorValue>; // with captures
  kept: Record<string, DeviceTensor>; // in buffers that are now the caller's, who destroys them
  uploadedBytes: number; // from the host to the device, and back: inputs, arguments, outputs, times
  readBackBytes: number;
  gpuMs: number | null;
  wallMs: number;
  profile: { label: string; kernel: string; ms: number }[];
}

// ---- the segmenter: the page's view of the worker ----

export interface DeviceReport {
  available: boolean;
  why: string; // where not available: what to tell a person
  adapter: string; // "nvidia / ampere / …", as far as the browser tells
  software: boolean;
  features: string[];
  limits: Record<string, number>;
}

export type ModelSource =
  | { kind: "url"; url: string; files?: string[] } // a folder with a trailing slash, or a file
  | { kind: "files"; name: string; files: NamedBytes[] };

// How much of a model's weights has come; `total` is null until it is known, and until the end where a host does not tell.
export interface Download {
  loaded: number; // bytes
  total: number | null;
}

export interface OpenModelOptions {
  signal?: AbortSignal;
  onDownload?: (download: Download) => void;
}

// An entry of a site's models/index.json, {"models": [...]}.
export interface SiteModel {
  name: string;
  title: string;
  licence: string;
  classes: number;
  bytes: number;
  description?: string; // this and the next three: older lists have none
  citation?: string;
  labels?: string[]; // names, without the background
  parameters?: number;
  path: string; // of its folder, relative to models/: "NAME/"
  files: { name: string; bytes: number }[];
}

// What made a result: in the header of its NIfTI files and in its report, with the command line's keys.
export interface Provenance {
  gyrus: string; // version
  model: string;
  weights_sha256: string;
  options: Record<string, string>; // conform, normalize, components, fill_holes, space, volume
  scan: string; // file name
  scan_bytes: number;
  scan_sha256: string; // of the file as it was opened; empty on pages that are not secure
  device: string;
  precision: string;
  date: string; // UTC, ISO 8601
}

// Where the first four are not given, the model's own way (gyrus.json, or what is known of its weights).
export interface SegmentOptions {
  normalize?: string; // as the command line's option: "minmax", "quantile[:lo,hi]", "none"
  largestComponent?: boolean; // as the command line's option does
  fillHoles?: boolean;
  allowEmpty?: boolean; // labels may be nothing but background
  precision?: "auto" | Precision; // "auto" unless given
  conform?: boolean; // to 256³ at 1 mm, unless the scan is already so; false: the scan's own grid. True unless given
  cpu?: boolean; // on the processor, for networks that cpuOffer() says can: false unless given
  signal?: AbortSignal;
  onProgress?: (stage: string, progress: Progress) => void;
  onNotice?: (line: string) => void; // decisions made for the person: f16 chosen, a smaller plan, a new device
}

// Whether the open model may run on the CPU for the open scan.
export interface CpuOffer {
  possible: boolean;
  flops: number; // this and seconds: 0 where the network cannot run there
  mostSeconds: number; // more than this is worth a question
  seconds: number; // a guess from half a second of the network on this machine
  why: string; // where not possible
}

export interface OpenScan {
  info: VolumeInfo;
  volumes: number; // of a 4-D file
  volume: number; // the one that was opened, from 0
  nifti: Uint8Array; // to show: the scan on its own grid, uncompressed
}

export interface SegmentResult {
  model: ModelInfo; // that made it
  provenance: Provenance;
  labels: LabelEntry[];
  nativeLabels: Uint8Array; // a NIfTI file, uncompressed, on the scan's own grid
  conformedLabels: Uint8Array; // a NIfTI file on the grid that the network saw
  report: Report; // on the scan's own grid
  plan: { precision: Precision; why: string; peakBytes: number; flops: number; kernels: number; steps: number };
  seconds: { compile: number; run: number; gpu: number | null; total: number };
  notices: string[];
  device: DeviceReport;
  onCpu: boolean;
}

// Speaks to the worker that holds compiler and executor. One scan and one model at a time; calls queue up.
export interface Segmenter {
  device(): Promise<DeviceReport>;
  // Bytes of a NIfTI or MGH/MGZ file, gzip or not; resolves with what was read and a NIfTI to show.
  openScan(name: string, bytes: ArrayBuffer, options?: { volume?: number }): Promise<OpenScan>;
  openModel(source: ModelSource, options?: OpenModelOptions): Promise<ModelInfo>;
  cpuOffer(options?: Pick<SegmentOptions, "conform">): Promise<CpuOffer>;
  segment(options?: SegmentOptions): Promise<SegmentResult>;
  // The scan with everything outside the labels set to zero, as the command line's brain output: a NIfTI file.
  brain(): Promise<Uint8Array>;
  close(): void;
}
