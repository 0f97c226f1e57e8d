// A plan on a device: buffers allocated and filled, kernels compiled, bind groups built.

import { scopeError, type DeviceState, type Pipeline } from "./device-state.js";
import { Allocations } from "./allocations.js";
import { buildPipelines } from "./pipelines.js";
import type { BufferKind, Plan } from "./plan.js";
import { Readback, upload } from "./staging.js";

const largeBytes = 16 * 2 ** 20; // buffers of this size are waited for one by one: after a refusal no more is asked for

export interface LoadedPlan {
  state: DeviceState;
  plan: Plan;
  allocations: Allocations;
  readback: Readback;
  buffers: GPUBuffer[];
  pipelines: Map<number, Pipeline>; // by kernel
  groups: (GPUBindGroup | null)[]; // by step; null where it is no dispatch
}

function usageOf(kind: BufferKind): GPUBufferUsageFlags {
  const { COPY_DST, COPY_SRC, STORAGE, UNIFORM } = GPUBufferUsage;
  return kind === "params" ? UNIFORM | COPY_DST : STORAGE | COPY_SRC | COPY_DST;
}

async function allocate(allocations: Allocations, plan: Plan): Promise<GPUBuffer[]> {
  const buffers: GPUBuffer[] = [];
  const waiting: Promise<void>[] = [];
  for (const { label, size, kind } of plan.buffers) {
    const { buffer, ready } = allocations.create(label, size, usageOf(kind));
    buffers.push(buffer);
    waiting.push(ready);
    if (size >= largeBytes) await ready;
  }
  await Promise.all(waiting);
  return buffers;
}

async function fill(state: DeviceState, plan: Plan, buffers: GPUBuffer[]): Promise<void> {
  const writes = plan.buffers.flatMap(({ kind, size, dataOffset }, i) => {
    if (kind === "storage") return [];
    return [{ buffer: buffers[i]!, offset: 0, size, data: plan.weights.subarray(dataOffset, dataOffset + size) }];
  });
  await upload(state, "uploading the weights", writes);
}

async function bind(
  state: DeviceState,
  plan: Plan,
  buffers: GPUBuffer[],
  pipelines: Map<number, Pipeline>,
): Promise<(GPUBindGroup | null)[]> {
  const { value, error } = state.scoped(() =>
    plan.steps.map((step) => {
      if (step.op !== "dispatch") return null;
      const entries = step.bindings.map(({ buffer, offset, size }, binding) => ({
        binding,
        resource: { buffer: buffers[buffer]!, offset, size },
      }));
      return state.device.createBindGroup({ label: step.label, layout: pipelines.get(step.kernel)!.layout, entries });
    }),
  );
  const found = await error;
  if (found) throw scopeError(found, "building bind groups");
  return value;
}

/** Loads a plan; where that fails, nothing stays allocated. */
export async function load(
  state: DeviceState,
  plan: Plan,
  onCompiled: (done: number, total: number) => void,
): Promise<LoadedPlan> {
  const allocations = new Allocations(state);
  try {
    const buffers = await allocate(allocations, plan);
    await fill(state, plan, buffers);
    const pipelines = await buildPipelines(state, plan, onCompiled);
    const groups = await bind(state, plan, buffers, pipelines);
    return { state, plan, allocations, readback: new Readback(state, allocations), buffers, pipelines, groups };
  } catch (error) {
    allocations.destroyAll();
    throw error;
  }
}
