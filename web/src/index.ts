// The package: the executor, the compiler, and the segmenter that runs both in a worker.

export * from "./executor-entry.js";
export { Compiler, CpuNetwork, Model, Volume, type FinishOptions, type ImageTensor } from "./compiler.js";
export { WorkerSegmenter } from "./segmenter.js";
export type { WasmSource } from "./wasm.js";
