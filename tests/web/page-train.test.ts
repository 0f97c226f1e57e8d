// The page that trains: the loss falls, pictures follow, buttons do what they say; also on a phone, dark and light.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { BrowserContext, Page } from "playwright-core";
import { missing, openBrowser, openPage, picture, Site } from "./support/page.js";

let site: Site;
let context: BrowserContext;
before(async () => {
  if (missing) return;
  site = await Site.open({});
  context = await openBrowser();
});
after(async () => {
  await context?.close();
  await site?.close();
});

const number = async (page: Page, id: string) => parseFloat((await page.locator(id).textContent()) ?? "");
const steps = (page: Page, least: number) => page.waitForFunction(
  (count) => Number(document.querySelector("#step")!.textContent) >= count, least, { timeout: 240_000 });
// How many colours a canvas shows.
const coloursOf = (page: Page, id: string) => page.evaluate((id) => {
  const canvas = document.querySelector<HTMLCanvasElement>(id)!;
  const { data } = canvas.getContext("2d")!.getImageData(0, 0, canvas.width, canvas.height);
  return new Set(new Uint32Array(data.buffer)).size;
}, id);

test("a network learns while one watches", { skip: missing }, async () => {
  const { page, said } = await openPage(context, `${site.url}train.html`);
  await page.locator("#start:enabled").waitFor({ timeout: 240_000 });
  assert.match((await page.locator("#about-network").textContent())!, /^\d+ parameters/);
  const untrained = await number(page, "#dice");
  await page.locator("#one").click();
  await steps(page, 1);
  const first = await number(page, "#loss");
  await page.locator("#start").click();
  await steps(page, 20);
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByText("Paused.").waitFor();
  await page.getByRole("button", { name: "Go on" }).waitFor();
  const last = await number(page, "#loss");
  assert.ok(last < 0.7 * first, `the loss goes from ${first} to ${last}`);
  const dice = await number(page, "#dice");
  assert.ok(dice > untrained + 0.1, `Dice goes from ${untrained} to ${dice}`);
  assert.ok((await coloursOf(page, "#prediction")) >= 3);
  assert.ok((await coloursOf(page, "#maps")) > 50);
  await picture(page, "train-light");
  const at = await number(page, "#step");
  await page.waitForTimeout(500);
  assert.equal(await number(page, "#step"), at, "nothing is trained while it is paused");
  await page.emulateMedia({ colorScheme: "dark" });
  await picture(page, "train-dark");
  await page.setViewportSize({ width: 390, height: 844 });
  await page.selectOption("#layer", "layer3");
  await page.locator("#maps-layer", { hasText: "4" }).waitFor();
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 390, `${wide} pixels on a phone of 390`);
  await picture(page, "train-phone");
  await page.locator("#reset").click();
  await page.locator("#step", { hasText: /^0$/ }).waitFor();
  assert.equal(await number(page, "#dice"), untrained);
  await page.locator("#one").click();
  await steps(page, 1);
  assert.equal(await number(page, "#loss"), first, "after a reset training is what it was");
  assert.deepEqual(said, []);
  await page.close();
});

test("without WebGPU the page says so", { skip: missing }, async () => {
  const without = await openBrowser({ webgpu: false });
  const { page } = await openPage(without, `${site.url}train.html`);
  await page.locator("#alerts .alert").waitFor();
  assert.match((await page.locator("#alerts").textContent())!, /WebGPU/);
  assert.equal(await page.locator("#status").textContent(), "Training needs WebGPU.");
  assert.ok(await page.locator("#start").isDisabled());
  await without.close();
});
