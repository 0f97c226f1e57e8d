// The chat page: a file is shown with what it takes, loaded, written with, stopped; without a network; without WebGPU; on a
// phone, dark and light.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { BrowserContext, Page } from "playwright-core";
import { DATA, drop, missing as noPage, openBrowser, openPage, picture, Site } from "./support/page.js";

const folder = join(DATA, "llm/stories260K");
const missing = noPage || (existsSync(folder) ? false : "the public test data is not here; set GYRUS_TEST_DATA");
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

const model = (format: string) => readFileSync(join(folder, `stories260K-${format}.gguf`));
const text = (page: Page, selector: string) => page.locator(selector).textContent();

/** A model with a chat template: ChatML, in the metadata of the stories. */
function talkingModel(): Uint8Array {
  const file = model("f32");
  const template = "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}";
  const key = "tokenizer.chat_template";
  const entry = Buffer.alloc(8 + key.length + 4 + 8 + template.length);
  entry.writeBigUInt64LE(BigInt(key.length), 0);
  entry.write(key, 8);
  entry.writeUInt32LE(8, 8 + key.length); // a text
  entry.writeBigUInt64LE(BigInt(template.length), 12 + key.length);
  entry.write(template, 20 + key.length);
  const count = file.readBigUInt64LE(16);
  const tensors = Number(file.readBigUInt64LE(8));
  // The data begin behind the directory, at a multiple of 32: as many bytes more as keep that.
  const first = file.indexOf(Buffer.concat([Buffer.from([17, 0, 0, 0, 0, 0, 0, 0]), Buffer.from("token_embd.weight")]));
  assert.ok(tensors > 0 && first > 0);
  let end = first;
  for (let i = 0; i < tensors; ++i) {
    end += 8 + Number(file.readBigUInt64LE(end));
    end += 4 + 8 * file.readUInt32LE(end) + 12;
  }
  const align = (at: number) => Math.ceil(at / 32) * 32;
  const head = Buffer.concat([file.subarray(0, 24), entry, file.subarray(24, end)]);
  head.writeBigUInt64LE(count + 1n, 16);
  return Buffer.concat([head, Buffer.alloc(align(head.length) - head.length), file.subarray(align(end))]);
}

async function load(page: Page): Promise<void> {
  await page.locator("#load:visible").click();
  await page.locator("#composer:visible").waitFor({ timeout: 240_000 });
}

test("a text goes on, is stopped, and all of it without a network", { skip: missing }, async () => {
  const { page, said } = await openPage(context, `${site.url}chat/`);
  await page.locator("body[data-ready]").waitFor({ timeout: 60_000 });
  await picture(page, "chat-start");
  await drop(page, "stories.gguf", model("f16"), "#talk");
  await page.locator("#load:visible").waitFor();
  assert.match((await text(page, "#model-about"))!, /^llama, [\d,]+ parameters in .*f16/i);
  assert.match((await text(page, "#memory-total"))!, /MiB$/);
  const halves = await text(page, "#memory-cache");
  await page.selectOption("#cache", "f32");
  await page.waitForFunction((was) => document.querySelector("#memory-cache")!.textContent !== was, halves);
  await page.selectOption("#context", "512");
  await load(page);
  await page.locator("#temperature").fill("0");
  await page.locator("#repetition").fill("1");
  await page.selectOption("#tokens", "64");
  await page.locator("#question").fill("Once upon a time");
  await page.keyboard.press("Enter");
  await page.locator("#send:visible").waitFor({ timeout: 120_000 });
  const answer = (await text(page, "#messages .assistant"))!;
  const expected = readFileSync(join(folder, "expected.txt"), "utf8");
  assert.ok(expected.startsWith(`Once upon a time${answer.slice(0, 60)}`), answer);
  assert.match((await text(page, "#speed"))!, /\d tokens a second/);
  assert.match((await text(page, "#used"))!, /of 512 tokens/);
  // The network goes away; the page that was kept comes again, and works.
  await page.waitForFunction(async () => (await caches.keys()).some((name) => name.startsWith("gyrus-chat-")));
  await page.waitForFunction(async () => (await navigator.serviceWorker.ready).active?.state === "activated");
  await context.setOffline(true);
  await page.reload();
  await page.locator("body[data-ready]").waitFor({ timeout: 60_000 });
  await drop(page, "stories.gguf", talkingModel(), "#talk");
  await page.locator("#load:visible").waitFor();
  await load(page);
  assert.equal(await page.locator("#tokens").inputValue(), "64", "settings are kept");
  await page.selectOption("#tokens", "2048");
  await page.locator("#question").fill("Tell me of a dog.");
  await page.locator("#send").click();
  await page.waitForFunction(() => document.querySelector("#messages .assistant")!.textContent!.length > 20, null, { timeout: 120_000 });
  await picture(page, "chat-light");
  await page.locator("#stop").click();
  await page.locator("#messages .note", { hasText: "Stopped." }).waitFor();
  await page.emulateMedia({ colorScheme: "dark" });
  await picture(page, "chat-dark");
  await page.setViewportSize({ width: 390, height: 844 });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 390, `${wide} pixels on a phone of 390`);
  await picture(page, "chat-phone");
  await page.locator("#new").click();
  await page.locator("#messages .note", { hasText: "Ask something." }).waitFor();
  await page.locator("#other").click();
  await page.locator("#pick:visible").waitFor();
  await context.setOffline(false);
  assert.deepEqual(said, []);
  await page.close();
});

test("what is wrong is said, and the page goes on", { skip: missing }, async () => {
  const { page } = await openPage(context, `${site.url}chat/`);
  await page.locator("body[data-ready]").waitFor({ timeout: 60_000 });
  await drop(page, "broken.gguf", model("f32").subarray(0, 5000), "#talk");
  await page.locator("#alerts .alert").waitFor();
  assert.match((await text(page, "#alerts"))!, /broken\.gguf/);
  await page.locator("#address").fill(`${site.url}none.gguf`);
  await page.locator("#address-form button").click();
  await page.locator("#alerts .alert", { hasText: "404" }).waitFor();
  assert.ok(await page.locator("#pick").isVisible());
  await page.close();
});

test("without WebGPU the page says so", { skip: missing }, async () => {
  const without = await openBrowser({ webgpu: false });
  const { page } = await openPage(without, `${site.url}chat/`);
  await page.locator("#alerts .alert").waitFor();
  assert.match((await text(page, "#alerts"))!, /WebGPU/);
  assert.ok(await page.locator("#pick").isDisabled());
  await without.close();
});
