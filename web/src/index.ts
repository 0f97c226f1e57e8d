// The package: the executor, the compiler, and the segmenter that runs both in a worker.

export * from "./executor-entry.js";
export { Compiler, CpuNetwork, Model, Network, Volume, type FinishOptions, type ImageTensor } from "./compiler.js";
export { Program, type Planned, type ProgramOptions, type ProgramResult, type ProgramRun } from "./program.js";
export {
  createSegmenter, type CreateOptions, type Labels, type ScanOptions, type ScanSource, type Segmentation, type SegmentFunction,
} from "./create.js";
export { WorkerSegmenter } from "./segmenter.js";
export type { WasmSource } from "./wasm.js";
