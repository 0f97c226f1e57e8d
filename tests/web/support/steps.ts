// What a person does on the page, for its tests: the site in a browser, opening, running, saving.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before } from "node:test";
import { gunzipSync } from "node:zlib";
import type { BrowserContext, Page } from "playwright-core";
import { DATA, drop, missing, openBrowser, PROGRAM, SITE, Site } from "./page.js";
import { plainNifti } from "./provenance.js";

export const model = join(DATA, "models/model5_gw_ae");
export const skip = missing || (existsSync(model) ? false : `${DATA} is not there`);
export const noProgram = skip || (existsSync(PROGRAM) ? false : `${PROGRAM} is not built`);
export const noDemo = skip || (existsSync(join(SITE, "demo/head.nii.gz")) ? false : "the site has no example");

// Of 16.7 million voxels: two drivers may round differently where two classes are as good as equal.
export const kRounding = 20;

/** A site with these models and a browser, for the tests of a file. */
export function inBrowser(models: () => Record<string, string>): { site: Site; context: BrowserContext } {
  const here = {} as { site: Site; context: BrowserContext };
  before(async () => {
    if (skip) return;
    here.site = await Site.open(models());
    here.context = await openBrowser();
  });
  after(async () => {
    await here.context?.close();
    await here.site?.close();
  });
  return here;
}

export const text = async (page: Page, id: string) => (await page.locator(id).textContent()) ?? "";

export async function ready(page: Page): Promise<void> {
  await page.waitForFunction(() => document.querySelector("#model-info")!.textContent!.includes("parameters"));
  if (!(await page.locator("#conform").isVisible())) await page.getByText("Settings", { exact: true }).click();
  await page.locator("#conform").setChecked(false); // 256³ would take minutes on a software GPU
}

export async function openScan(page: Page, name: string, bytes: Uint8Array): Promise<void> {
  await drop(page, name, bytes);
  await page.waitForFunction((name) => document.querySelector("#scan-info")!.textContent!.startsWith(`${name}:`), name);
}

// Waits for the end of a run, and says how it ended.
export async function end(page: Page): Promise<string> {
  const ended = () => /^(Done|Failed|Cancelled)/.test(document.querySelector("#status")!.textContent!);
  await page.waitForFunction(ended, null, { timeout: 3_600_000 });
  return text(page, "#status");
}

export async function segment(page: Page): Promise<void> {
  await page.locator("#run").click();
  const ended = await end(page);
  assert.match(ended, /^Done/, await text(page, "#alerts"));
}

export async function layersRun(page: Page): Promise<void> {
  await page.waitForFunction(() => document.querySelector("#step")!.textContent!.startsWith("Step"), null,
    { timeout: 120_000 });
}

export async function saved(page: Page, what: string): Promise<{ name: string; bytes: Buffer }> {
  const [download] = await Promise.all([page.waitForEvent("download"), page.locator(`[data-save=${what}]`).click()]);
  return { name: download.suggestedFilename(), bytes: readFileSync(await download.path()) };
}

// What the command line writes for the same file.
export function commandLine(scan: Uint8Array, folder: string, output: string): Buffer {
  writeFileSync(join(folder, "crop.nii"), scan);
  execFileSync(PROGRAM, ["segment", join(folder, "crop.nii"), "-m", model, "--no-conform", "-q", "-o",
    join(folder, "labels.nii.gz"), "--brain", join(folder, "brain.nii.gz")], { stdio: "pipe" });
  return plainNifti(gunzipSync(readFileSync(join(folder, output))));
}

export function differing(a: Uint8Array, b: Uint8Array): number {
  assert.equal(a.length, b.length);
  let count = 0;
  for (let i = 0; i < a.length; ++i) count += Number(a[i] !== b[i]);
  return count;
}

// Puts a script before the worker's.
export async function spoilWorker(pages: BrowserContext, script: string): Promise<void> {
  await pages.route("**/worker.js", async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, body: `${script};\n${await answer.text()}` });
  });
}

export function ramp(count: number): Uint8Array {
  return new Uint8Array(count).map((_, i) => (i * 7) % 251);
}
