// How the page shows scan, labels and models.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Niivue } from "@niivue/niivue";
import type { Page } from "playwright-core";
import { crop48, openPage, picture, tinyModel } from "./support/page.js";
import { inBrowser, model, noDemo, openScan, ready, segment, skip, text } from "./support/steps.js";

const tiny = skip ? "" : tinyModel();
const here = inBrowser(() => ({ model5_gw_ae: model, tiny }));

test("the viewer's keys change nothing that no control shows; the crosshair is seen in any window", { skip }, async () => {
  const { page } = await openPage(here.context, here.site.url);
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

interface Look {
  coloured: number; // pixels of the three planes
  light: number; // their sum
  solid: number; // pixels of the 3-D picture that are not its background
}

function lookOf(): Promise<Look> {
  const { app } = (globalThis as unknown as { gyrus: { app: { viewer: { picture(): Promise<Blob> } } } }).gyrus;
  return app.viewer.picture().then(createImageBitmap).then((picture) => {
    const canvas = new OffscreenCanvas(picture.width, picture.height);
    const context = canvas.getContext("2d")!;
    context.drawImage(picture, 0, 0);
    const { data, width, height } = context.getImageData(0, 0, picture.width, picture.height);
    const look = { coloured: 0, light: 0, solid: 0 };
    for (let at = 0; at < data.length; at += 4) {
      const [r, g, b] = [data[at]!, data[at + 1]!, data[at + 2]!];
      const [x, y] = [(at / 4) % width, Math.floor(at / 4 / width)];
      if (x > width / 2 && y > height / 2) look.solid += Number(r + g + b > 60);
      else (look.coloured += Number(Math.max(r, g, b) - Math.min(r, g, b) > 40)), (look.light += r + g + b);
    }
    return look;
  });
}

const look = (page: Page) => page.evaluate(lookOf); // which draws what is set

// A look that lasts: the 3-D view follows the planes.
async function seen(page: Page): Promise<Look> {
  for (let last = await look(page); ;) {
    await page.waitForTimeout(150);
    const next = await look(page);
    if (JSON.stringify(next) === JSON.stringify(last)) return next;
    last = next;
  }
}

const slide = (page: Page, id: string, value: number) =>
  page.locator(id).evaluate((input: HTMLInputElement, value) => {
    input.value = String(value);
    input.dispatchEvent(new Event("input"));
  }, value);

test("labels are filled or outlines; contrast and a cut are set by sliders and keys; times are known", { skip }, async () => {
  const { page, said } = await openPage(here.context, here.site.url);
  await page.setViewportSize({ width: 840, height: 420 }); // a software GPU draws
  await ready(page);
  await page.locator("#model").selectOption("site:tiny");
  await page.waitForFunction(() => document.querySelector("#model-info")!.textContent!.startsWith("tiny"));
  await openScan(page, "crop.nii", crop48());
  const bare = await seen(page);
  const times = async () => [await text(page, "#model-info"), await text(page, "#model-cards button >> nth=0")];
  for (const card of await times()) assert.match(card, /Timeknown after a first run here/);
  await segment(page);
  for (const card of await times()) assert.match(card, /Timeabout .* here/);
  const filled = await seen(page);
  assert.ok(filled.coloured > bare.coloured + 1000, `${filled.coloured} ${bare.coloured}`);
  await page.locator("#outlines").check();
  const outlined = await look(page);
  assert.ok(outlined.coloured > bare.coloured + 200, `${outlined.coloured} ${bare.coloured}`);
  assert.ok(outlined.coloured - bare.coloured < 0.6 * (filled.coloured - bare.coloured), "lines fill the labels");
  await page.locator("#adjust summary").click();
  await picture(page, "outlines");
  await page.locator("#outlines").uncheck();
  assert.deepEqual(await look(page), filled);

  await slide(page, "#level", 90);
  assert.ok((await look(page)).light < 0.9 * filled.light, "a higher level darkens");
  const width = async () => {
    const [, low, high] = /^([\d.-]+) is black, ([\d.-]+) is white$/.exec(await text(page, "#contrast-text"))!;
    return Number(high) - Number(low);
  };
  const narrow = await width();
  await slide(page, "#window", 200);
  assert.ok(Math.abs((await width()) / narrow - 2) < 0.05, `${narrow} ${await width()}`);
  await page.locator("#contrast-reset").click();
  assert.deepEqual(await look(page), filled);
  await page.locator("#adjust summary").press("Escape");
  assert.equal(await page.locator("#level").isVisible(), false);
  await page.locator("#canvas").focus();
  for (const key of ["[", "[", "-"]) await page.keyboard.press(key);
  assert.equal(await page.locator("#level").inputValue(), "40");
  assert.equal(await page.locator("#window").inputValue(), "95");
  assert.ok((await look(page)).light > 1.02 * filled.light, "a lower level brightens");
  await page.keyboard.press("0");
  assert.deepEqual(await look(page), filled);

  await page.locator("#adjust summary").click();
  await page.locator("#cut").selectOption("front");
  await page.locator("#cut-labels").check();
  await slide(page, "#cut-depth", 60);
  assert.ok((await look(page)).solid < 0.9 * filled.solid, "nothing is cut");
  await page.locator("#cut").selectOption("");
  assert.equal((await look(page)).solid, filled.solid);

  const state = () => page.evaluate(async () => {
    const { app } = (globalThis as unknown as { gyrus: { app: { viewer: { open(): Promise<Niivue> } } } }).gyrus;
    const { opts } = await app.viewer.open();
    return [opts.crosshairWidth > 0, opts.isRadiologicalConvention];
  });
  await page.locator("#crosshair").uncheck();
  await page.locator("#radiological").check();
  assert.deepEqual(await state(), [false, true]);
  await page.locator("#crosshair").check();
  await page.locator("#radiological").uncheck();
  assert.deepEqual(await state(), [true, false]);
  assert.deepEqual(said, []);
  await page.close();
});

test("a link opens a model of the site and a scan", { skip: skip || noDemo }, async () => {
  const { page } = await openPage(here.context, `${here.site.url}?model=tiny&scan=demo/head.nii.gz`);
  await page.waitForFunction(() => document.querySelector("#scan-info")!.textContent!.startsWith("head.nii.gz:")
    && document.querySelector("#model-info")!.textContent!.startsWith("tiny"));
  await page.goto(`${here.site.url}?scan=none.nii`);
  await page.locator("#alerts .alert", { hasText: /none\.nii cannot be read \(404\)/ }).waitFor();
  await page.close();
});

test("a model says what it finds, its size, the time, whom to cite; what comes is counted", { skip }, async () => {
  const { page } = await openPage(here.context, here.site.url);
  await ready(page);
  const card = () => text(page, "#model-info");
  assert.match(await card(), /^Grey and white matter.*FindsWhite Matter, Grey MatterTakesone scan/);
  assert.match(await card(), /Size23\.4 KiB, 10 layers, 5,598 parametersTime.* hereLicenceMITCite.*Brainchop/);
  assert.equal(await page.locator("#model-cards button").count(), 2);
  await page.locator("#all-models summary").click();
  await page.locator("#model-cards button").nth(1).click();
  await page.waitForFunction(() => document.querySelector("#model-info")!.textContent!.startsWith("tiny"));
  assert.equal(await page.locator("#model").inputValue(), "site:tiny");
  await page.waitForFunction(() => document.querySelectorAll("#model-cards button")[1]!.ariaPressed === "true");
  // Half of the weights; then another model is chosen, and the first is given up.
  const release = here.site.hold("model.pth");
  await page.locator("#model").selectOption("site:model5_gw_ae");
  await page.waitForFunction(() =>
    document.querySelector("#model-info")!.textContent === "Reading the model… 11.7 KiB of 23.4 KiB");
  assert.equal(await page.locator("#model-bar").evaluate((bar: HTMLProgressElement) => bar.value), 0.5);
  await page.locator("#model").selectOption("site:tiny");
  await page.waitForFunction(() => document.querySelector("#model-info")!.textContent!.startsWith("tiny"));
  release();
  assert.equal(await page.locator("#model").inputValue(), "site:tiny");
  assert.equal(await page.locator("#model-bar").isVisible(), false);
  assert.equal(await text(page, "#alerts"), "");
  await page.close();
});
