// Brain models on real crops: labels within the margins of float64 references, and the native runtime's labels, voxel
// for voxel, for the same plan on the same driver.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { PlanExecutor } from "../../web/src/executor.js";
import { parsePlan, type Plan } from "../../web/src/plan.js";
import type { TensorValue } from "../../web/src/types.js";
import { countDifferent, readCrop } from "./support/crops.js";
import { openDevice } from "./support/gpu.js";
import { everything, outFolder, program, testData } from "./support/native.js";

const models = ["mindgrab", "model5_gw_ae", "model18cls"];
const crops = everything ? ["crop48", "crop61x53x47", "crop64"] : ["crop48"];

function makePlan(model: string, shape: number[], path: string): Plan {
  const args = ["plan", model, "--size", shape.join("x"), "--input", "u8", "--precision", "f32", "-q", "-o", path];
  execFileSync(program("bin/gyrus"), args, { stdio: ["ignore", "ignore", "inherit"] });
  return parsePlan(readFileSync(path, "utf8"), new Uint8Array(readFileSync(path.replace(/json$/, "bin"))));
}

function runNatively(plan: Plan, path: string, inputs: Record<string, TensorValue>): Uint8Array {
  const [given, made] = [path.replace(/json$/, "in"), path.replace(/json$/, "out")];
  writeFileSync(given, Buffer.concat(plan.inputs.map(({ name }) => inputs[name]!.data)));
  execFileSync(program("tests/run_plan"), [path, given, made], { stdio: ["ignore", "ignore", "inherit"] });
  return new Uint8Array(readFileSync(made));
}

for (const model of models) {
  for (const name of crops) {
    test(`${model} ${name}`, async (t) => {
      const data = testData();
      if (!data) return t.skip("the public test data is not here; set GYRUS_TEST_DATA");
      const crop = readCrop(data, model, name);
      const path = join(outFolder, `${model}_${name}.json`);
      const plan = makePlan(join(data, "models", model), crop.shape, path);
      const { device } = await openDevice();
      const executor = await PlanExecutor.create(device, plan);
      const { outputs, wallMs } = await executor.run(crop.inputs);
      executor.destroy();
      device.destroy();
      const labels = outputs[plan.outputs[0]!.name]!.data;
      const different = countDifferent(labels, crop.labels);
      const fromNative = countDifferent(labels, runNatively(plan, path, crop.inputs));
      t.diagnostic(`${different} of ${crop.margin} differ from the reference, ${fromNative} from native`);
      t.diagnostic(`${Math.round(wallMs)} ms`);
      assert.ok(different <= crop.margin, `${different} voxels differ from the reference, ${crop.margin} may`);
      assert.equal(fromNative, 0, "voxels differ from the native runtime");
    });
  }
}
