// The npm package as others get it: packed and installed into a folder of its own, without a network; and that folder
// behind a server that knows nothing but files and suffixes.

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { PROGRAM, ROOT } from "./page.js";

export const web = join(ROOT, "web");

/** Why the package cannot be tried, or false. */
export const notPacked = [join(web, "dist/package/index.js"), PROGRAM].filter((path) => !existsSync(path))
  .map((path) => `${path} is not built: make web`)[0] ?? false;

export class Installed {
  readonly folder = mkdtempSync(join(tmpdir(), "gyrus-package-"));
  readonly #env = { ...process.env, GYRUS_NO_CACHE: "1", npm_config_update_notifier: "false" };

  /** With the example's scan and network in model/. */
  constructor() {
    const pack = ["pack", "--ignore-scripts", "--pack-destination", this.folder, "--loglevel=error"];
    execFileSync("npm", pack, { cwd: web, env: this.#env, stdio: "pipe" });
    writeFileSync(join(this.folder, "package.json"), JSON.stringify({ name: "user", private: true, type: "module" }));
    const tarball = readdirSync(this.folder).find((name) => name.endsWith(".tgz"));
    this.run("npm", "install", "--offline", "--no-audit", "--no-fund", "--loglevel=error", `./${tarball}`);
    // Installed by the user beside it; here those of the source tree, since there is no network.
    mkdirSync(join(this.folder, "node_modules/@webgpu"), { recursive: true });
    for (const name of ["webgpu", "@webgpu/types"])
      symlinkSync(join(web, "node_modules", name), join(this.folder, "node_modules", name));
    this.run(PROGRAM, "demo", "--size", "32", "--files", "--out", "model", "-q");
  }

  run(command: string, ...args: string[]): string {
    return execFileSync(command, args, { cwd: this.folder, env: this.#env, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  }
}

export async function serveFolder(folder: string): Promise<Server> {
  const types: Record<string, string> = {
    ".html": "text/html", ".js": "text/javascript", ".json": "application/json", ".wasm": "application/wasm",
  };
  const server = createServer((request, response) => {
    const path = join(folder, new URL(request.url!, "http://x").pathname.replace(/\/$/, "/index.html"));
    if (!existsSync(path)) return response.writeHead(404).end();
    const type = types[extname(path)] ?? "application/octet-stream";
    const bytes = readFileSync(path);
    return response.writeHead(200, { "Content-Type": type, "Content-Length": bytes.length }).end(bytes);
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  return server;
}

export const addressOf = (server: Server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
