// A page in Chromium with what an exported folder has: gyrus.js, and whatever a test puts into the folder that is served.

import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildSync } from "esbuild";
import type { Page } from "playwright-core";
import { sourceFolder } from "./native.js";
import { openBrowser, openPage } from "./page.js";

export interface ExecutorPage {
  /** The folder that is served. */
  files: string;
  page: Page;
  /** What the console said. */
  said: string[];
  close(): Promise<void>;
}

export async function openExecutorPage(): Promise<ExecutorPage> {
  const files = mkdtempSync(join(tmpdir(), "gyrus-chromium-"));
  const entry = join(sourceFolder, "web/src/executor-entry.ts");
  buildSync({ entryPoints: [entry], outfile: join(files, "gyrus.js"), bundle: true, format: "esm", target: "es2022" });
  const server = createServer((request, response) => {
    const path = join(files, new URL(request.url ?? "/", "http://x").pathname);
    response.setHeader("Content-Type", path.endsWith(".js") ? "text/javascript" : "text/html");
    if (path === join(files, "/")) return response.end("<!doctype html><link rel=icon href=data:,>");
    return existsSync(path) ? response.end(readFileSync(path)) : response.writeHead(404).end();
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const context = await openBrowser();
  const { page, said } = await openPage(context, `http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  const close = async () => {
    await context.close();
    server.close();
    rmSync(files, { recursive: true });
  };
  return { files, page, said, close };
}
