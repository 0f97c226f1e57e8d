// Networks without a GPU: whether one is small enough, how long it will take, and its run.

import type { CpuNetwork, ImageTensor, Model } from "./compiler.js";
import { GyrusError } from "./errors.js";
import { stage, type PlanFacts, type Hooks } from "./session.js";
import type { CpuOffer, Progress, RunResult } from "./types.js";

/** Beyond this a run takes minutes on a computer of some years, where 10 GFLOP a second are usual: worth a question. */
export const MAX_CPU_FLOPS = 400e9;

const sampleSide = 64; // voxels: more than the widest window of the small models
const warmMs = 150; // browsers compile what runs often once more, and faster
const sampleMs = 500;

/** Floating-point operations a second that this machine does on this network, from half a second of it. */
export async function cpuRate(model: Model): Promise<number> {
  const spatial: [number, number, number] = [sampleSide, sampleSide, sampleSide];
  const network = model.openCpu({ spatial, input: "u8", clamp: true });
  const data = new Uint8Array(sampleSide ** 3).map((_, i) => (i * 7) % 251);
  const image: ImageTensor = { dtype: "u8", shape: [1, 1, ...spatial], data, scale: 1 / 251, shift: 0, clamp: true };
  try {
    return await sample(network, image);
  } finally {
    network.close();
  }
}

async function sample(network: CpuNetwork, image: ImageTensor): Promise<number> {
  const begin = performance.now();
  let work = 0;
  let busy = 0; // ms
  while (busy < sampleMs) {
    const stop = new AbortController();
    let last = performance.now();
    let before = 0;
    const onProgress = ({ fraction }: { fraction: number }) => {
      const now = performance.now();
      if (last - begin >= warmMs) (work += (fraction - before) * network.flops), (busy += now - last);
      (last = now), (before = fraction);
      if (busy >= sampleMs) stop.abort();
    };
    try {
      await network.run(image, { signal: stop.signal, onProgress });
    } catch (error) {
      if (!(error instanceof GyrusError && error.code === "cancelled")) throw error;
    }
  }
  return work / (busy / 1000);
}

/** Whether the network may run on the CPU for volumes of these extents. */
export async function cpuOffer(
  model: Model, spatial: [number, number, number], rate: () => Promise<number>,
): Promise<CpuOffer> {
  let network: CpuNetwork;
  try {
    network = model.openCpu({ spatial, input: "u8", clamp: true });
  } catch (error) {
    if (!(error instanceof GyrusError) || error.code !== "unsupported") throw error;
    return { possible: false, flops: 0, mostFlops: MAX_CPU_FLOPS, seconds: 0, why: error.message };
  }
  const { flops } = network;
  network.close();
  return { possible: true, flops, mostFlops: MAX_CPU_FLOPS, seconds: flops / (await rate()), why: "" };
}

/** The network on an image, on the CPU. */
export async function runOnCpu(
  model: Model, image: ImageTensor, hooks: Hooks,
): Promise<{ result: RunResult; facts: PlanFacts; compileMs: number }> {
  stage(hooks.progress, "Planning");
  const begin = performance.now();
  const spatial = image.shape.slice(-3) as [number, number, number];
  const network = model.openCpu({ spatial, input: image.dtype, clamp: image.clamp });
  try {
    const { flops, bytes } = network;
    const compileMs = performance.now() - begin;
    const onProgress = (progress: Progress) => hooks.progress("On the CPU", { ...progress, step: 0, steps: 0 });
    const result = await network.run(image, { signal: hooks.signal, onProgress });
    const steps = model.info.layers.length;
    const why = "as always on the CPU";
    return { result, compileMs, facts: { precision: "f32", why, peakBytes: bytes, flops, kernels: 0, steps } };
  } finally {
    network.close();
  }
}
