// The built page in Chromium, used as a person would. Scans are small: the GPU is a software one.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test, type TestContext } from "node:test";
import { gunzipSync, gzipSync } from "node:zlib";
import type { BrowserContext, Page } from "playwright-core";
import { folderOf, loudLayers, scaled, temporary } from "./support/compiler.js";
import { faultChannel, faultScript, orderFault } from "./support/faults.js";
import { everything } from "./support/native.js";
import {
  brokenModel, crop48, DATA, dicomFolder, drop, missing, nifti, openBrowser, openPage, PROGRAM, SITE, Site, tinyModel,
} from "./support/page.js";
import type { Niivue } from "@niivue/niivue";
import type { Provenance } from "../../web/src/types.js";
import { plainNifti, plainTable } from "./support/provenance.js";

const model = join(DATA, "models/model5_gw_ae");
const skip = missing || (existsSync(model) ? false : `${DATA} is not there`);
const mindgrab = join(DATA, "models/mindgrab");
const noLarge = skip || (existsSync(mindgrab) ? false : `${mindgrab} is not there`);
const noProgram = skip || (existsSync(PROGRAM) ? false : `${PROGRAM} is not built`);

// Of 16.7 million voxels: two drivers may round differently where two classes are as good as equal.
const kRounding = 20;

const tiny = skip ? "" : tinyModel();
let site: Site;
let context: BrowserContext;

before(async () => {
  if (skip) return;
  const loud = temporary();
  const louder = everything ? scaled(folderOf(model), loudLayers, 300) : scaled(folderOf(tiny), ["model.0.weight"], 1e6);
  for (const { name, bytes } of louder) loud.write(name, bytes);
  site = await Site.open({ model5_gw_ae: model, broken: brokenModel(model), loud: loud.path, tiny });
  context = await openBrowser();
});

after(async () => {
  await context?.close();
  await site?.close();
});

const text = async (page: Page, id: string) => (await page.locator(id).textContent()) ?? "";

async function ready(page: Page): Promise<void> {
  await page.waitForFunction(() => document.querySelector("#model-info")!.textContent!.includes("parameters"));
  if (!(await page.locator("#conform").isVisible())) await page.getByText("Settings", { exact: true }).click();
  await page.locator("#conform").setChecked(false); // 256³ would take minutes on a software GPU
}

async function openScan(page: Page, name: string, bytes: Uint8Array): Promise<void> {
  await drop(page, name, bytes);
  await page.waitForFunction((name) => document.querySelector("#scan-info")!.textContent!.startsWith(`${name}:`), name);
}

// Waits for the end of a run, and says how it ended.
async function end(page: Page): Promise<string> {
  const ended = () => /^(Done|Failed|Cancelled)/.test(document.querySelector("#status")!.textContent!);
  await page.waitForFunction(ended, null, { timeout: 3_600_000 });
  return text(page, "#status");
}

async function segment(page: Page): Promise<void> {
  await page.locator("#run").click();
  const ended = await end(page);
  assert.match(ended, /^Done/, await text(page, "#alerts"));
}

async function layersRun(page: Page): Promise<void> {
  await page.waitForFunction(() => document.querySelector("#step")!.textContent!.startsWith("Step"), null,
    { timeout: 120_000 });
}

async function saved(page: Page, what: string): Promise<{ name: string; bytes: Buffer }> {
  const [download] = await Promise.all([page.waitForEvent("download"), page.locator(`[data-save=${what}]`).click()]);
  return { name: download.suggestedFilename(), bytes: readFileSync(await download.path()) };
}

// What the command line writes for the same file.
function commandLine(scan: Uint8Array, folder: string, output: string): Buffer {
  writeFileSync(join(folder, "crop.nii"), scan);
  execFileSync(PROGRAM, ["segment", join(folder, "crop.nii"), "-m", model, "--no-conform", "-q", "-o",
    join(folder, "labels.nii.gz"), "--brain", join(folder, "brain.nii.gz")], { stdio: "pipe" });
  return plainNifti(gunzipSync(readFileSync(join(folder, output))));
}

function differing(a: Uint8Array, b: Uint8Array): number {
  assert.equal(a.length, b.length);
  let count = 0;
  for (let i = 0; i < a.length; ++i) count += Number(a[i] !== b[i]);
  return count;
}

test("a scan is dropped, segmented, measured and saved as the command line does it", { skip: noProgram }, async () => {
  const { page, said } = await openPage(context, site.url);
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
  const { page } = await openPage(context, site.url);
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

test("the viewer's keys change nothing that no control shows; the crosshair is seen in any window", { skip }, async () => {
  const { page } = await openPage(context, site.url);
  await ready(page);
  await openScan(page, "crop.nii", crop48());
  const look = () => page.evaluate(async () => {
    const { app } = (globalThis as unknown as { gyrus: { app: { viewer: { open(): Promise<Niivue> } } } }).gyrus;
    const viewer = await app.viewer.open();
    return { type: viewer.opts.sliceType, clip: [...viewer.scene.clipPlane] };
  });
  const before = await look();
  await page.locator("#canvas").focus();
  for (const key of ["v", "c", "v", "c", "Shift+c", "h", "j"]) await page.keyboard.press(key);
  assert.deepEqual(await look(), before);
  for (const [width, height] of [[900, 500], [1024, 600], [1280, 800]] as const) {
    await page.setViewportSize({ width, height });
    await page.waitForTimeout(500);
    const seen = await page.evaluate(crosshairPixels);
    assert.ok(seen.every((count) => count > 30), `${width}×${height}: ${seen}`);
  }
  await page.close();
});

// Whole heads take minutes on a software GPU with any real model; GYRUS_TEST_FULL=1 takes one all the same.
const heads = everything ? ["tiny", "model5_gw_ae"] : ["tiny"];
for (const name of heads)
  test(`a head through ${name} is conformed and carried back like the program does`, { skip: noProgram }, async (t) => {
    const { page, said } = await openPage(context, site.url);
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

// How many pixels of the crosshair's colour each of the three planes has, in rows and columns alike.
function crosshairPixels(): Promise<number[]> {
  const { app } = (globalThis as unknown as { gyrus: { app: { viewer: { picture(): Promise<Blob> } } } }).gyrus;
  return app.viewer.picture().then(createImageBitmap).then((picture) => {
    const canvas = new OffscreenCanvas(picture.width, picture.height);
    const context = canvas.getContext("2d")!;
    context.drawImage(picture, 0, 0);
    const [w, h] = [Math.floor(picture.width / 2), Math.floor(picture.height / 2)];
    return [[0, 0], [w, 0], [0, h]].map(([x, y]) => {
      const { data } = context.getImageData(x!, y!, w, h);
      let count = 0;
      for (let i = 0; i < data.length; i += 4)
        count += Number(data[i]! - data[i + 2]! > 80); // scans are grey
      return count;
    });
  });
}

test("nothing of the scan is sent", { skip }, () => {
  assert.deepEqual(site.asked.filter((request) => request.method !== "GET" || request.bytes > 0), []);
});

test("files that are no scan are refused in one line, and the page goes on", { skip }, async () => {
  const { page } = await openPage(context, site.url);
  await ready(page);
  const whole = gzipSync(crop48());
  const refused: [string, Uint8Array, RegExp][] = [
    ["picture.png", Buffer.from("\x89PNG\r\n\x1a\n0000"), /picture\.png is no scan/],
    ["cut.nii.gz", whole.subarray(0, whole.length >> 1), /cut\.nii\.gz.*(cut off|damaged)/],
    ["text.nii", Buffer.from("this is no NIfTI file".repeat(40)), /text\.nii/],
    ["empty.nii", new Uint8Array(), /empty\.nii is empty/],
  ];
  for (const [name, bytes, message] of refused) {
    await drop(page, name, bytes);
    await page.locator("#alerts .alert").first().waitFor();
    assert.match(await text(page, "#alerts .alert span"), message);
    assert.equal(await page.locator("#alerts .alert").count(), 1);
    await page.getByRole("button", { name: "Dismiss" }).click();
  }
  await page.evaluate(() => {
    const transfer = new DataTransfer();
    const large = new File([new Uint8Array(8)], "large.nii");
    Object.defineProperty(large, "size", { value: 2 * 2 ** 30 });
    transfer.items.add(new File([], "stand-in"));
    const event = new DragEvent("drop", { bubbles: true });
    Object.defineProperty(event, "dataTransfer", { value: { items: [], files: [large] } });
    document.querySelector("#stage")!.dispatchEvent(event);
  });
  await page.locator("#alerts .alert").first().waitFor();
  assert.match(await text(page, "#alerts"), /large\.nii\] has 2048 MiB, more than the 1024 MiB/);

  await openScan(page, "series.nii", nifti([20, 20, 20], ramp(2 * 8000), 2));
  assert.match(await text(page, "#notices"), /volume/i, "a 4-D file says which volume was taken");
  await page.locator("#volume").fill("2");
  await page.locator("#volume").press("Enter");
  await page.waitForFunction(() => !document.querySelector("#notices")!.textContent!.includes("volume"));
  assert.equal(await page.locator("#volume").inputValue(), "2");
  await openScan(page, "crop.nii", crop48());
  assert.equal(await page.locator("#volume-field").isVisible(), false);
  assert.equal(await text(page, "#alerts"), "");
  await openScan(page, "flat.nii", nifti([20, 20, 8], new Uint8Array(3200)));
  assert.match(await text(page, "#notices"), /All voxels of the scan have the value 0.*only 20 × 20 × 8 voxels/s);
  await page.close();
});

test("a model without one of its tensors is refused, and the model before it stays", { skip }, async () => {
  const { page } = await openPage(context, site.url);
  await ready(page);
  await page.locator("#model").selectOption("site:broken");
  await page.locator("#alerts .alert").waitFor();
  assert.match(await text(page, "#alerts"), /weight|tensor/i);
  assert.match(await text(page, "#model-info"), /parameters/);
  await page.close();
});

test("a cancelled run, a second one, a lost device, memory refused: the page goes on", { skip }, async (t) => {
  await spoilWorker(context, faultScript());
  t.after(() => context.unroute("**/worker.js"));
  const { page } = await openPage(context, site.url);
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
  const { page } = await openPage(context, site.url);
  await ready(page);
  await page.locator("#normalize").selectOption("none");
  await openScan(page, "dark.nii", nifti([32, 32, 32], new Uint8Array(32 ** 3).map((_, i) => Number(i === 9))));
  await page.locator("#run").click();
  assert.match(await end(page), /^Failed/);
  assert.match(await text(page, "#alerts"), /found no label/);
  await page.close();
});

test("what may help is a button: the empty result that another normalisation gives", { skip }, async () => {
  const { page } = await openPage(context, site.url);
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
  const { page } = await openPage(context, site.url);
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

const noDemo = skip || (existsSync(join(SITE, "demo/head.nii.gz")) ? false : "the site has no example");
test("the example runs", { skip: noDemo }, async () => {
  const { page } = await openPage(context, site.url);
  await page.locator("#demo").click();
  assert.match(await end(page), /^Done/, await text(page, "#alerts"));
  assert.equal(await page.locator("#labels tbody tr").count(), 5);
  assert.equal(await text(page, "#notices"), "", "a visitor is greeted with warnings");
  await page.close();
});

test("a model comes from a folder or an address", { skip }, async () => {
  const { page } = await openPage(context, site.url);
  await ready(page);
  await page.locator("#model").selectOption("folder");
  await page.locator("#model-folder").setInputFiles(join(DATA, "models/model18cls"));
  await page.waitForFunction(() => document.querySelector("#model-info")!.textContent!.startsWith("18 regions"));
  const shown = await page.locator("#model").evaluate((select: HTMLSelectElement) => select.selectedOptions[0]!.text);
  assert.equal(shown, "model18cls");
  await page.locator("#model").selectOption("url");
  assert.equal(await page.locator("#model").inputValue(), "opened", "the model that is open is not the one shown");
  await page.locator("#model-url").fill("models/model5_gw_ae/");
  await page.locator("#url-form button").click();
  await page.waitForFunction(() => document.querySelector("#model-info")!.textContent!.startsWith("Grey and white"));
  assert.equal(await page.locator("#url-form").isVisible(), false);
  await page.locator("#model").selectOption("url");
  await page.locator("#model-url").fill(`${site.url}models/none/`);
  await page.locator("#url-form button").click();
  await page.locator("#alerts .alert").waitFor();
  assert.match(await text(page, "#alerts"), /models\/none\/model\.json\] is not there/);
  const files = folderOf(tiny).map(({ name, bytes }) => ({ name, text: Buffer.from(bytes).toString("base64") }));
  await page.evaluate((files) => {
    const transfer = new DataTransfer();
    for (const { name, text } of files)
      transfer.items.add(new File([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], name));
    document.querySelector("#stage")!.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true }));
  }, files);
  await page.waitForFunction(() => document.querySelector("#model-info")!.textContent!.startsWith("model: 2 layers"));
  await page.close();
});

test("a folder of DICOM files becomes a scan", { skip }, async () => {
  const { page, said } = await openPage(context, site.url);
  await ready(page);
  const shows = (side: number) => page.waitForFunction((side) => new RegExp(`${side} × ${side} × ${side} voxels`).test(
    document.querySelector("#scan-info")!.textContent!), side, { timeout: 60_000 });
  const folder = dicomFolder(24);
  await page.locator("#dicom-folder").setInputFiles(folder);
  await shows(24);
  assert.equal(await page.locator("#series-field").isVisible(), false);
  dicomFolder(16, folder, 2);
  await page.locator("#dicom-folder").setInputFiles(folder);
  await page.locator("#series-field").waitFor();
  await shows(24); // the largest, until a person chooses
  await page.locator("#series").selectOption("1");
  await shows(16);
  assert.deepEqual(said, []);
  await page.close();
});

// Puts a script before the worker's.
async function spoilWorker(pages: BrowserContext, script: string): Promise<void> {
  await pages.route("**/worker.js", async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, body: `${script};\n${await answer.text()}` });
  });
}

// The page where no GPU can be had.
async function openWithoutGpu(t: TestContext, spoil: string, url = site.url) {
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

test("models that are not for the CPU name one that is; a run there can be cancelled", { skip: noLarge },
  async (t) => {
    const own = await Site.open({ model11_gw_ae: join(DATA, "models/model11_gw_ae"), mindgrab, model5_gw_ae: model });
    t.after(() => own.close());
    const { page } = await openWithoutGpu(t, "navigator.gpu.requestAdapter = async () => null", own.url);
    await page.waitForFunction(() => document.querySelector("#model-info")!.textContent!.includes("parameters"));
    assert.equal(await page.locator("#model").inputValue(), "site:model5_gw_ae", "the page starts with one that can run");
    await openScan(page, "crop.nii", crop48());
    await page.locator("#model").selectOption("site:model11_gw_ae");
    await page.waitForFunction(() => /needs 778 GFLOP for this scan, which takes the CPU about/.test(
      document.querySelector("#no-gpu")!.textContent!), null, { timeout: 30_000 });
    assert.equal(await page.locator("#run").isDisabled(), true);
    assert.match(await text(page, "#on-cpu"), /^Run on the CPU anyway, about /);
    await page.locator("#on-cpu").click(); // 256 voxels a side: long enough to be cancelled
    await page.waitForFunction(() => /^On the CPU/.test(document.querySelector("#step")!.textContent!), null,
      { timeout: 60_000 });
    await page.locator("#cancel").click();
    assert.match(await end(page), /^Cancelled/);
    await page.locator("#model").selectOption("site:mindgrab");
    await page.waitForFunction(() => /needs a GPU: it has layers/.test(document.querySelector("#no-gpu")!.textContent!));
    assert.equal(await page.locator("#run").isDisabled(), true);
    assert.equal(await text(page, "#status"), "");
    await page.locator("#small-model").click();
    await offered(page);
    assert.equal(await page.locator("#model").inputValue(), "site:model5_gw_ae");
    await page.locator("#run").click();
    await page.waitForFunction(() => /^On the CPU/.test(document.querySelector("#step")!.textContent!), null,
      { timeout: 60_000 });
    await page.locator("#cancel").click();
    assert.match(await end(page), /^Cancelled/);
  });

test("a scan of 256 voxels a side is shown, and computing does not hold up the page", { skip }, async (t) => {
  const { page } = await openPage(context, site.url);
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

test("after the first visit the page works without a network", { skip }, async () => {
  const own = await Site.open({ model5_gw_ae: model });
  const { page } = await openPage(context, `${own.url}?offline`); // asked for, since this machine serves it
  await ready(page);
  await page.evaluate(() => navigator.serviceWorker.ready.then(() => undefined));
  await own.close();
  await page.reload();
  await ready(page);
  await openScan(page, "crop.nii", nifti([32, 32, 32], ramp(32 ** 3)));
  await page.close();
});

function ramp(count: number): Uint8Array {
  return new Uint8Array(count).map((_, i) => (i * 7) % 251);
}

function order(page: Page, fault: { lose?: boolean; refusals?: number }): Promise<void> {
  return page.evaluate(orderFault, { ...fault, channel: faultChannel });
}
