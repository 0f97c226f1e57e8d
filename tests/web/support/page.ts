// What the page's tests share: a static server, the browser, small scans.

import {
  createReadStream, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, statSync, writeFileSync,
} from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, extname, join, normalize, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium, type BrowserContext, type Page } from "playwright-core";
import { weightsFile } from "./tensors.js";

export const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), "../..");
export const SITE = join(ROOT, "web/dist/page");
export const DATA = process.env.GYRUS_TEST_DATA ?? join(ROOT, "../shared/data");
export const PROGRAM = process.env.GYRUS_PROGRAM ?? join(ROOT, "build/release/bin/gyrus");
export const PICTURES = join(ROOT, "build/web-pictures");
const BROWSER = process.env.GYRUS_BROWSER ?? "/usr/bin/chromium";

const TYPES: Record<string, string> = {
  ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm",
  ".svg": "image/svg+xml", ".json": "application/json", ".webmanifest": "application/manifest+json",
};

// Why the tests cannot run, or false.
export const missing = !existsSync(join(SITE, "index.html")) ? `${SITE} is not built: node web/build.mjs`
  : !existsSync(BROWSER) ? `there is no browser at ${BROWSER}` : false;

/** Serves the page, and model folders under models/. Every request is noted in `asked`. */
export class Site {
  readonly asked: { method: string; path: string; bytes: number }[] = [];
  #server: Server;
  #held: { name: string; released: Promise<void> } | null = null;

  private constructor(server: Server) {
    this.#server = server;
  }

  /** `isolated`: with the headers that let a page have threads. */
  static async open(models: Record<string, string>, isolated = false): Promise<Site> {
    const server = createServer();
    const site = new Site(server);
    server.on("request", (request, response) => {
      const path = decodeURIComponent(new URL(request.url ?? "/", "http://x").pathname);
      site.asked.push({ method: request.method ?? "", path, bytes: Number(request.headers["content-length"] ?? 0) });
      const [, head, name = "", file = ""] = path.split("/");
      let at = join(SITE, normalize(path.endsWith("/") ? `${path}index.html` : path));
      if (head === "models" && name === "index.json") at = "";
      else if (head === "models") at = join(models[name] ?? "/nowhere", file);
      response.setHeader("Content-Type", TYPES[extname(at || ".json")] ?? "application/octet-stream");
      response.setHeader("Cache-Control", "no-cache");
      if (isolated) response.setHeader("Cross-Origin-Opener-Policy", "same-origin");
      if (isolated) response.setHeader("Cross-Origin-Embedder-Policy", "require-corp");
      const list = () => Object.entries(models).map(([key, folder]) => listed(key, folder));
      if (at === "") return response.end(JSON.stringify({ models: list() }));
      if (!existsSync(at) || !statSync(at).isFile()) return response.writeHead(404).end();
      const { size } = statSync(at);
      response.setHeader("Content-Length", size);
      if (file === "" || site.#held?.name !== file) return createReadStream(at).pipe(response);
      response.write(readFileSync(at).subarray(0, size >> 1));
      return void site.#held.released.then(() => response.end(readFileSync(at).subarray(size >> 1)));
    });
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    return site;
  }

  /** Models' files of this name come to their half, and on when the function is called. */
  hold(name: string): () => void {
    let release = () => {};
    const released = new Promise<void>((done) => (release = done));
    this.#held = { name, released };
    return () => ((this.#held = null), release());
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`;
  }

  // The network goes away: what follows is what works offline.
  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((done) => this.#server.close(done));
  }
}

function listed(name: string, folder: string) {
  const files = readdirSync(folder)
    .filter((file) => /\.(json|pth|bin|safetensors)$/.test(file))
    .map((file) => ({ name: file, bytes: statSync(join(folder, file)).size }));
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  return { name, title: name, licence: "", classes: 3, labels: ["one", "two"], parameters: 100, bytes, path: `${name}/`, files };
}

interface BrowserOptions {
  scheme?: "light" | "dark";
  width?: number;
  height?: number;
  webgpu?: boolean;
}

export async function openBrowser(options: BrowserOptions = {}): Promise<BrowserContext> {
  const folder = mkdtempSync(join(tmpdir(), "gyrus-browser-"));
  const context = await chromium.launchPersistentContext(folder, {
    executablePath: BROWSER,
    headless: true,
    acceptDownloads: true,
    colorScheme: options.scheme ?? "light",
    viewport: { width: options.width ?? 1280, height: options.height ?? 800 },
    args: [
      ...(options.webgpu === false ? ["--disable-features=WebGPU", "--disable-blink-features=WebGPU"]
        : ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"]),
      "--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--disable-quic",
      "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync",
    ],
  });
  return context;
}

/** A page with everything that it says in its console, errors first of all. Its GPU is used, though it is none but in
 *  name, unless `anyDevice`. */
export async function openPage(context: BrowserContext, url: string, anyDevice = false) {
  const page = await context.newPage();
  const said: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") said.push(message.text());
  });
  page.on("pageerror", (error) => said.push(`uncaught: ${error.message}`));
  await page.goto(anyDevice ? url : `${url}${url.includes("?") ? "&" : "?"}device=gpu`);
  return { page, said };
}

/** Drops a file on the viewer, as a person would. Large ones go through a handle, not through the protocol. */
export async function drop(page: Page, name: string, bytes: Uint8Array, where = "#stage"): Promise<void> {
  const text = Buffer.from(bytes).toString("base64");
  await page.evaluate(async ({ name, text, where }) => {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const transfer = new DataTransfer();
    transfer.items.add(new File([bytes], name));
    document.querySelector(where)!.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true }));
  }, { name, text, where });
}

/** A NIfTI-1 file of bytes, x fastest, 1 mm, around the origin; `frames` above 1 makes it 4-D. */
export function nifti(dims: number[], voxels: Uint8Array, frames = 1): Uint8Array {
  const head = Buffer.alloc(352);
  head.writeInt32LE(348, 0);
  head.writeInt16LE(frames > 1 ? 4 : 3, 40);
  [...dims, frames].forEach((extent, i) => head.writeInt16LE(extent, 42 + 2 * i));
  for (let i = 46 + 2; i < 56; i += 2) if (head.readInt16LE(i) === 0) head.writeInt16LE(1, i);
  head.writeInt16LE(2, 70);
  head.writeInt16LE(8, 72);
  [1, 1, 1, 1].forEach((size, i) => head.writeFloatLE(size, 76 + 4 * i));
  head.writeFloatLE(352, 108);
  head.writeInt16LE(1, 254);
  const affine = [-1, 0, 0, dims[0]! / 2, 0, 0, 1, -dims[1]! / 2, 0, -1, 0, dims[2]! / 2];
  affine.forEach((value, i) => head.writeFloatLE(value, 280 + 4 * i));
  head.write("n+1\0", 344, "latin1");
  return Buffer.concat([head, voxels]);
}

/** The crop of 48 voxels a side of a head, as a NIfTI file. */
export function crop48(): Uint8Array {
  return nifti([48, 48, 48], readFileSync(join(DATA, "reference/crops/crop48.u8")));
}

/** A folder with a DICOM file for each slice of a small MR volume (explicit VR, little endian); or another series in one. */
export function dicomFolder(
  extent: number, folder = mkdtempSync(join(tmpdir(), "gyrus-dicom-")), series = 1,
): string {
  for (let z = 0; z < extent; ++z) writeFileSync(join(folder, `slice${series}_${z}.dcm`), dicomSlice(extent, z, series));
  return folder;
}

function dicomSlice(extent: number, z: number, series: number): Buffer {
  const long = new Set(["OB", "OW", "SQ", "UN"]);
  const put = (group: number, element: number, vr: string, value: Buffer | string | number) => {
    let bytes = typeof value === "number" ? Buffer.from(Uint16Array.of(value).buffer) : Buffer.from(value as string);
    if (bytes.length % 2 === 1) bytes = Buffer.concat([bytes, Buffer.from(vr === "UI" ? "\0" : " ")]);
    const head = Buffer.alloc(long.has(vr) ? 12 : 8);
    head.writeUInt16LE(group, 0);
    head.writeUInt16LE(element, 2);
    head.write(vr, 4, "latin1");
    if (long.has(vr)) head.writeUInt32LE(bytes.length, 8);
    else head.writeUInt16LE(bytes.length, 6);
    return Buffer.concat([head, bytes]);
  };
  const kind = "1.2.840.10008.5.1.4.1.1.4";
  const one = `1.2.3.4.5.${series}.${z + 1}`;
  const meta = Buffer.concat([
    put(2, 1, "OB", Buffer.from([0, 1])), put(2, 2, "UI", kind), put(2, 3, "UI", one),
    put(2, 0x10, "UI", "1.2.840.10008.1.2.1"), put(2, 0x12, "UI", "1.2.3.4.99"),
  ]);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(meta.length);
  const group = put(2, 0, "UL", length);
  const value = (x: number, y: number) => (x * 11 + y * 5 + z * 3) % 800;
  const voxels = new Uint16Array(extent * extent).map((_, i) => value(i % extent, Math.floor(i / extent)));
  return Buffer.concat([
    Buffer.alloc(128), Buffer.from("DICM"), group, meta,
    put(8, 8, "CS", "ORIGINAL\\PRIMARY\\M\\ND"), put(8, 0x16, "UI", kind), put(8, 0x18, "UI", one),
    put(8, 0x20, "DA", "20200101"), put(8, 0x30, "TM", "120000"), put(8, 0x31, "TM", "120000"),
    put(8, 0x32, "TM", "120000"), put(8, 0x60, "CS", "MR"), put(8, 0x70, "LO", "SIEMENS"),
    put(0x10, 0x10, "PN", "Nobody"), put(0x10, 0x20, "LO", "0"), put(0x18, 0x23, "CS", "3D"),
    put(0x18, 0x50, "DS", "1"), put(0x18, 0x80, "DS", "2000"),
    put(0x18, 0x81, "DS", "3"), put(0x18, 0x88, "DS", "1"), put(0x18, 0x1030, "LO", "t1"),
    put(0x20, 0xd, "UI", "1.2.3.4.1"), put(0x20, 0xe, "UI", `1.2.3.4.2.${series}`), put(0x20, 0x11, "IS", String(series)),
    put(0x20, 0x12, "IS", "1"), put(0x20, 0x13, "IS", String(z + 1)), put(0x20, 0x32, "DS", `0\\0\\${z}`),
    put(0x20, 0x37, "DS", "1\\0\\0\\0\\1\\0"), put(0x20, 0x52, "UI", "1.2.3.4.3"), put(0x28, 2, "US", 1),
    put(0x28, 4, "CS", "MONOCHROME2"), put(0x28, 0x10, "US", extent), put(0x28, 0x11, "US", extent),
    put(0x28, 0x30, "DS", "1\\1"), put(0x28, 0x100, "US", 16), put(0x28, 0x101, "US", 12), put(0x28, 0x102, "US", 11),
    put(0x28, 0x103, "US", 0), put(0x7fe0, 0x10, "OW", Buffer.from(voxels.buffer)),
  ]);
}

/** A model of two layers that takes what is bright for brain: small enough for whole heads on a software GPU. */
export function tinyModel(): string {
  const folder = join(mkdtempSync(join(tmpdir(), "gyrus-tiny-")), "tiny");
  mkdirSync(folder);
  const layer = (from: number, to: number, kernel: number) =>
    ({ in_channels: from, out_channels: to, kernel_size: kernel, padding: kernel >> 1, stride: 1, dilation: 1 });
  const list = { bnorm: false, bias: true, layers: [layer(1, 2, 3), layer(2, 2, 1)] };
  writeFileSync(join(folder, "model.json"), JSON.stringify(list));
  const mean = Array<number>(27).fill(1 / 27);
  const tensors: Record<string, [number[], number[]]> = {
    "model.0.weight": [[2, 1, 3, 3, 3], [...mean, ...mean]], "model.0.bias": [[2], [0, -0.3137]],
    "model.1.weight": [[2, 2, 1, 1, 1], [0, 0, 0, 1]], "model.1.bias": [[2], [0.0471, 0]],
  };
  writeFileSync(join(folder, "model.safetensors"), weightsFile(tensors));
  return folder;
}

/** A copy of a model whose safetensors file calls one tensor by another name. */
export function brokenModel(folder: string): string {
  const copy = join(mkdtempSync(join(tmpdir(), "gyrus-model-")), "broken");
  mkdirSync(copy);
  writeFileSync(join(copy, "model.json"), readFileSync(join(folder, "model.json")));
  const weights = readFileSync(join(folder, "model.pth"));
  const at = weights.indexOf(".weight", 0, "latin1");
  weights.write(".wieght", at, "latin1");
  writeFileSync(join(copy, "model.pth"), weights);
  return copy;
}

export async function picture(page: Page, name: string): Promise<void> {
  mkdirSync(PICTURES, { recursive: true });
  writeFileSync(join(PICTURES, `${name}.png`), await page.screenshot());
}
