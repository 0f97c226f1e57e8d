// Exported folders in Chromium, from a server that knows nothing but files and suffixes.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { after, before, test } from "node:test";
import { gunzipSync } from "node:zlib";
import type { BrowserContext, Page } from "playwright-core";
import type * as Executor from "../../web/src/executor-entry.js";
import type { Inputs, TensorValue } from "../../web/src/types.js";
import { edgesFile, slopes } from "./support/edges.js";
import { testGpu } from "./support/gpu.js";
import { crop48, drop, missing, nifti, openBrowser, openPage, PICTURES, PROGRAM, ROOT, tinyModel } from "./support/page.js";
import { everything, testData } from "./support/native.js";
import { plainNifti } from "./support/provenance.js";

const runPlan = join(process.env.GYRUS_BUILD ?? join(ROOT, "build/release"), "tests/run_plan");
const skip = missing || [PROGRAM, runPlan, join(ROOT, "web/dist/gyrus.js")].filter((path) => !existsSync(path))
  .map((path) => `${path} is not built: make web`)[0] || false;
// The driver that Chromium uses, for the native runtime too.
const swiftshader = "/usr/lib/chromium/vk_swiftshader_icd.json";
const env = { ...process.env, VK_ICD_FILENAMES: swiftshader, GYRUS_NO_CACHE: "1" };
const types: Record<string, string> = { ".html": "text/html", ".js": "text/javascript", ".json": "application/json" };

let folder: string;
let server: Server;
let context: BrowserContext;

const gyrus = (...args: string[]) => execFileSync(PROGRAM, args, { env, cwd: folder, stdio: "pipe" });

before(async () => {
  if (skip) return;
  folder = mkdtempSync(join(tmpdir(), "gyrus-export-"));
  gyrus("demo", "--size", "32", "--files", "--out", "model", "-q");
  server = createServer((request, response) => {
    const path = join(folder, new URL(request.url!, "http://x").pathname.replace(/\/$/, "/index.html"));
    if (!existsSync(path)) return response.writeHead(404).end();
    return response.writeHead(200, { "Content-Type": types[extname(path)] ?? "application/octet-stream" })
      .end(readFileSync(path));
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  context = await openBrowser();
});

after(async () => {
  await context?.close();
  server?.closeAllConnections();
  server?.close();
  if (folder) rmSync(folder, { recursive: true });
});

const address = (site: string) => `http://127.0.0.1:${(server.address() as AddressInfo).port}/${site}/`;
const text = async (page: Page, id: string) => (await page.locator(id).textContent()) ?? "";

// Waits until the page is done with what it does, and says how it ended.
async function settled(page: Page): Promise<string> {
  await page.waitForFunction(() => /^Ready|labelled in/.test(document.querySelector("#status")!.textContent!)
    || document.querySelector("#error")!.textContent !== "", null, { timeout: 240_000 });
  return (await text(page, "#error")) || text(page, "#status");
}

async function pick(page: Page, name: string, bytes: Uint8Array): Promise<string> {
  await page.evaluate(() => document.querySelector("#status")!.replaceChildren());
  await page.setInputFiles("#file", { name, mimeType: "application/octet-stream", buffer: Buffer.from(bytes) });
  return settled(page);
}

async function shownLabels(page: Page): Promise<Buffer> {
  const labels = await page.evaluate(async () => {
    const example = await import(new URL("example.js", document.baseURI).href);
    return Array.from(example.shown.labels as Uint8Array);
  });
  return Buffer.from(labels);
}

const voxelsOf = (path: string) => plainNifti(gunzipSync(readFileSync(path))).subarray(352);

function differing(a: Uint8Array, b: Uint8Array): number {
  assert.equal(a.length, b.length);
  return a.reduce((count, value, i) => count + Number(value !== b[i]), 0);
}

// The same plan and input through the native runtime; labels in the order of files.
function nativeLabels(site: string, voxels: Uint8Array, side: number, scale: number, shift: number): Buffer {
  const turn = (from: Uint8Array) => Buffer.from(from.map((_, i) =>
    from[(i % side) * side * side + (Math.floor(i / side) % side) * side + Math.floor(i / side / side)]!));
  const scalars = Buffer.from(Float32Array.of(scale, shift).buffer);
  const [input, output] = [join(folder, "inputs"), join(folder, "outputs")];
  writeFileSync(input, Buffer.concat([turn(voxels), scalars]));
  execFileSync(runPlan, [join(folder, site, "plan.json"), input, output], { env, stdio: "pipe" });
  return turn(readFileSync(output).subarray(0, voxels.length));
}

test("an exported folder runs as it is and gives the command line's labels", { skip }, async () => {
  gyrus("export", "model", "--size", "32", "-o", "site", "-q");
  const { page, said } = await openPage(context, address("site"));
  assert.equal(await settled(page), "Ready.");
  assert.match(await text(page, "#about"), /32×32×32 voxels in f32/);
  assert.match(await pick(page, "head.nii.gz", readFileSync(join(folder, "model/head.nii.gz"))), /labelled in/);
  const labels = await shownLabels(page);
  gyrus("segment", "model/head.nii.gz", "--no-conform", "-m", "model", "-o", "labels.nii.gz", "--limits", "default", "-q");
  assert.equal(differing(labels, voxelsOf(join(folder, "labels.nii.gz"))), 0);
  assert.equal(await page.locator("#planes canvas").count(), 3);
  const saved = Buffer.from(await page.evaluate(async () => {
    const example = await import(new URL("example.js", document.baseURI).href);
    return Array.from(example.niftiOf(example.shown) as Uint8Array);
  }));
  const [head, made] = [gunzipSync(readFileSync(join(folder, "model/head.nii.gz"))), plainNifti(saved)];
  assert.equal(await page.locator("#save").isVisible(), true);
  assert.deepEqual(made.subarray(280, 328), head.subarray(280, 328)); // the scan's place in the world
  assert.equal(differing(made.subarray(352), labels), 0);
  assert.equal(await page.locator("#progress").evaluate((bar) => (bar as HTMLProgressElement).value), 1);

  await page.evaluate(() => document.querySelector("#status")!.replaceChildren());
  await page.locator("#synthetic").click();
  assert.match(await settled(page), /labelled in|no label at all/);
  assert.equal(await page.locator("#file").inputValue(), "", "the same file cannot be picked again: nothing would change");
  assert.deepEqual(said, []);
  await page.close();
});

test("a scan that is dropped while kernels compile is taken when they have", { skip }, async () => {
  gyrus("export", tinyModel(), "--size", "16", "-o", "early", "-q");
  const scan = nifti([16, 16, 16], new Uint8Array(16 ** 3).map((_, i) => (i * 7) % 251));
  const page = await context.newPage();
  await page.route("**/plan.json", async (route) => { // it is there already when the page begins to load its plan
    await drop(page, "early.nii", scan, "#drop");
    await route.continue();
  });
  await page.goto(address("early"));
  await page.waitForFunction(() => /labelled in/.test(document.querySelector("#status")!.textContent!)
    || document.querySelector("#error")!.textContent !== "", null, { timeout: 60_000 });
  assert.match(await text(page, "#status"), /^early\.nii: \d+ of 4096 voxels labelled in/, await text(page, "#error"));
  await page.close();
});

test("logits and f16 give the same picture", { skip }, async () => {
  const options = ["--size", "16", "--precision", "f16", "-q"];
  const tiny = tinyModel(); // two kernels, which a software GPU compiles soon
  gyrus("export", tiny, ...options, "-o", "labels16");
  gyrus("export", tiny, ...options, "-o", "logits16", "--output", "logits");
  // From the middle of the head.
  const head = voxelsOf(join(folder, "model/head.nii.gz"));
  const at = (i: number) => (i % 16) + 8 + 32 * ((Math.floor(i / 16) % 16) + 8 + 32 * (Math.floor(i / 256) + 8));
  const scan = nifti([16, 16, 16], Uint8Array.from({ length: 16 ** 3 }, (_, i) => head[at(i)]!));
  const found: Buffer[] = [];
  for (const site of ["labels16", "logits16"]) {
    const { page, said } = await openPage(context, address(site));
    await settled(page);
    assert.match(await pick(page, "middle.nii", scan), /labelled in/);
    found.push(await shownLabels(page));
    assert.deepEqual(said, []);
    await page.close();
  }
  assert.equal(differing(found[0]!, found[1]!), 0);
  assert.deepEqual([...new Set(found[0]!)].sort(), [0, 1], "there is something to see");
});

test("a folder carries the executor of its plan's format", { skip }, () => {
  gyrus("export", tinyModel(), "--size", "16", "-o", "own", "-q");
  const { format } = JSON.parse(readFileSync(join(folder, "own/plan.json"), "utf8")) as { format: string };
  assert.ok(readFileSync(join(folder, "own/gyrus.js"), "utf8").includes(`"${format}"`), `gyrus.js reads no ${format}`);
});

test("wrong files and broken folders are said in one line", { skip }, async () => {
  gyrus("export", "model", "--size", "16", "-o", "small", "-q");
  const { page, said } = await openPage(context, address("small"));
  assert.equal(await settled(page), "Ready.");
  const head = readFileSync(join(folder, "model/head.nii.gz"));
  assert.match(await pick(page, "head.nii.gz", head), /has 32×32×32 voxels, this plan is for 16×16×16/);
  assert.match(await pick(page, "cut.nii.gz", head.subarray(0, 2000)), /\[cut\.nii\.gz\] is a damaged gzip file/);
  assert.match(await pick(page, "cut.nii", gunzipSync(head).subarray(0, 2000)), /\[cut\.nii\] is cut off/);
  const colours = nifti([16, 16, 16], new Uint8Array(3 * 16 ** 3));
  Buffer.from(colours.buffer).writeInt16LE(128, 70); // RGB
  assert.match(await pick(page, "colours.nii", colours),
    /\[colours\.nii\] has voxels of a type that this page does not read: save them as plain numbers, not colours/);
  assert.match(await pick(page, "picture.png", Buffer.alloc(1000, "PNG")), /\[picture\.png\] is no/);
  await page.locator("#synthetic").click();
  assert.match(await settled(page), /labelled in|no label at all/);
  assert.deepEqual(said, []);
  await page.close();

  cpSync(join(folder, "small"), join(folder, "cut"), { recursive: true });
  truncateSync(join(folder, "cut/plan.bin"), 100);
  const broken = await openPage(context, address("cut"));
  assert.match(await settled(broken.page), /plan/);
  assert.equal(await broken.page.locator("#synthetic").isDisabled(), true);
  assert.equal(await text(broken.page, "#about"), "", "it still loads");
  await broken.page.close();
});

const data = testData();
const side = 24; // half of the crop: the reference is for models-chromium.test.ts, which takes longer
test("model5 in a head: voxel for voxel the native runtime's labels", {
  skip: skip || (data ? (everything ? false : "takes long; GYRUS_TEST_FULL=1 runs it") : "the public test data is not here; set GYRUS_TEST_DATA"),
}, async () => {
  gyrus("export", join(data!, "models/model5_gw_ae"), "--size", String(side), "-o", "model5", "-q");
  const { page, said } = await openPage(context, address("model5"));
  assert.equal(await settled(page), "Ready.");
  const whole = crop48().subarray(352);
  const at = (i: number) => (i % side) + 48 * ((Math.floor(i / side) % side) + 48 * Math.floor(i / side ** 2));
  const voxels = Uint8Array.from({ length: side ** 3 }, (_, i) => whole[at(i)]!);
  assert.match(await pick(page, "crop.nii", nifti([side, side, side], voxels)), /labelled in/);
  const labels = await shownLabels(page);
  assert.deepEqual(said, []);
  await page.close();

  const low = Math.min(...voxels), high = Math.max(...voxels);
  const scale = 1 / (high - low);
  assert.ok(labels.some((label) => label !== 0));
  assert.equal(differing(labels, nativeLabels("model5", voxels, side, scale, -low * scale)), 0);
});

// A network of an exported folder under Node, with the executor that lies in it.
async function runFolder(site: string, inputs: Inputs): Promise<Record<string, TensorValue>> {
  const { PlanExecutor, parsePlan, requestDevice } = (await import(join(folder, site, "gyrus.js"))) as typeof Executor;
  const plan = parsePlan(readFileSync(join(folder, site, "plan.json"), "utf8"), readFileSync(join(folder, site, "plan.bin")));
  const { device } = await requestDevice({ gpu: testGpu() });
  const executor = await PlanExecutor.create(device, plan, { checkFinite: false });
  const { outputs } = await executor.run(inputs);
  device.destroy();
  return outputs;
}

// The same plan through the native runtime, on a driver.
function nativeOutput(site: string, input: Uint8Array, driver: string | undefined): Buffer {
  const [from, to] = [join(folder, "inputs"), join(folder, "outputs")];
  writeFileSync(from, input);
  execFileSync(runPlan, [join(folder, site, "plan.json"), from, to],
    { env: { ...process.env, GYRUS_NO_CACHE: "1", ...(driver ? { VK_ICD_FILENAMES: driver } : {}) }, stdio: "pipe" });
  return readFileSync(to);
}

test("an ONNX model as a folder gives the native runtime's tensors, under Node and in Chromium", { skip }, async () => {
  writeFileSync(join(folder, "edges.onnx"), edgesFile());
  gyrus("export", "edges.onnx", "--shape", "image=1,1,20,30", "-o", "edges", "-q");
  const image = Float32Array.from({ length: 600 }, (_, i) => (i * 37) % 101);
  const input: TensorValue = { dtype: "f32", shape: [1, 1, 20, 30], data: new Uint8Array(image.buffer) };

  const { slope } = await runFolder("edges", { image: input });
  assert.deepEqual(slope!.shape, [1, 1, 20, 30]);
  assert.ok(nativeOutput("edges", input.data, process.env.VK_ICD_FILENAMES).equals(slope!.data), "differs under Node");
  slopes(image, 20, 30).forEach((want, i) =>
    assert.ok(Math.abs(new Float32Array(slope!.data.buffer)[i]! - want) <= 1e-4 * (1 + want), `[${i}]`));

  const { page, said } = await openPage(context, address("edges"));
  await page.waitForFunction(() => document.querySelector("#status")!.textContent === "Ready."
    || document.querySelector("#error")!.textContent !== "", null, { timeout: 60_000 });
  assert.equal(await text(page, "#error"), "");
  assert.equal(await text(page, "#title"), "edges");
  const head = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 20, 30), }".padEnd(117) + "\n";
  const npy = Buffer.concat([Buffer.from("\x93NUMPY\x01\x00\x76\x00", "latin1"), Buffer.from(head), input.data]);
  await page.setInputFiles("#inputs input", { name: "image.npy", mimeType: "application/octet-stream", buffer: npy });
  await page.locator("#run").click();
  await page.locator("#outputs tbody tr").waitFor();
  assert.match(await text(page, "#outputs tbody tr"), /^slopef32 \[1, 1, 20, 30\]/);
  mkdirSync(PICTURES, { recursive: true });
  await page.screenshot({ path: join(PICTURES, "export-network.png") });
  const found = await page.evaluate(async () => {
    const example = await import(new URL("example.js", document.baseURI).href);
    const link = document.querySelector<HTMLAnchorElement>("#outputs a")!;
    return { shown: Array.from(example.shown.slope.data as Uint8Array), npy: await (await fetch(link.href)).text() };
  });
  assert.ok(nativeOutput("edges", input.data, swiftshader).equals(Buffer.from(found.shown)), "differs in Chromium");
  assert.match(found.npy, /'descr': '<f4', 'fortran_order': False, 'shape': \(1, 1, 20, 30\)/);

  await page.setInputFiles("#inputs input", { name: "odd.npy", mimeType: "application/octet-stream", buffer: npy.subarray(0, 300) });
  await page.locator("#run").click();
  await page.waitForFunction(() => document.querySelector("#error")!.textContent !== "");
  assert.match(await text(page, "#error"), /^\[odd\.npy\] is cut off/);
  assert.deepEqual(said, []);
  await page.close();
});
