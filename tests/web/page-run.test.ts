// The built page in Chromium, used as a person would: from a scan to files, and what can go wrong between. Scans are
// small: the GPU is a software one.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import type { Page } from "playwright-core";
import { folderOf, loudLayers, scaled, temporary } from "./support/compiler.js";
import { faultChannel, faultScript, orderFault } from "./support/faults.js";
import { everything } from "./support/native.js";
import { crop48, DATA, drop, nifti, openPage, PROGRAM, tinyModel } from "./support/page.js";
import { plainNifti, plainTable } from "./support/provenance.js";
import {
  commandLine, differing, end, inBrowser, kRounding, layersRun, model, noDemo, noProgram, openScan, ready, saved, segment, skip,
  spoilWorker, text,
} from "./support/steps.js";
import type { Provenance } from "../../web/src/types.js";

const tiny = skip ? "" : tinyModel();

const here = inBrowser(() => {
  const loud = temporary();
  const louder = everything ? scaled(folderOf(model), loudLayers, 300) : scaled(folderOf(tiny), ["model.0.weight"], 1e6);
  for (const { name, bytes } of louder) loud.write(name, bytes);
  return { model5_gw_ae: model, loud: loud.path, tiny };
});

test("a scan is dropped, segmented, measured and saved as the command line does it", { skip: noProgram }, async () => {
  const { page, said } = await openPage(here.context, here.site.url);
  await ready(page);
  const scan = crop48();
  await openScan(page, "crop.nii", scan);
  await page.locator("#run").click();
  await layersRun(page);
  assert.match(await end(page), /^Done/, await text(page, "#alerts"));
  assert.equal(await text(page, "#alerts"), "");

  const rows = await page.locator("#labels tbody tr").allTextContents();
  assert.equal(rows.length, 2);
  assert.match(rows[0]!, /White Matter/);
  const labels = await saved(page, "native");
  assert.equal(labels.name, "crop_model5_gw_ae_labels.nii.gz");
  const folder = mkdtempSync(join(tmpdir(), "gyrus-page-"));
  assert.equal(differing(plainNifti(gunzipSync(labels.bytes)), commandLine(scan, folder, "labels.nii.gz")), 0);
  const brain = await saved(page, "brain");
  assert.equal(differing(plainNifti(gunzipSync(brain.bytes)),
    plainNifti(gunzipSync(readFileSync(join(folder, "brain.nii.gz"))))), 0);

  const report = JSON.parse((await saved(page, "json")).bytes.toString()) as
    { labels: { voxels: number }[]; provenance: Provenance };
  assert.equal(report.labels.length, 2);
  // The same that the command line says, but for where and when.
  const { date, device, gyrus, precision, scan: name, ...made } = report.provenance;
  const native = JSON.parse(comment(gunzipSync(readFileSync(join(folder, "labels.nii.gz"))))) as Provenance;
  assert.deepEqual(made, { model: native.model, weights_sha256: native.weights_sha256, options: native.options,
    scan_bytes: native.scan_bytes, scan_sha256: native.scan_sha256 });
  assert.equal(gyrus, native.gyrus);
  assert.deepEqual([name, precision, /swiftshader/i.test(device), /^\d{4}-\d\d-\d\dT[\d:]+Z$/.test(date)],
    ["crop.nii", "f32", true, true]);
  for (const bytes of [gunzipSync(labels.bytes), gunzipSync(brain.bytes)]) {
    assert.deepEqual(JSON.parse(comment(bytes)), report.provenance);
    assert.match(bytes.toString("latin1", 148, 228), /^gyrus [\d.]+ model5_gw_ae [0-9a-f]{8} scan [0-9a-f]{8}/);
  }
  assert.match((await saved(page, "csv")).bytes.toString(), /^value,name,voxels/);
  const png = (await saved(page, "picture")).bytes;
  assert.equal(png.subarray(1, 4).toString(), "PNG");
  assert.ok(png.length > 10_000, "the picture is not blank");
  assert.equal((await saved(page, "scene")).name, "crop_model5_gw_ae.nvd");

  // One label alone, by the table and back. The crosshair goes to its middle, and its colour is none of a scan's.
  const place = await text(page, "#place");
  await page.locator("#labels tbody tr button").first().click();
  assert.equal(await page.locator("#alone").inputValue(), "1");
  await page.waitForFunction((before) => document.querySelector("#place")!.textContent !== before, place);
  assert.match(await text(page, "#place"), /^[RL] [\d.]+ {2}[AP] [\d.]+ {2}[SI] [\d.]+ mm · intensity [\d.]+$/);
  const colours = await page.locator("#labels .swatch").evaluateAll((all) =>
    all.map((each) => (each as HTMLElement).style.backgroundColor.match(/\d+/g)!.map(Number)));
  for (const rgb of colours) // the model has White Matter in white
    assert.ok(Math.max(...rgb) - Math.min(...rgb) >= 24 || Math.min(...rgb) <= 150, `rgb(${rgb})`);
  assert.equal(new Set(colours.map(String)).size, colours.length);
  await page.locator("#labels tbody tr button").first().click();
  assert.equal(await page.locator("#alone").inputValue(), "");

  // What was made stays what it is, whatever is chosen next.
  const facts = async () => ((await page.locator("#facts").textContent()) ?? "").replace(/Chosen.*?parameters/, "");
  const before = await facts();
  assert.match(before, /Modelmodel5_gw_ae, 3 classes/);
  await page.locator("#model").selectOption("site:tiny");
  await page.waitForFunction(() => document.querySelector("#model-info")!.textContent!.startsWith("tiny"));
  assert.equal(await facts(), before);
  assert.match(await text(page, "#facts"), /Chosentiny, /);
  assert.match(await text(page, "#made-by"), /^Grey and white matter.*, crop\.nii$/);
  assert.equal((await saved(page, "csv")).name, "crop_model5_gw_ae_report.csv");
  assert.deepEqual(said, []);
  await page.close();
});

test("the panel says which settings ran", { skip }, async () => {
  const { page } = await openPage(here.context, here.site.url);
  await ready(page);
  await page.locator("#model").selectOption("site:tiny");
  await page.waitForFunction(() => document.querySelector("#model-info")!.textContent!.startsWith("tiny"));
  await page.locator("#normalize").selectOption("quantile:0.02,0.98");
  await page.locator("#fill").check();
  await openScan(page, "crop.nii", crop48());
  await segment(page);
  await page.locator("#normalize").selectOption("none");
  assert.match(await text(page, "#facts"), /Intensitiesquantile:0\.02,0\.98/);
  assert.match(await text(page, "#facts"), /conform no, parts keep, fill holes yes/);
  assert.match(await text(page, "#facts"), /Made\d{4}-.*gyrus \d+\.\d+/);
  await page.close();
});

// Whole heads take minutes on a software GPU with any real model; GYRUS_TEST_FULL=1 takes one all the same.
const heads = everything ? ["tiny", "model5_gw_ae"] : ["tiny"];
for (const name of heads)
  test(`a head through ${name} is conformed and carried back like the program does`, { skip: noProgram }, async (t) => {
    const { page, said } = await openPage(here.context, here.site.url);
    await ready(page);
    await page.locator("#conform").setChecked(true);
    if (name === "tiny") await page.locator("#model").selectOption("site:tiny");
    await page.waitForFunction((start) => document.querySelector("#model-info")!.textContent!.startsWith(start),
      name === "tiny" ? "tiny" : "Grey and white");
    const scan = join(DATA, "volumes/chris_t1.nii.gz");
    await page.locator("#scan-file").setInputFiles(scan);
    await page.waitForFunction(() => /^chris_t1.nii.gz: 188/.test(document.querySelector("#scan-info")!.textContent!));
    await segment(page);
    const folder = mkdtempSync(join(tmpdir(), "gyrus-page-"));
    for (const space of ["native", "conformed"]) {
      const outputs = ["-o", join(folder, "labels.nii.gz"), "--report", join(folder, "report.csv")];
      execFileSync(PROGRAM, ["segment", scan, "-m", name === "tiny" ? tiny : model, "-q", "--space", space, ...outputs],
        { stdio: "pipe" });
      const { bytes } = await saved(page, space);
      const count = differing(plainNifti(gunzipSync(bytes)),
        plainNifti(gunzipSync(readFileSync(join(folder, "labels.nii.gz")))));
      t.diagnostic(`${space}: ${count} bytes differ from the command line's file`);
      assert.ok(count <= kRounding, `${count} voxels differ`);
      if (space === "native" && count === 0)
        assert.deepEqual(plainTable((await saved(page, "csv")).bytes.toString()),
          plainTable(readFileSync(join(folder, "report.csv"), "utf8")));
    }
    assert.deepEqual(said, []);
    await page.close();
  });

// The plain text in the header of a NIfTI file.
function comment(file: Buffer): string {
  assert.equal(file.readInt32LE(356), 6);
  return file.toString("utf8", 360, 352 + file.readInt32LE(352)).replace(/\0+$/, "");
}

test("nothing of the scan is sent", { skip }, () => {
  assert.deepEqual(here.site.asked.filter((request) => request.method !== "GET" || request.bytes > 0), []);
});

test("a cancelled run, a second one, a lost device, memory refused: the page goes on", { skip }, async (t) => {
  await spoilWorker(here.context, faultScript());
  t.after(() => here.context.unroute("**/worker.js"));
  const { page } = await openPage(here.context, here.site.url);
  await ready(page);
  await openScan(page, "crop.nii", crop48());
  await page.locator("#run").click();
  await layersRun(page);
  const size = () => page.locator("#canvas").evaluate((canvas) => [canvas.clientWidth, canvas.clientHeight]);
  const before = await size();
  await drop(page, "other.nii", crop48());
  await page.locator("#alerts .alert").waitFor();
  assert.match(await text(page, "#alerts"), /segmentation is running/);
  assert.deepEqual(await size(), before, "the message moved the picture");
  for (const id of ["#pick-scan", "#model"]) assert.equal(await page.locator(id).isDisabled(), true, id);
  await page.evaluate(() => (globalThis as unknown as { gyrus: { app: { run(): void } } }).gyrus.app.run());
  await page.waitForFunction(() => document.querySelector("#alerts")!.textContent!.includes("before starting another"));
  await page.locator("#cancel").click();
  assert.match(await end(page), /^Cancelled/);
  assert.equal(await text(page, "#alerts"), "", "a run that ended is said to be running");
  assert.equal(await page.evaluate(() => document.activeElement!.id), "run");
  assert.equal(await page.locator("#results").isVisible(), false);

  await page.locator("#run").click();
  await layersRun(page);
  await order(page, { lose: true });
  assert.match(await end(page), /^Done/, await text(page, "#alerts"));
  assert.match(await text(page, "#notices"), /device was lost/);

  await page.locator("#precision").selectOption("f32");
  await page.locator("#precision").selectOption("auto");
  await page.locator("#model").selectOption("site:model5_gw_ae");
  await page.locator("#model").evaluate((select) => select.dispatchEvent(new Event("change")));
  await ready(page);
  await order(page, { refusals: 1 });
  await segment(page);
  assert.match(await text(page, "#notices"), /did not give the memory for the plan in f32; trying the plan in f16/);
  assert.match(await text(page, "#facts"), /f16/);

  await page.locator("#model").evaluate((select) => select.dispatchEvent(new Event("change")));
  await ready(page);
  await order(page, { refusals: 2 });
  await segment(page);
  assert.match(await text(page, "#notices"), /trying the plan in f16 with WebGPU's default limits/);
  await page.close();
});

test("an empty result is no success", { skip }, async () => {
  const { page } = await openPage(here.context, here.site.url);
  await ready(page);
  await page.locator("#normalize").selectOption("none");
  await openScan(page, "dark.nii", nifti([32, 32, 32], new Uint8Array(32 ** 3).map((_, i) => Number(i === 9))));
  await page.locator("#run").click();
  assert.match(await end(page), /^Failed/);
  assert.match(await text(page, "#alerts"), /found no label/);
  await page.close();
});

test("what may help is a button: the empty result that another normalisation gives", { skip }, async () => {
  const { page } = await openPage(here.context, here.site.url);
  await ready(page);
  await page.locator("#normalize").selectOption("quantile:0.02,0.98");
  await openScan(page, "dark.nii", nifti([32, 32, 32], new Uint8Array(32 ** 3).map((_, i) => Number(i === 9))));
  await page.locator("#run").click();
  assert.match(await end(page), /^Failed/);
  assert.match(await text(page, "#alerts"), /too little to normalise/);
  await page.locator("#normalize").selectOption("minmax");
  await page.locator("#run").click();
  await page.getByRole("button", { name: "Accept it" }).click();
  await page.waitForFunction(() => document.querySelector("#status")!.textContent!.startsWith("Done"));
  assert.equal(await page.locator("#labels tbody tr:not(.absent)").count(), 0);
  assert.equal(await text(page, "#alerts"), "");
  await page.close();
});

test("a network that overflows halves is an error that names the layer, and runs in f32", { skip }, async () => {
  const { page } = await openPage(here.context, here.site.url);
  await ready(page);
  await page.locator("#model").selectOption("site:loud");
  await page.waitForFunction(() => document.querySelector("#model-info")!.textContent!.startsWith("loud"));
  await page.locator("#precision").selectOption("f16");
  await openScan(page, "crop.nii", crop48());
  await page.locator("#run").click();
  assert.match(await end(page), /^Failed/);
  assert.match(await text(page, "#alerts .alert span"), /model\.[024].*not finite/);
  await page.getByRole("button", { name: "Run in f32" }).click();
  await page.waitForFunction(() => document.querySelector("#status")!.textContent!.startsWith("Done"));
  await page.close();
});

test("the example runs", { skip: noDemo }, async () => {
  const { page } = await openPage(here.context, here.site.url);
  await page.locator("#demo").click();
  assert.match(await end(page), /^Done/, await text(page, "#alerts"));
  assert.equal(await page.locator("#labels tbody tr").count(), 5);
  assert.equal(await text(page, "#notices"), "", "a visitor is greeted with warnings");
  await page.close();
});

test("a scan of 256 voxels a side is shown, and computing does not hold up the page", { skip }, async (t) => {
  const { page } = await openPage(here.context, here.site.url);
  await ready(page);
  await page.waitForTimeout(2000); // the viewer's library is there, as for anyone who looked for a file
  await page.evaluate(() => {
    const times: number[] = [];
    new PerformanceObserver((list) => list.getEntries().forEach((entry) => times.push(entry.duration)))
      .observe({ type: "longtask" });
    Object.assign(globalThis, { times });
  });
  const begin = performance.now();
  await page.locator("#scan-file").setInputFiles(join(DATA, "volumes/t1_crop.nii.gz"));
  await page.waitForFunction(() => document.querySelector("#scan-info")!.textContent!.startsWith("t1_crop.nii.gz:"));
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  const seen = performance.now() - begin;
  t.diagnostic(`from the file to the first picture: ${Math.round(seen)} ms`);
  await openScan(page, "crop.nii", crop48());
  await page.waitForTimeout(1500); // the 3-D view follows the planes
  await page.evaluate(() => ((globalThis as unknown as { times: number[] }).times.length = 0));
  await page.locator("#run").click();
  await page.waitForFunction(() => /^(Cleaning|Measuring)/.test(document.querySelector("#step")!.textContent!), null,
    { timeout: 120_000, polling: 20 });
  const longest = await page.evaluate(() => Math.max(0, ...(globalThis as unknown as { times: number[] }).times));
  t.diagnostic(`longest task while computing: ${longest} ms`);
  assert.ok(longest <= 100, `the page was held up for ${longest} ms`);
  await page.close();
});

function order(page: Page, fault: { lose?: boolean; refusals?: number }): Promise<void> {
  return page.evaluate(orderFault, { ...fault, channel: faultChannel });
}
