// The Trainer in Chromium on SwiftShader, against PyTorch in float64.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join, normalize } from "node:path";
import { after, before, test } from "node:test";
import { buildSync } from "esbuild";
import type { BrowserContext, Page } from "playwright-core";
import type * as Inside from "./support/chromium-trainer.js";
import { everything, outFolder, sourceFolder, testData } from "./support/native.js";
import { missing as noBrowser, openBrowser, openPage } from "./support/page.js";

const data = testData();
const skip = noBrowser || (data ? false : "the public test data is not here; set GYRUS_TEST_DATA");
const script = join(outFolder, "chromium-trainer.js");
const server = createServer((request, response) => {
  const path = normalize(new URL(request.url ?? "/", "http://x").pathname);
  response.setHeader("Content-Type", path.endsWith(".js") ? "text/javascript" : path === "/" ? "text/html" : "application/wasm");
  const at = path.startsWith("/data/") ? join(data!, path.slice(6)) : path === "/inside.js" ? script
    : join(sourceFolder, "web/dist/wasm", path);
  if (path === "/") return response.end("<!doctype html><link rel=icon href=data:,>");
  return existsSync(at) ? response.end(readFileSync(at)) : response.writeHead(404).end();
});
let context: BrowserContext;
let page: Page;

before(async () => {
  if (skip) return;
  const entry = join(sourceFolder, "tests/web/support/chromium-trainer.ts");
  buildSync({ entryPoints: [entry], outfile: script, bundle: true, format: "esm", target: "es2022" });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  context = await openBrowser();
  ({ page } = await openPage(context, `http://127.0.0.1:${(server.address() as AddressInfo).port}/`));
});
after(async () => {
  await context?.close();
  server.close();
});

const cases = [
  { name: "meshnet3d", loss: 1e-4, gradient: 4e-5, parameters: 1e-3, long: false },
  { name: "small", loss: 1e-5, gradient: 1e-9, parameters: 1e-4, long: true },
];
for (const { name, long, ...bounds } of cases)
  test(`${name} learns in Chromium as in PyTorch`, { skip: skip || (long && !everything && "takes long; GYRUS_TEST_FULL=1 runs it") },
    async (t) => {
      const got = await page.evaluate(async (name): Promise<Inside.Trained> => {
        const { train } = (await import(`${location.origin}/inside.js`)) as typeof Inside;
        return train(name, Infinity);
      }, name);
      t.diagnostic(`${got.adapter}: ${got.losses.length} losses`);
      got.wanted.forEach((want, i) => assert.ok(Math.abs(got.losses[i]! / want - 1) <= bounds.loss, `step ${i}: ${got.losses[i]}`));
      assert.ok(got.losses.length >= 10 && got.losses.length === got.wanted.length);
      assert.ok(got.gradient <= bounds.gradient, `gradients: ${got.gradient}`);
      assert.ok(got.parameters <= bounds.parameters, `parameters: ${got.parameters}`);
    });
