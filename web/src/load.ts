// A plan on a device: buffers allocated and filled, kernels compiled, bind groups built.

import { scopeError, type DeviceState, type Pipeline } from "./device-state.js";
import { Allocations } from "./allocations.js";
import type { Memory } from "./memory.js";
import { buildPipelines } from "./pipelines.js";
import { stateWrites } from "./ports.js";
import type { BufferKind, Plan } from "./plan.js";
import { Readback, upload } from "./staging.js";
import type { Timestamps } from "./timestamps.js";
import type { Weights } from "./weights.js";

const largeBytes = 16 * 2 ** 20; // buffers of this size are waited for one by one: after a refusal no more is asked for

export interface LoadedPlan {
  state: DeviceState;
  plan: Plan;
  allocations: Allocations; // of all buffers but those of states
  memory: Memory; // which owns these
  readback: Readback;
  buffers: GPUBuffer[];
  pipelines: Map<number, Pipeline>; // by kernel
  groups: (GPUBindGroup | null)[]; // by step; null where it is no dispatch
  writes: ReturnType<typeof stateWrites>;
  shared: GPUBuffer[]; // of weights, which belong to others as well
  times: Timestamps | null; // of runs as a whole, made with the first
}

function usageOf(kind: BufferKind): GPUBufferUsageFlags {
  const { COPY_DST, COPY_SRC, STORAGE, UNIFORM } = GPUBufferUsage;
  if (kind === "params") return UNIFORM | COPY_DST;
  return (kind === "arguments" ? UNIFORM : 0) | STORAGE | COPY_SRC | COPY_DST;
}

// All buffers but those of states, without those that are `known` already.
async function allocate(
  allocations: Allocations, plan: Plan, known: Map<number, GPUBuffer>,
): Promise<Map<number, GPUBuffer>> {
  const buffers = new Map<number, GPUBuffer>();
  const waiting: Promise<void>[] = [];
  for (const [i, { label, size, kind }] of plan.buffers.entries()) {
    if (kind === "state" || known.has(i)) continue;
    const { buffer, ready } = allocations.create(label, size, usageOf(kind));
    buffers.set(i, buffer);
    waiting.push(ready);
    if (size >= largeBytes) await ready;
  }
  await Promise.all(waiting);
  return buffers;
}

const contents = (plan: Plan, i: number) => {
  const { dataOffset, size } = plan.buffers[i]!;
  return plan.weights.subarray(dataOffset, dataOffset + size);
};

async function fill(state: DeviceState, plan: Plan, buffers: Map<number, GPUBuffer>): Promise<void> {
  const filled = [...buffers].filter(([i]) => ["weights", "params"].includes(plan.buffers[i]!.kind));
  const writes = filled.map(([i, buffer]) =>
    ({ buffer, offset: 0, size: plan.buffers[i]!.size, data: contents(plan, i) }));
  await upload(state, "uploading the weights", writes);
}

// Weights that other plans brought.
function known(plan: Plan, weights: Weights | undefined): Map<number, GPUBuffer> {
  const found = new Map<number, GPUBuffer>();
  if (!weights) return found;
  plan.buffers.forEach(({ kind }, i) => {
    const buffer = kind === "weights" ? weights.take(contents(plan, i)) : null;
    if (buffer) found.set(i, buffer);
  });
  return found;
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

/** Loads a plan, whose states `memory` has or gets; where that fails, nothing stays allocated. */
export async function load(
  state: DeviceState,
  plan: Plan,
  memory: Memory,
  onCompiled: (done: number, total: number) => void,
  weights?: Weights,
): Promise<LoadedPlan> {
  const allocations = new Allocations(state);
  const found = known(plan, weights);
  let attached = false;
  try {
    memory.check(plan);
    const own = await allocate(allocations, plan, found);
    await fill(state, plan, own);
    const pipelines = await buildPipelines(state, plan, onCompiled);
    const states = await memory.attach(plan);
    attached = true;
    const buffers = plan.buffers.map((_, i) => own.get(i) ?? found.get(i) ?? states.get(i)!);
    const groups = await bind(state, plan, buffers, pipelines);
    const readback = new Readback(state, allocations);
    const shared = [...found.values()];
    for (const [i, buffer] of weights ? own : []) {
      if (plan.buffers[i]!.kind !== "weights") continue;
      allocations.disown(buffer);
      weights!.add(contents(plan, i), buffer);
      shared.push(buffer);
    }
    return { state, plan, allocations, memory, readback, buffers, pipelines, groups, writes: stateWrites(plan), shared,
      times: null };
  } catch (error) {
    weights?.release([...found.values()]);
    allocations.destroyAll();
    if (attached) memory.release();
    throw error;
  }
}
