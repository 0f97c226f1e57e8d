// PlanExecutor in Chromium on SwiftShader: labels of brain models within the margins, the native runtime's labels for
// the same plan on the same driver, and the same again when the device is lost on the way.

import assert from "node:assert/strict";
import { execFileSync, type StdioOptions } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type * as Gyrus from "../../web/src/executor-entry.js";
import { parsePlan } from "../../web/src/plan.js";
import { countDifferent, readCrop, type Crop } from "./support/crops.js";
import { openExecutorPage, type ExecutorPage } from "./support/executor_page.js";
import { everything, program, testData } from "./support/native.js";

const models = everything ? ["mindgrab", "model5_gw_ae", "model18cls"] : ["model5_gw_ae"]; // the others take minutes
const crops = everything ? ["crop48", "crop61x53x47", "crop64"] : ["crop48"];
const driver = process.env.GYRUS_SWIFTSHADER ?? "/usr/lib/chromium/vk_swiftshader_icd.json";
const data = testData();
const missing = !data ? "the public test data is not here; set GYRUS_TEST_DATA"
  : !existsSync(driver) ? `there is no ${driver}; set GYRUS_SWIFTSHADER` : false;

let site: ExecutorPage;

before(async () => {
  if (!missing) site = await openExecutorPage();
});

after(() => site?.close());

// The labels of a native run of the plan that is left beside them, which the browser will fetch.
function prepare(model: string, crop: Crop): Uint8Array {
  const env = { ...process.env, VK_ICD_FILENAMES: driver };
  const at = (suffix: string) => join(site.files, `${model}.${suffix}`);
  const options = { env, stdio: ["ignore", "ignore", "inherit"] as StdioOptions };
  const args = ["plan", join(data!, "models", model), "--size", crop.shape.join("x"), "--precision", "f32"];
  execFileSync(program("bin/gyrus"), [...args, "-q", "-o", at("json")], options);
  const plan = parsePlan(readFileSync(at("json"), "utf8"), new Uint8Array(readFileSync(at("bin"))));
  writeFileSync(at("in"), Buffer.concat(plan.inputs.map(({ name }) => crop.inputs[name]!.data)));
  execFileSync(program("tests/run_plan"), [at("json"), at("in"), at("out")], options);
  return new Uint8Array(readFileSync(at("out")));
}

interface Ran {
  labels: string; // base64
  adapter: string;
  software: boolean;
  notices: string[];
  lastFraction: number;
  ms: number;
}

// Runs the plan in the page; with `lose`, the first device is destroyed after the first submission.
function runInPage(model: string, lose: boolean): Promise<Ran> {
  return site.page.evaluate(async ({ model, lose }): Promise<Ran> => {
    const gyrus = (await import(`${location.origin}/gyrus.js`)) as typeof Gyrus;
    const { loadPlan, requestDevice, RecoveringExecutor } = gyrus;
    const plan = await loadPlan("/", model);
    const given = new Uint8Array(await (await fetch(`/${model}.in`)).arrayBuffer());
    const inputs: Record<string, Gyrus.TensorValue> = {};
    let at = 0;
    for (const { name, dtype, shape } of plan.inputs) {
      const size = shape.reduce((product, extent) => product * extent, dtype === "u8" ? 1 : 4);
      inputs[name] = { dtype, shape, data: given.subarray(at, (at += size)) };
    }
    const notices: string[] = [];
    let open: Gyrus.OpenDevice | null = null;
    const executor = await RecoveringExecutor.create(plan, {
      requestDevice: async () => (open = await requestDevice()).device,
      onNotice: (line) => notices.push(line),
    });
    let lastFraction = 0;
    const { outputs, wallMs } = await executor.run(inputs, {
      onProgress: ({ fraction }) => {
        if (fraction < lastFraction) throw new Error(`progress went back to ${fraction}`);
        lastFraction = fraction;
        if (lose && notices.length === 0) open!.device.destroy();
      },
    });
    executor.destroy();
    const { adapter, software } = open!.report;
    open!.device.destroy();
    const bytes = outputs[plan.outputs[0]!.name]!.data;
    const labels = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
    return { labels, adapter, software, notices, lastFraction, ms: wallMs };
  }, { model, lose });
}

for (const [model, name] of models.flatMap((model) => crops.map((name) => [model, name] as const))) {
  test(`${model} ${name} in Chromium`, { skip: missing }, async (t) => {
    const crop = readCrop(data!, model, name);
    const native = prepare(model, crop);
    const ran = await runInPage(model, false);
    const labels = new Uint8Array(Buffer.from(ran.labels, "base64"));
    const different = countDifferent(labels, crop.labels);
    const fromNative = countDifferent(labels, native);
    t.diagnostic(`${ran.adapter}: ${different} of ${crop.margin} differ from the reference, ${fromNative} from native`);
    t.diagnostic(`${Math.round(ran.ms)} ms`);
    assert.ok(ran.software);
    assert.equal(ran.lastFraction, 1);
    assert.ok(different <= crop.margin, `${different} voxels differ from the reference, ${crop.margin} may`);
    assert.equal(fromNative, 0, "voxels differ from the native runtime");
    assert.deepEqual(ran.notices, []);
    if (model !== "model5_gw_ae" || name !== "crop48") return;
    const again = await runInPage(model, true);
    assert.equal(again.labels, ran.labels, "the replay on a new device gives other labels");
    assert.equal(again.notices.length, 1);
    assert.match(again.notices[0]!, /the device was lost/);
    assert.deepEqual(site.said, [], "the console is quiet");
  });
}
