// The built page from gyrus web: its headers and its policy must let the page work.

import assert from "node:assert/strict";
import { once } from "node:events";
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { missing, openBrowser, openPage, PROGRAM } from "./support/page.js";

const skip = missing || (existsSync(PROGRAM) ? false : `${PROGRAM} is not built`);

let folder: string;
let server: ChildProcess;
let url: string;

before(async () => {
  if (skip) return;
  folder = mkdtempSync(join(tmpdir(), "gyrus-serve-"));
  execFileSync(PROGRAM, ["demo", "--size", "32", "--files", "--out", join(folder, "models/a model"), "-q"]);
  const env = { ...process.env, XDG_CACHE_HOME: folder, GYRUS_MODELS: "" };
  server = spawn(PROGRAM, ["web", "--port", "0", "--models", join(folder, "models")], { env, stdio: ["ignore", "pipe", "ignore"] });
  const [line] = await once(server.stdout!.setEncoding("utf8"), "data");
  url = (line as string).trim();
});

after(async () => {
  server?.kill("SIGINT");
  if (server) assert.deepEqual(await once(server, "exit"), [0, null]);
  if (folder) rmSync(folder, { recursive: true });
});

test("the page opens, is isolated, and finds the local model", { skip }, async () => {
  const context = await openBrowser();
  try {
    const { page, said } = await openPage(context, url);
    assert.equal(await page.evaluate(() => globalThis.crossOriginIsolated), true);
    await page.waitForFunction(() => document.querySelector("#model-info")!.textContent!.includes("parameters"));
    assert.match((await page.locator("#site-models").textContent()) ?? "", /Tissues of the synthetic head/);
    assert.deepEqual(said, []);
  } finally {
    await context.close();
  }
});
