// The plan as data: everything that an executor needs, and no WebGPU type.

import type { DType, PlanLimits, Precision } from "./types.js";

export { parsePlan } from "./plan-read.js";

export const planFormat = "gyrus-plan-2";

export type BufferKind = "storage" | "weights" | "params" | "state" | "arguments";
export type BindingKind = "read" | "write" | "uniform";
export type PlanFeature = "shader-f16" | "subgroups" | "timestamp-query" | "chromium-experimental-subgroup-matrix";

export interface PlanBuffer {
  label: string;
  size: number; // bytes, a multiple of 4
  kind: BufferKind; // weights and params are filled once, from Plan.weights at dataOffset
  dataOffset: number;
}

/** A compute kernel; its bindings are numbered from 0 in group 0. */
export interface PlanKernel {
  name: string;
  entry: string;
  workgroupSize: [number, number, number];
  workgroupBytes: number; // of workgroup memory
  bindings: BindingKind[];
  wgsl: string;
}

/** A range of a buffer, in bytes. */
export interface BufferRange {
  buffer: number;
  offset: number;
  size: number;
}

export interface Dispatch {
  op: "dispatch";
  label: string;
  kernel: number;
  groups: [number, number, number];
  bindings: BufferRange[];
  flops: number;
  bytes: number;
}

export interface Copy {
  op: "copy";
  from: BufferRange;
  to: BufferRange;
}

export interface Clear {
  op: "clear";
  range: BufferRange;
}

export type Step = Dispatch | Copy | Clear;

/** The bytes from hostOffset on of a row-major tensor, zero padded to a multiple of 4, lie in `range`. */
export interface Piece {
  hostOffset: number;
  range: BufferRange;
}

/** A tensor that the caller gives or takes. */
export interface PlanPort {
  name: string;
  dtype: DType;
  shape: number[];
  pieces: Piece[];
}

/** A tensor that is kept from run to run; its pieces are whole state buffers in the order of its bytes. */
export interface PlanState extends PlanPort {
  start: number | null; // where its first contents stand in Plan.weights; null: zeros
}

/** A scalar that the caller gives for each run, at `offset` of the one buffer of arguments. */
export interface PlanArgument {
  name: string;
  dtype: DType; // f32, i32 or u32
  least: number;
  most: number;
  offset: number;
}

/** What a kernel may report, and the node that it means. */
export interface PlanReport {
  kind: "index" | "finite" | "room";
  label: string;
}

/** A checked plan; make one with {@link parsePlan}. */
export interface Plan {
  precision: Precision;
  needs: PlanLimits;
  features: Record<(typeof usualFeatures)[number], boolean> & { [matrixFeature]?: boolean };
  buffers: PlanBuffer[];
  kernels: PlanKernel[];
  steps: Step[];
  inputs: PlanPort[];
  outputs: PlanPort[];
  captures: PlanPort[];
  states: PlanState[];
  arguments: PlanArgument[];
  report: BufferRange | null; // 16 bytes: word 0 is 0, or 1 + the index of a report
  reports: PlanReport[];
  weights: Uint8Array;
}

/** Always in a plan. */
export const usualFeatures = ["shader-f16", "subgroups", "timestamp-query"] as const satisfies readonly PlanFeature[];
/** In a plan only where it is true. */
export const matrixFeature = "chromium-experimental-subgroup-matrix" satisfies PlanFeature;
export const planFeatures: readonly PlanFeature[] = [...usualFeatures, matrixFeature];

export const limitNames: readonly (keyof PlanLimits)[] = [
  "maxBufferSize",
  "maxStorageBufferBindingSize",
  "maxUniformBufferBindingSize",
  "maxStorageBuffersPerShaderStage",
  "minStorageBufferOffsetAlignment",
  "minUniformBufferOffsetAlignment",
  "maxComputeWorkgroupsPerDimension",
  "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkgroupSizeX",
  "maxComputeWorkgroupSizeY",
  "maxComputeWorkgroupSizeZ",
  "maxComputeWorkgroupStorageSize",
];

export const dtypeBytes: Record<DType, number> = { f32: 4, f16: 2, i32: 4, u32: 4, u8: 1 };

/** Bytes of all buffers; they live as long as the executor. */
export function peakBytes(plan: Plan): number {
  return plan.buffers.reduce((sum, buffer) => sum + buffer.size, 0);
}

/** Bytes of a port's tensor on the host, without padding. */
export function portBytes(port: PlanPort): number {
  return port.shape.reduce((product, extent) => product * extent, dtypeBytes[port.dtype]);
}

export function stepLabel(step: Step): string {
  return step.op === "dispatch" ? step.label : step.op;
}

/** Messages are one line, whatever a file or driver says. */
export function oneLine(text: string): string {
  return text.replace(/[\x00-\x1f\x7f]+/g, " ").trim();
}
