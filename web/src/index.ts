// The package: the executor, the compiler, the trainer, and the segmenter that runs the first two in a worker.

export * from "./executor-entry.js";
export { Compiler, Model, Network, Volume, type FinishOptions, type ImageTensor } from "./compiler.js";
export { CpuEngine, CpuFile, CpuNetwork, type CpuEngineOptions, type CpuNetworkFacts, type CpuRunOptions, type CpuVolumeRequest } from "./cpu-engine.js";
export { Program, type Planned, type ProgramOptions, type ProgramResult, type ProgramRun } from "./program.js";
export {
  createSegmenter, type CreateOptions, type Labels, type ScanOptions, type ScanSource, type Segmentation, type SegmentFunction,
} from "./create.js";
export {
  GraphBuilder, type Attributes, type GraphNode, type NetworkGraph, type Operand,
} from "./network-graph.js";
export { TrainingCompiler, type Loss, type NetworkFiles } from "./trainee.js";
export {
  Trainer, type LossScaling, type Optimizer, type ParameterGroup, type Schedule, type StepOptions, type StepResult, type TrainerOptions,
} from "./trainer.js";
export { type ByteSource, type TextSource } from "./byte-source.js";
export { forgetModel, storedModels, type StoredModel } from "./model-store.js";
export {
  planTextModel, TextGenerator, type DescribeOptions, type Generated, type GenerateOptions, type Sampling, type TextGeneratorOptions, type TextPlan,
} from "./text-generator.js";
export {
  TextCompiler, type CacheFormat, type ChatMessage, type Finish, type GeneratedToken, type TextMemory, type TextModelInfo, type TextOptions,
  type TokenScore,
} from "./text-model.js";
export { WorkerSegmenter } from "./segmenter.js";
export type { WasmSource } from "./wasm.js";
