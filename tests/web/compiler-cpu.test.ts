// Networks without a GPU, inside the module: labels within the margins of the references.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { before, describe, test } from "node:test";
import { Compiler, type ImageTensor } from "../../web/src/compiler.js";
import { folderOf, isError, loadCompiler, shared, sharedModels, tinyModel, tinyScan } from "./support/compiler.js";

let compiler: Compiler;
before(async () => {
  compiler = await loadCompiler();
});

function tinyImage(dims: [number, number, number]): ImageTensor {
  const scan = compiler.openVolume("ball.nii", tinyScan({ dims, spacing: [1, 1, 1] }));
  const image = scan.tensor("minmax");
  scan.close();
  return image;
}

const spatialOf = (image: ImageTensor) => image.shape.slice(2) as [number, number, number];

test("the tiny model tells three intensities apart, at any extents", async () => {
  const model = compiler.openModel(folderOf(tinyModel()), "tiny");
  for (const dims of [[16, 16, 16], [7, 5, 3], [9, 4, 21]] as [number, number, number][]) {
    const image = tinyImage(dims);
    const network = model.openCpu({ spatial: spatialOf(image), input: image.dtype, clamp: image.clamp });
    const labels = (await network.run(image)).outputs.labels!;
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
  const crops: [string, [number, number, number]][] = [["crop48", [48, 48, 48]], ["crop61x53x47", [61, 53, 47]]];
  const info = shared("reference/crops/info.json");
  type Margins = Record<string, { margin: Record<string, number> }>;
  const margins = info ? (JSON.parse(readFileSync(info, "utf8")) as Margins) : {};
  const runs = sharedModels().filter(({ name }) => name !== "mindgrab" && `${name}/crop48` in margins);
  for (const { name, folder } of runs)
    for (const [crop, spatial] of crops)
      test(`${name}, ${crop}`, async () => {
        const model = compiler.openModel(folderOf(folder), name);
        const voxels = readFileSync(shared(`reference/crops/${crop}.u8`)!);
        const scan = compiler.openVolume(crop, withVoxels(tinyScan({ dims: spatial, spacing: [1, 1, 1] }), voxels));
        const image = scan.tensor(model.info.normalize);
        const network = model.openCpu({ spatial, input: image.dtype, clamp: image.clamp });
        const fractions: number[] = [];
        const { outputs } = await network.run(image, { onProgress: (progress) => fractions.push(progress.fraction) });
        const labels = compiler.labelsToVolume(scan, outputs.labels!).nifti().subarray(352);
        const wanted = readFileSync(shared(`reference/crops/labels_${name}_${crop}.u8`)!);
        let different = 0;
        labels.forEach((label, i) => (different += label === wanted[i] ? 0 : 1));
        const allowed = margins[`${name}/${crop}`]!.margin["0.001"]!;
        assert.ok(different <= allowed, `${different} voxels differ, ${allowed} may`);
        assert.equal(fractions.at(-1), 1);
        assert.ok(fractions.every((fraction, i) => i === 0 || fraction >= fractions[i - 1]!));
        for (const one of [network, scan, model]) one.close();
      });
});

test("an abort, a second run during the first, a run after both", async () => {
  const model = compiler.openModel(folderOf(tinyModel()), "tiny");
  const image = tinyImage([128, 128, 128]);
  const network = model.openCpu({ spatial: spatialOf(image), input: image.dtype, clamp: image.clamp });
  const stop = new AbortController();
  const first = network.run(image, { signal: stop.signal, onProgress: () => stop.abort() });
  await assert.rejects(network.run(image), isError("invalid-input", /under way/));
  await assert.rejects(first, isError("cancelled", /stopped/));
  assert.equal((await network.run(image)).outputs.labels!.data.length, 128 ** 3);
  const short = { ...image, data: image.data.subarray(1) };
  await assert.rejects(network.run(short), isError("invalid-input", /expected 2097152/));
});

test("a network that is no such chain says so", { skip: !shared("models/mindgrab") && "no test data" }, () => {
  const model = compiler.openModel(folderOf(shared("models/mindgrab")!), "mindgrab");
  assert.throws(
    () => model.openCpu({ spatial: [32, 32, 32], input: "u8", clamp: true }),
    isError("unsupported", /^\[mindgrab\] cannot run without a GPU/),
  );
});

function withVoxels(file: Uint8Array<ArrayBuffer>, voxels: Uint8Array): Uint8Array {
  file.set(voxels, 352);
  return file;
}
