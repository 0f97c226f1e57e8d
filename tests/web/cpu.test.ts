// Networks on the processor, inside their module: labels within the margins of the references, the same bits with any
// number of threads.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import type { Compiler, ImageTensor } from "../../web/src/compiler.js";
import { CpuSide } from "../../web/src/cpu.js";
import { CpuEngine } from "../../web/src/cpu-engine.js";
import type { HostTensor } from "../../web/src/types.js";
import { folderOf, isError, loadCompiler, ROOT, shared, sharedModels, tinyModel, tinyScan } from "./support/compiler.js";
import { nodeThreads } from "./support/threads.js";
import { fromNumbers } from "./support/tensors.js";

const file = join(ROOT, "web/dist/wasm/gyrus-cpu.wasm");
const wasm = readFileSync(file);
const thread = await nodeThreads();

let compiler: Compiler;
before(async () => {
  compiler = await loadCompiler();
});

type Extents = [number, number, number];

const floats = (shape: number[], values: number[]): HostTensor => ({ dtype: "f32", shape, data: fromNumbers("f32", values) });

function inputsOf({ dtype, shape, data, scale, shift }: ImageTensor): Record<string, HostTensor> {
  return { image: { dtype, shape, data }, scale: floats([1], [scale]), shift: floats([1], [shift]) };
}

function tinyImage(dims: Extents): ImageTensor {
  const scan = compiler.openVolume("ball.nii", tinyScan({ dims, spacing: [1, 1, 1] }));
  const image = scan.tensor("minmax");
  scan.close();
  return image;
}

const spatialOf = (image: ImageTensor) => image.shape.slice(2) as Extents;
const requestOf = (image: ImageTensor) => ({ spatial: spatialOf(image), input: image.dtype, clamp: image.clamp });

test("the module is one of its own, and small", () => {
  assert.ok(wasm.length <= 1_270_000, `${wasm.length} bytes`);
});

test("the tiny model tells three intensities apart, at any extents", async () => {
  const engine = await CpuEngine.load({ wasm });
  for (const dims of [[16, 16, 16], [7, 5, 3], [9, 4, 21]] as Extents[]) {
    const image = tinyImage(dims);
    const network = engine.openVolume(folderOf(tinyModel()), "tiny", "", requestOf(image));
    const labels = (await network.run(inputsOf(image))).outputs.labels!;
    assert.deepEqual(labels.shape, [1, ...dims]);
    image.data.forEach((byte, i) => {
      const x = byte * image.scale + image.shift;
      const scores = [0, 10 * x - 2.5, 20 * x - 8.5];
      const best = Math.max(...scores);
      assert.ok(best - scores[labels.data[i]!]! < 1e-5, `voxel ${i} of ${dims}: ${x} is no ${labels.data[i]}`);
    });
    network.close();
  }
});

describe("references", () => {
  const crops: [string, Extents][] = [["crop48", [48, 48, 48]], ["crop61x53x47", [61, 53, 47]]];
  const info = shared("reference/crops/info.json");
  type Margins = Record<string, { margin: Record<string, number> }>;
  const margins = info ? (JSON.parse(readFileSync(info, "utf8")) as Margins) : {};
  for (const { name, folder } of sharedModels().filter((model) => `${model.name}/crop48` in margins))
    for (const [crop, spatial] of crops)
      test(`${name}, ${crop}`, async () => {
        const engine = await CpuEngine.load({ wasm, threads: 2, thread });
        assert.equal(engine.threads, 2);
        const model = compiler.openModel(folderOf(folder), name);
        const voxels = readFileSync(shared(`reference/crops/${crop}.u8`)!);
        const scan = compiler.openVolume(crop, withVoxels(tinyScan({ dims: spatial, spacing: [1, 1, 1] }), voxels));
        const image = scan.tensor(model.info.normalize);
        const network = engine.openVolume(folderOf(folder), name, "", requestOf(image));
        assert.equal(network.facts.generic, 0);
        const fractions: number[] = [];
        const { outputs } = await network.run(inputsOf(image), { onProgress: ({ fraction }) => fractions.push(fraction) });
        const labels = compiler.labelsToVolume(scan, { ...outputs.labels!, dtype: "u8" }).nifti().subarray(352);
        const wanted = readFileSync(shared(`reference/crops/labels_${name}_${crop}.u8`)!);
        let different = 0;
        labels.forEach((label, i) => (different += label === wanted[i] ? 0 : 1));
        const { margin } = margins[`${name}/${crop}`]!;
        assert.ok(different <= margin["0.001"]!, `${different} voxels differ, ${margin["0.001"]} may`);
        const stored = engine.openVolume(folderOf(folder), name, "", { ...requestOf(image), halves: true });
        assert.ok(stored.facts.bytes < network.facts.bytes);
        const rounded = (await stored.run(inputsOf(image))).outputs.labels!.data;
        let changed = 0;
        rounded.forEach((label, i) => (changed += label === outputs.labels!.data[i] ? 0 : 1));
        assert.ok(changed <= margin["0.01"]!, `${changed} voxels change in halves, ${margin["0.01"]} may`);
        stored.close();
        assert.equal(fractions.at(-1), 1);
        assert.ok(fractions.every((fraction, i) => i === 0 || fraction >= fractions[i - 1]!));
        for (const one of [network, scan, model, engine]) one.close();
      });
});

test("an ONNX file gives the same bits with 1, 2 and 8 threads", async () => {
  const edges = [{ name: "edges.onnx", bytes: new Uint8Array(readFileSync(join(ROOT, "web/example/program/edges.onnx"))) }];
  const [height, width] = [300, 211];
  const image = floats([1, 1, height, width], Array.from({ length: height * width }, (_, i) => Math.sin(i * i)));
  const found: string[] = [];
  for (const threads of [1, 2, 8]) {
    const engine = await CpuEngine.load({ wasm, threads, thread });
    assert.equal(engine.threads, threads);
    const opened = engine.openFile(edges, "edges", "edges.onnx");
    const network = opened.network({ shapes: { image: image.shape }, captures: [], checkFinite: true });
    for (let run = 0; run < 3; ++run) {
      const slope = (await network.run({ image })).outputs.slope!;
      assert.deepEqual(slope.shape, [1, 1, height, width]);
      found.push(Buffer.from(slope.data).toString("base64"));
    }
    for (const one of [network, opened, engine]) one.close();
  }
  assert.equal(new Set(found).size, 1);
});

test("an abort, a stop within a step, a second run during the first, a run after all", async () => {
  const engine = await CpuEngine.load({ wasm, threads: 2, thread });
  const image = tinyImage([128, 128, 128]);
  const network = engine.openVolume(folderOf(tinyModel()), "tiny", "", requestOf(image));
  const stop = new AbortController();
  const first = network.run(inputsOf(image), { signal: stop.signal, onProgress: () => stop.abort() });
  await assert.rejects(network.run(inputsOf(image)), isError("invalid-input", /under way/));
  await assert.rejects(first, isError("cancelled", /stopped/));
  let asked = 0;
  await assert.rejects(network.run(inputsOf(image), { stopped: () => ++asked > 1 }), isError("cancelled", /stopped/));
  assert.equal((await network.run(inputsOf(image))).outputs.labels!.data.length, 128 ** 3);
  const short = { ...image, shape: [1, 1, 128, 128, 127] };
  await assert.rejects(network.run(inputsOf(short)), isError("invalid-input", /takes u8\[1,1,128,128,128\], the input is/));
  const { scale, ...rest } = inputsOf(image);
  await assert.rejects(network.run(rest), isError("invalid-input", /^\[scale\] this input is missing/));
  network.close();
  await assert.rejects(network.run(inputsOf(image)), isError("invalid-input", /closed/));
  engine.close();
});

test("threads that fail at the same time leave one error, and the next run is right",
  { skip: !shared("models/model5_gw_ae") && "no test data" }, async () => {
    const engine = await CpuEngine.load({ wasm, threads: 8, thread });
    const spatial: Extents = [64, 64, 64];
    const request = { spatial, input: "f32" as const, clamp: false };
    const network = engine.openVolume(folderOf(shared("models/model5_gw_ae")!), "model5", "", request);
    const image = (value: number) => ({ image: floats([1, 1, ...spatial], Array(64 ** 3).fill(value)), scale: floats([1], [1]),
      shift: floats([1], [0]) });
    for (let i = 0; i < 20; ++i) await assert.rejects(network.run(image(NaN)), isError("non-finite", /not finite/));
    assert.equal((await network.run(image(0.5))).outputs.labels!.data.length, 64 ** 3);
    engine.close();
  });

test("what a page cannot hold is said before it is tried", { skip: !shared("models/mindgrab") && "no test data" }, async () => {
  const model = { files: folderOf(shared("models/mindgrab")!), name: "mindgrab", main: "" };
  const side = new CpuSide({ wasm });
  const { possible, flops, why } = await side.offer(model, [512, 512, 512], () => assert.fail("asked for the speed"));
  assert.equal(possible, false);
  assert.ok(flops > 1e13);
  assert.match(why, /^\[mindgrab\] needs \d\.\d GiB of memory on the CPU; a page can have 4\.0 GiB$/);
  const asked = new Error("asked for the speed"); // so it is possible, with maps in halves
  await assert.rejects(side.offer(model, [400, 400, 400], () => Promise.reject(asked)), asked);
  const small = await side.offer(model, [32, 32, 32], () => side.rate(model));
  assert.ok(small.possible && small.seconds > 0 && small.seconds < 60, JSON.stringify(small));
});

function withVoxels(nifti: Uint8Array<ArrayBuffer>, voxels: Uint8Array): Uint8Array {
  nifti.set(voxels, 352);
  return nifti;
}
