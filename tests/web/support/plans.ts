// Small plans made by hand, as the JSON that the compiler would write.

import { parsePlan, type Plan } from "../../../web/src/plan.js";
import type { DType, TensorValue } from "../../../web/src/types.js";

export const needs = {
  maxBufferSize: 4096,
  maxStorageBufferBindingSize: 4096,
  maxUniformBufferBindingSize: 16,
  maxStorageBuffersPerShaderStage: 2,
  minStorageBufferOffsetAlignment: 256,
  minUniformBufferOffsetAlignment: 256,
  maxComputeWorkgroupsPerDimension: 64,
  maxComputeInvocationsPerWorkgroup: 64,
  maxComputeWorkgroupSizeX: 64,
  maxComputeWorkgroupSizeY: 1,
  maxComputeWorkgroupSizeZ: 1,
  maxComputeWorkgroupStorageSize: 0,
};

// to[i] = from[i] * factor + weight, after `turns` turns of a loop that only takes time.
const wgsl = `struct Params { count: u32, factor: f32, turns: u32, zero: f32 }
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> weight: array<f32>;
@group(0) @binding(2) var<storage, read> source: array<f32>;
@group(0) @binding(3) var<storage, read_write> result: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= P.count) { return; }
  var x = source[id.x];
  for (var i = 0u; i < P.turns; i++) { x = fma(sin(x) + x, P.zero, x); }
  result[id.x] = x * P.factor + weight[0];
}
`;

/** JSON of a plan of `steps` steps x → 2 x + 1 over `count` floats, each of which takes `turns` turns more. */
export function chainJson(count: number, steps: number, turns = 0) {
  const size = count * 4;
  const range = (buffer: number): [number, number, number] => [buffer, 0, size];
  const port = (name: string, buffer: number) => ({
    name,
    dtype: "f32",
    shape: [count],
    pieces: [[0, buffer, 0, size]],
  });
  return {
    format: "gyrus-plan-2",
    precision: "f32",
    needs: { ...needs, maxBufferSize: size, maxStorageBufferBindingSize: size },
    features: { "shader-f16": false, subgroups: false, "timestamp-query": false },
    weights: 260,
    buffers: [
      { label: "params", size: 16, kind: "params", dataOffset: 0 },
      { label: "weights", size: 4, kind: "weights", dataOffset: 256 },
      { label: "even", size, kind: "storage", dataOffset: 0 },
      { label: "odd", size, kind: "storage", dataOffset: 0 },
      { label: "input", size, kind: "storage", dataOffset: 0 },
      { label: "middle", size, kind: "storage", dataOffset: 0 },
    ],
    kernels: [
      { name: "double", entry: "main", workgroupSize: [64, 1, 1], workgroupBytes: 0, bindings: ["uniform", "read", "read", "write"], wgsl },
    ],
    steps: [
      { op: "copy", from: range(4), to: range(2) },
      { op: "clear", range: range(3) },
      ...Array.from({ length: steps }, (_, i) => ({
        op: "dispatch",
        label: `layer.${i}`,
        kernel: 0,
        groups: [Math.ceil(count / 64), 1, 1],
        bindings: [[0, 0, 16], [1, 0, 4], range(2 + (i % 2)), range(3 - (i % 2))],
        flops: 2 * count * (turns + 1),
        bytes: 2 * size,
      })),
      { op: "copy", from: range(2 + (steps % 2)), to: range(5) },
    ] as Record<string, unknown>[],
    inputs: [port("x", 4)],
    outputs: [port("y", 2 + (steps % 2))],
    captures: [port("copied", 5)],
    states: [],
    arguments: [],
    report: null,
    reports: [],
    count,
    turns,
  };
}

export type ChainJson = ReturnType<typeof chainJson>;

/** Parses what chainJson made, after changes to it. */
export function chainPlan(json: ChainJson): Plan {
  const { count, turns, ...plan } = json;
  const weights = new Uint8Array(260);
  const view = new DataView(weights.buffer);
  view.setUint32(0, count, true);
  view.setFloat32(4, 2, true);
  view.setUint32(8, turns, true);
  view.setFloat32(256, 1, true);
  return parsePlan(JSON.stringify(plan), weights);
}

export function floats(values: number[]): TensorValue {
  return tensor("f32", [values.length], new Float32Array(values));
}

export function tensor(dtype: DType, shape: number[], data: ArrayBufferView): TensorValue {
  return { dtype, shape, data: new Uint8Array(data.buffer as ArrayBuffer, data.byteOffset, data.byteLength) };
}

export function toFloats(value: TensorValue | undefined): number[] {
  return value ? [...new Float32Array(value.data.buffer as ArrayBuffer)] : [];
}

/** What `steps` steps of the chain make of x, exact for small whole numbers. */
export function chained(x: number, steps: number): number {
  return x * 2 ** steps + 2 ** steps - 1;
}
