// What the page opens and what it refuses: files, folders, models, with and without a network.

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { folderOf } from "./support/compiler.js";
import { brokenModel, crop48, DATA, dicomFolder, drop, nifti, openPage, Site, tinyModel } from "./support/page.js";
import { inBrowser, model, openScan, ramp, ready, skip, text } from "./support/steps.js";

const tiny = skip ? "" : tinyModel();
const here = inBrowser(() => ({ model5_gw_ae: model, broken: brokenModel(model), tiny }));

test("files that are no scan are refused in one line, and the page goes on", { skip }, async () => {
  const { page } = await openPage(here.context, here.site.url);
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
  const { page } = await openPage(here.context, here.site.url);
  await ready(page);
  await page.locator("#model").selectOption("site:broken");
  await page.locator("#alerts .alert").waitFor();
  assert.match(await text(page, "#alerts"), /weight|tensor/i);
  assert.match(await text(page, "#model-info"), /parameters/);
  await page.close();
});

test("a model comes from a folder or an address", { skip }, async () => {
  const { page } = await openPage(here.context, here.site.url);
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
  await page.locator("#model-url").fill(`${here.site.url}models/none/`);
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
  await page.waitForFunction(() => document.querySelector("#model-info")!.textContent!.startsWith("modelFinds"));
  await page.close();
});

test("a folder of DICOM files becomes a scan", { skip }, async () => {
  const { page, said } = await openPage(here.context, here.site.url);
  await ready(page);
  const shows = (side: number) => page.waitForFunction((side) => new RegExp(`${side} × ${side} × ${side} voxels`).test(
    document.querySelector("#scan-info")!.textContent!), side, { timeout: 60_000 });
  const folder = dicomFolder(24);
  await page.locator("#dicom-folder").setInputFiles(folder);
  await shows(24);
  assert.match(await text(page, "#scan-info"), /^(?!input)\w+_\d{1,4}\.nii: /, "not named after the series");
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

test("after the first visit the page works without a network", { skip }, async () => {
  const own = await Site.open({ model5_gw_ae: model });
  const { page } = await openPage(here.context, `${own.url}?offline`); // asked for, since this machine serves it
  await ready(page);
  await page.evaluate(() => navigator.serviceWorker.ready.then(() => undefined));
  await own.close();
  await page.reload();
  await ready(page);
  await openScan(page, "crop.nii", nifti([32, 32, 32], ramp(32 ** 3)));
  await page.close();
});
