// Networks that overflow halves: an error that names the layer, not a volume of background.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { before, test } from "node:test";
import type { Compiler, ImageTensor, Model } from "../../web/src/compiler.js";
import { GyrusError } from "../../web/src/errors.js";
import { Session } from "../../web/src/session.js";
import type { NamedBytes, Precision } from "../../web/src/types.js";
import { folderOf, loadCompiler, loudLayers, scaled, shared, tinyModel, tinyScan } from "./support/compiler.js";
import { openDevice } from "./support/gpu.js";
import { nifti } from "./support/page.js";

let compiler: Compiler;
before(async () => {
  compiler = await loadCompiler();
});

async function run(session: Session, model: Model, image: ImageTensor, precision: Precision): Promise<Uint8Array> {
  const hooks = { signal: new AbortController().signal, progress: () => {}, notice: () => {} };
  return (await session.run(model, model.info.name, image, precision, hooks)).result.outputs.labels!.data;
}

function imageOf(file: Uint8Array, model: Model): ImageTensor {
  const scan = compiler.openVolume("scan.nii", file);
  const image = scan.tensor(model.info.normalize);
  scan.close();
  return image;
}

// In f32 the network is one; in f16 it is an error with the name of the layer, and the session goes on.
async function check(files: NamedBytes[], name: string, file: Uint8Array, layer: RegExp): Promise<void> {
  const model = compiler.openModel(files, name);
  const image = imageOf(file, model);
  const session = new Session(() => openDevice(), { mobile: false, memoryGiB: 8 });
  const error = await run(session, model, image, "f16").then(() => assert.fail("no error"), (e: unknown) => e);
  assert.ok(error instanceof GyrusError, String(error));
  assert.deepEqual([error.code, error.hints], ["non-finite", ["single-precision", "other-device"]], error.message);
  assert.match(error.message, layer);
  assert.ok((await run(session, model, image, "f32")).some((label) => label !== 0));
  session.drop();
  model.close();
}

test("a small network that overflows", async () => {
  const files = scaled(folderOf(tinyModel()), ["model.0.weight"], 1e6);
  await check(files, "loud", tinyScan({ dims: [12, 10, 8], spacing: [1, 1, 1] }), /^\[.*model\.0/);
});

const model5 = shared("models/model5_gw_ae");
const crop = shared("reference/crops/crop48.u8");
test("model5, its first three convolutions × 300", { skip: model5 && crop ? false : "no test data" }, async () => {
  await check(scaled(folderOf(model5!), loudLayers, 300), "model5", nifti([48, 48, 48], readFileSync(crop!)), /^\[.*model\.[24]/);
});
