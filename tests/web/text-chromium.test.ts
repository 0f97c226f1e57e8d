// Language models in Chromium on SwiftShader: stories byte for byte under default limits, and models that the browser keeps.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join, normalize } from "node:path";
import { after, before, test } from "node:test";
import { buildSync } from "esbuild";
import type { BrowserContext, Page } from "playwright-core";
import type * as Inside from "./support/chromium-text.js";
import { DEFAULT_LIMITS } from "./support/compiler.js";
import { everything, outFolder, sourceFolder, testData } from "./support/native.js";
import { missing as noBrowser, openBrowser, openPage } from "./support/page.js";

const data = testData();
const skip = noBrowser || (data ? false : "the public test data is not here; set GYRUS_TEST_DATA");
const script = join(outFolder, "chromium-text.js");
let bytesSent = 0; // of models
let gone = false; // the host is
const server = createServer((request, response) => {
  const path = normalize(new URL(request.url ?? "/", "http://x").pathname);
  if (path === "/") return response.writeHead(200, { "Content-Type": "text/html" }).end("<!doctype html><link rel=icon href=data:,>");
  const at = path.startsWith("/data/") ? join(data!, path.slice(6)) : path === "/inside.js" ? script
    : join(sourceFolder, "web/dist/wasm", path);
  if (!existsSync(at)) return response.writeHead(404).end();
  const bytes = readFileSync(at);
  const [, from, to] = /bytes=(\d+)-(\d+)/.exec(request.headers.range ?? "") ?? [];
  response.setHeader("Content-Type", path.endsWith(".js") ? "text/javascript" : "application/wasm");
  if (from === undefined) return response.end(bytes);
  if (gone) return response.destroy();
  const part = bytes.subarray(Number(from), Number(to) + 1);
  bytesSent += part.length;
  response.writeHead(206, { "Content-Range": `bytes ${from}-${Number(from) + part.length - 1}/${bytes.length}` }).end(part);
});
let context: BrowserContext;
let page: Page;

before(async () => {
  if (skip) return;
  const entry = join(sourceFolder, "tests/web/support/chromium-text.ts");
  buildSync({ entryPoints: [entry], outfile: script, bundle: true, format: "esm", target: "es2022" });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  context = await openBrowser();
  ({ page } = await openPage(context, `http://127.0.0.1:${(server.address() as AddressInfo).port}/`));
});
after(async () => {
  await context?.close();
  server.close();
});

for (const format of everything ? ["f32", "f16"] : ["f32"])
  test(`a story from ${format} in Chromium under default limits, byte for byte`, { skip }, async (t) => {
    const made = await page.evaluate(async ({ path, limits }) => {
      const { write } = (await import(`${location.origin}/inside.js`)) as typeof Inside;
      return write(path, { limits });
    }, { path: `llm/stories260K/stories260K-${format}.gguf`, limits: DEFAULT_LIMITS });
    assert.equal(made.text, readFileSync(join(data!, "llm/stories260K/expected.txt"), "utf8"));
    assert.deepEqual(made.created, {}, "nothing is made after the first token");
    assert.ok(made.up <= 64 && made.down <= 64 && made.up > 0 && made.down > 0, `${made.up} up, ${made.down} down`);
    t.diagnostic(`${made.up} bytes up and ${made.down} down a token`);
  });

test("a model from an address is kept, and is there when the host is not", { skip }, async () => {
  const path = "/data/llm/stories260K/stories260K-q4_0.gguf";
  const run = () => page.evaluate(async (path) => {
    const { keep } = (await import(`${location.origin}/inside.js`)) as typeof Inside;
    return keep(path);
  }, path);
  bytesSent = 0;
  const first = await run();
  const size = readFileSync(join(data!, path.slice(6))).length;
  assert.deepEqual(first.stored, [[size, size]]);
  assert.ok(bytesSent >= size && bytesSent < size + 16, `${bytesSent} of ${size}`);
  bytesSent = 0;
  assert.deepEqual(await run(), first);
  assert.ok(bytesSent <= 1, "only asked for");
  gone = true;
  assert.deepEqual(await run(), first);
  // A piece whose bytes changed comes again, where it can.
  await page.evaluate(async () => {
    const store = await (await navigator.storage.getDirectory()).getDirectoryHandle("gyrus-models");
    for await (const folder of (store as unknown as { values(): AsyncIterable<FileSystemDirectoryHandle> }).values())
      for await (const file of (folder as unknown as { values(): AsyncIterable<FileSystemFileHandle> }).values()) {
        if (file.name === "about.json") continue;
        const writable = await file.createWritable({ keepExistingData: true });
        await writable.write({ type: "write", position: 5000, data: new Uint8Array([1, 2, 3, 4]) });
        await writable.close();
      }
  });
  await assert.rejects(run(), /not here as a whole/);
  gone = false;
  assert.deepEqual(await run(), first);
});
