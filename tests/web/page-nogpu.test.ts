// The page where no GPU can be had, or none but in name: what it says, and models on the CPU.

import assert from "node:assert/strict";
import { existsSync, mkdtempSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { gunzipSync } from "node:zlib";
import type { Page } from "playwright-core";
import { crop48, DATA, openBrowser, openPage, Site } from "./support/page.js";
import { plainNifti } from "./support/provenance.js";
import {
  commandLine, differing, end, inBrowser, kRounding, model, noDemo, noProgram, openScan, ready, saved, segment, skip, spoilWorker,
  text,
} from "./support/steps.js";

const larger = join(DATA, "models/model11_gw_ae");
const noLarge = skip || (existsSync(larger) ? false : `${larger} is not there`);
const here = inBrowser(() => ({ model5_gw_ae: model }));

// The page where no GPU can be had.
async function openWithoutGpu(t: TestContext, spoil: string, url = here.site.url) {
  const other = await openBrowser({ webgpu: spoil !== "" });
  t.after(() => other.close());
  if (spoil) await spoilWorker(other, spoil);
  return openPage(other, url);
}

const offered = (page: Page) =>
  page.waitForFunction(() => document.querySelector("#run")!.textContent === "Segment on the CPU", null,
    { timeout: 30_000 });

const noGpu: [string, string, RegExp][] = [
  ["an adapter", "", /WebGPU found no GPU: update the graphics driver/], // Chromium as it comes, on a machine like this
  ["WebGPU", "Object.defineProperty(navigator, 'gpu', { value: undefined })", /^This browser has no WebGPU/],
  ["a device", "GPUAdapter.prototype.requestDevice = async () => { throw new Error('busy') }", /refused to open: busy/],
];
for (const [what, spoil, message] of noGpu)
  test(`without ${what} a small model runs on the CPU, as the command line does it`, { skip: noProgram }, async (t) => {
    const { page, said } = await openWithoutGpu(t, spoil);
    await page.waitForFunction(() => document.querySelector("#no-gpu")!.textContent!.includes("Chrome"));
    assert.match(await text(page, "#no-gpu"), message);
    assert.equal(await page.locator("#run").isDisabled(), true);
    await ready(page);
    await page.locator("#model").selectOption("site:model5_gw_ae"); // it starts with the smallest
    await page.waitForFunction(() => document.querySelector("#model-info")!.textContent!.startsWith("Grey and white"));
    await openScan(page, "crop.nii", crop48());
    await offered(page);
    assert.match(await text(page, "#no-gpu"), /CPU can run this model: 1\.2 GFLOP, about (a second|\d+ s) on this/);
    await segment(page);
    assert.match(await text(page, "#status"), /^Done on the CPU in/);
    assert.match(await text(page, "#facts"), /Runs onthe CPU/);
    assert.equal(await page.evaluate(() =>
      (globalThis as unknown as { gyrus: { app: { result: { onCpu: boolean } } } }).gyrus.app.result.onCpu), true);
    const folder = mkdtempSync(join(tmpdir(), "gyrus-page-"));
    const count = differing(plainNifti(gunzipSync((await saved(page, "native")).bytes)),
      commandLine(crop48(), folder, "labels.nii.gz"));
    t.diagnostic(`${count} voxels differ from the command line's`);
    assert.ok(count <= kRounding, `${count} voxels differ`);
    assert.deepEqual(said.filter((line) => !/adapter|WebGPU/i.test(line)), []);
  });

test("the example runs without a GPU", { skip: noDemo }, async (t) => {
  const { page } = await openWithoutGpu(t, "");
  await page.locator("#demo").click();
  assert.match(await end(page), /^Done on the CPU/, await text(page, "#alerts"));
  assert.equal(await page.locator("#labels tbody tr").count(), 5);
});

test("a long run on the CPU is asked about, a shorter one offered; both can be cancelled", { skip: noLarge }, async (t) => {
  const own = await Site.open({ model11_gw_ae: larger, model5_gw_ae: model });
  t.after(() => own.close());
  // A machine some thirty times as slow as this one.
  const slow = "const own = performance.now.bind(performance); performance.now = () => 30 * own();";
  const { page } = await openWithoutGpu(t, `navigator.gpu.requestAdapter = async () => null; ${slow}`, own.url);
  await page.waitForFunction(() => document.querySelector("#model-info")!.textContent!.includes("parameters"));
  assert.equal(await page.locator("#model").inputValue(), "site:model5_gw_ae", "the page starts with one that is quick");
  await openScan(page, "crop.nii", crop48());
  await page.locator("#model").selectOption("site:model11_gw_ae");
  await page.waitForFunction(() => /needs 7[78]\d GFLOP for this scan, which takes the CPU about/.test(
    document.querySelector("#no-gpu")!.textContent!), null, { timeout: 60_000 });
  assert.equal(await page.locator("#run").isDisabled(), true);
  assert.match(await text(page, "#on-cpu"), /^Run on the CPU anyway, about /);
  await page.locator("#on-cpu").click(); // 256 voxels a side: long enough to be cancelled
  const running = () => page.waitForFunction(() => /^On the CPU/.test(document.querySelector("#step")!.textContent!), null,
    { timeout: 60_000 });
  await running();
  await page.locator("#cancel").click();
  assert.match(await end(page), /^Cancelled/);
  await page.locator("#small-model").click();
  await page.waitForFunction(() => /needs 18\d GFLOP for this scan/.test(document.querySelector("#no-gpu")!.textContent!), null,
    { timeout: 60_000 });
  await ready(page); // not conformed: 48 voxels a side
  await offered(page);
  await segment(page);
  assert.match(await text(page, "#status"), /^Done on the CPU/);
});

// Of isolated pages and others: how many threads they have.
for (const [what, isolated] of [["with threads where it is isolated", true], ["with one thread where it is not", false]] as const)
  test(`where a CPU stands in for the GPU the page uses the CPU itself, ${what}`, { skip: noProgram }, async (t) => {
    const own = await Site.open({ model5_gw_ae: model }, isolated);
    t.after(() => own.close());
    const { page, said } = await openPage(here.context, own.url, true);
    t.after(() => page.close());
    await ready(page);
    await openScan(page, "crop.nii", crop48());
    await offered(page);
    await segment(page);
    const threads = isolated ? availableParallelism() : 1;
    const told = await text(page, "#facts");
    assert.match(told, new RegExp(`as always on the CPU; ${threads === 1 ? "one thread" : `${threads} threads`}`), told);
    const folder = mkdtempSync(join(tmpdir(), "gyrus-page-"));
    const count = differing(plainNifti(gunzipSync((await saved(page, "native")).bytes)),
      commandLine(crop48(), folder, "labels.nii.gz"));
    assert.ok(count <= kRounding, `${count} voxels differ`);
    assert.deepEqual(said, []);
  });
