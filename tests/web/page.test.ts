// The built page in Chromium, used as a person would.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { gunzipSync } from "node:zlib";
import type { BrowserContext, Page } from "playwright-core";
import { crop64, DATA, drop, missing, openBrowser, openPage, picture, PROGRAM, Site } from "./support/page.js";

const model = join(DATA, "models/model5_gw_ae");
const skip = missing || (existsSync(model) ? false : `${DATA} is not there`);

let site: Site;
let context: BrowserContext;

before(async () => {
  if (skip) return;
  site = await Site.open({ model5_gw_ae: model });
  context = await openBrowser();
});

after(async () => {
  await context?.close();
  await site?.close();
});

async function ready(page: Page): Promise<void> {
  await page.waitForFunction(() => document.querySelector("#model-info")!.textContent!.includes("parameters"));
  if (!(await page.locator("#conform").isVisible())) await page.getByText("Settings").click();
  await page.locator("#conform").setChecked(false); // 256³ would take minutes on a software GPU
}

async function openScan(page: Page, name: string, bytes: Uint8Array): Promise<void> {
  await drop(page, name, bytes);
  await page.waitForFunction((name) => document.querySelector("#scan-info")!.textContent!.startsWith(`${name}:`), name);
}

async function done(page: Page): Promise<void> {
  await page.waitForFunction(() => /^(Done|Failed|Cancelled)/.test(document.querySelector("#status")!.textContent!), null,
    { timeout: 300_000 });
}

async function saved(page: Page, what: string): Promise<{ name: string; bytes: Buffer }> {
  const [download] = await Promise.all([page.waitForEvent("download"), page.locator(`[data-save=${what}]`).click()]);
  return { name: download.suggestedFilename(), bytes: readFileSync(await download.path()) };
}

test("a scan is dropped, segmented, measured and saved as the command line does it", { skip }, async () => {
  const { page, said } = await openPage(context, site.url);
  await ready(page);
  const scan = crop64();
  await openScan(page, "crop.nii", scan);
  await page.locator("#run").click();
  await page.waitForFunction(() => Number(document.querySelector<HTMLProgressElement>("#bar")!.value) > 0);
  await done(page);
  assert.match((await page.locator("#status").textContent()) ?? "", /^Done/, await page.locator("#alerts").textContent() ?? "");
  const rows = await page.locator("#labels tbody tr").allTextContents();
  assert.equal(rows.length, 2);
  assert.match(rows[0]!, /White Matter/);
  await picture(page, "result-desktop-light");

  const { name, bytes } = await saved(page, "native");
  assert.equal(name, "crop_labels.nii.gz");
  if (existsSync(PROGRAM)) {
    const folder = mkdtempSync(join(tmpdir(), "gyrus-page-"));
    writeFileSync(join(folder, "crop.nii"), scan);
    execFileSync(PROGRAM, ["segment", join(folder, "crop.nii"), "-m", model, "--no-conform", "-q", "-o",
      join(folder, "labels.nii.gz")], { stdio: "pipe" });
    const want = gunzipSync(readFileSync(join(folder, "labels.nii.gz")));
    const got = gunzipSync(bytes);
    assert.equal(got.length, want.length);
    let differ = 0;
    for (let i = 0; i < want.length; ++i) differ += Number(got[i] !== want[i]);
    assert.equal(differ, 0, `${differ} bytes differ from the command line's file`);
  }
  assert.deepEqual(said, []);
  await page.close();
});
