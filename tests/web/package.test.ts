// The npm package as others get it: packed, installed without a network, its README's examples run as they stand there.

import assert from "node:assert/strict";
import { copyFileSync, cpSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import type { Server } from "node:http";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { gunzipSync } from "node:zlib";
import type { BrowserContext } from "playwright-core";
import { shared } from "./support/compiler.js";
import { slopes } from "./support/edges.js";
import { addressOf, Installed, notPacked, serveFolder, web } from "./support/package.js";
import { missing, openBrowser, openPage, PICTURES, PROGRAM } from "./support/page.js";
import { plainNifti } from "./support/provenance.js";

const skip = notPacked;
const stories = shared("llm/stories260K/stories260K-q8_0.gguf");
const readme = readFileSync(join(web, "README.md"), "utf8");

let installed: Installed;
let folder: string;
let server: Server;
let context: BrowserContext | null = null; // where there is a browser

/** The block of the README that stands under this name. */
function example(name: string): string {
  const found = new RegExp(`^\`\`\`js ${name}\n([^]*?)^\`\`\`$`, "m").exec(readme);
  assert.ok(found, `web/README.md has no block ${name}`);
  return found[1]!;
}

const inFolder = (command: string, ...args: string[]) => installed.run(command, ...args);

before(async () => {
  if (skip) return;
  installed = new Installed();
  ({ folder } = installed);
  inFolder(PROGRAM, "segment", "model/head.nii.gz", "--no-conform", "-m", "model", "-o", "labels.nii.gz", "-q");
  server = await serveFolder(folder);
  if (!missing) context = await openBrowser();
});

after(async () => {
  await context?.close();
  server?.closeAllConnections();
  server?.close();
  if (folder) rmSync(folder, { recursive: true });
});

const commandLine = () => plainNifti(gunzipSync(readFileSync(join(folder, "labels.nii.gz")))).subarray(352);

// Drivers and the kernel shapes chosen for them differ: voxels whose two best classes are a rounding error apart may too.
function assertSame(labels: Uint8Array, atMost: number): void {
  const want = commandLine();
  assert.equal(labels.length, want.length);
  const wrong = labels.reduce((count, label, i) => count + Number(label !== want[i]), 0);
  assert.ok(wrong <= atMost, `${wrong} of ${want.length} voxels differ from the command line`);
}

test("the README's example for Node gives the command line's labels", { skip }, () => {
  writeFileSync(join(folder, "segment.mjs"), example("segment.mjs"));
  const said = inFolder(process.execPath, "segment.mjs", "model", "model/head.nii.gz", "found.nii");
  assert.match(said, /grey matter: \d+ voxels, /);
  assertSame(readFileSync(join(folder, "found.nii")).subarray(352), 0);
});

test("the README's example runs an ONNX model under Node", { skip }, () => {
  writeFileSync(join(folder, "run.mjs"), example("run.mjs"));
  const said = inFolder(process.execPath, "run.mjs", "node_modules/gyrus-web/example/program/edges.onnx");
  assert.match(said, /^in {2}image: float \[1,1,height,width\]\nout slope: f32 \[1,1,8,8\]\n[\d.]+ ms, \d+ bytes/);
});

test("the README's example writes under Node", { skip: skip || (stories ? false : "the public test data is not here") }, () => {
  writeFileSync(join(folder, "write.mjs"), example("write.mjs"));
  const said = inFolder(process.execPath, "write.mjs", stories!, "Once upon a time");
  assert.match(said, /^Once upon a time, there was a little girl[^]*\n[\d.]+ tokens a second\n$/);
});

test("the README's example trains under Node", { skip }, () => {
  writeFileSync(join(folder, "train.mjs"), example("train.mjs"));
  const said = inFolder(process.execPath, "train.mjs");
  const losses = [...said.matchAll(/^step \d+: ([\d.]+)$/gm)].map(([, loss]) => Number(loss));
  assert.equal(losses.length, 4);
  assert.ok(losses[3]! < 0.1 * losses[0]!, said);
  const found = Number(/sin 1 is about ([\d.]+)/.exec(said)![1]);
  assert.ok(Math.abs(found - Math.sin(1)) < 0.15, said);
});

test("the executor alone brings no WebAssembly along", { skip }, () => {
  const script = 'const m = await import("gyrus-web/executor"); console.log(Object.keys(m).sort().join())';
  const names = inFolder(process.execPath, "--input-type=module", "-e", script);
  assert.match(names, /PlanExecutor/);
  assert.doesNotMatch(names, /Compiler|Segmenter/);
});

test("types are found", { skip }, () => {
  writeFileSync(join(folder, "use.ts"), `
    import { Compiler, GraphBuilder, PlanExecutor, Program, Trainer, WorkerSegmenter, createSegmenter, requestDevice } from "gyrus-web";
    import type { RunResult, StepResult, TrainerOptions } from "gyrus-web";
    import { loadPlan } from "gyrus-web/executor";
    export async function run(): Promise<RunResult> {
      const { device } = await requestDevice();
      const executor = await PlanExecutor.create(device, await loadPlan("."));
      return executor.run({}, { onProgress: ({ fraction }) => fraction.toFixed(2) });
    }
    export const labels = (segmenter: WorkerSegmenter) => segmenter.segment().then(({ nativeLabels }) => nativeLabels);
    export async function count(scan: File): Promise<number> {
      const segment = await createSegmenter();
      return (await segment(scan)).voxels.length;
    }
    export async function classes(file: ArrayBuffer, x: Float32Array): Promise<number[]> {
      const program = await Program.load(file, { precision: "f16", keepPlans: 2 });
      const { outputs } = await program.run({ x: { dtype: "f32", shape: [x.length], data: new Uint8Array(x.buffer) } });
      return outputs.y!.shape;
    }
    export async function learn(device: GPUDevice, options: TrainerOptions): Promise<StepResult> {
      const trainer = await Trainer.create(device, new GraphBuilder().graph, { ...options, schedule: { kind: "cosine" } });
      return trainer.step({}, { captures: ["gradient/w"] });
    }
    export const wrong: number = "text"; // the one mistake
    export { Compiler, WorkerSegmenter };
  `);
  const tsc = join(web, "node_modules/typescript/bin/tsc");
  const options = "--noEmit --strict --target ES2022 --module ES2022 --moduleResolution bundler --types @webgpu/types";
  assert.throws(() => inFolder(process.execPath, tsc, ...options.split(" "), "use.ts"), (error: { stdout: string }) => {
    assert.equal(error.stdout.trim().split("\n").length, 1, error.stdout);
    assert.match(error.stdout, /use\.ts.*'string' is not assignable to type 'number'/);
    return true;
  });
});

test("the package's example runs an ONNX model in Chromium", { skip: skip || missing }, async () => {
  for (const name of ["index.html", "main.js", "edges.onnx"])
    copyFileSync(join(folder, "node_modules/gyrus-web/example/program", name), join(folder, name));
  const { page, said } = await openPage(context!, addressOf(server));
  await page.waitForFunction(() => /pixels in|^$/.test(document.querySelector("#status")!.textContent!)
    || document.querySelector("#error")!.textContent !== "", null, { timeout: 60_000 });
  assert.equal(await page.locator("#error").textContent(), "");
  assert.match((await page.locator("#status").textContent())!, /^256×256 pixels in/);
  mkdirSync(PICTURES, { recursive: true });
  await page.screenshot({ path: join(PICTURES, "program.png") });
  const [grey, found] = await page.evaluate(async () => {
    const { slopes } = await import(new URL("main.js", document.baseURI).href);
    const picture = (document.querySelector("#picture") as HTMLCanvasElement).getContext("2d")!.getImageData(70, 40, 60, 50);
    const grey = Array.from({ length: 3000 }, (_, i) =>
      (picture.data[4 * i]! + picture.data[4 * i + 1]! + picture.data[4 * i + 2]!) / 765);
    return [grey, Array.from((await slopes(picture)) as Float32Array)];
  });
  const want = slopes(grey!, 50, 60);
  assert.ok(want.some((value) => value > 0.5), "there is something to see");
  found!.forEach((value, i) => assert.ok(Math.abs(value - want[i]!) < 1e-5, `[${i}] ${value} ${want[i]}`));
  assert.deepEqual(said, []);
  await page.close();
});

test("the README's example for pages runs in Chromium", { skip: skip || missing }, async () => {
  const importMap = /<script type="importmap">.*<\/script>/.exec(readme)![0];
  writeFileSync(join(folder, "page.js"), example("page.js"));
  writeFileSync(join(folder, "index.html"), `<!doctype html><link rel="icon" href="data:,">${importMap}`);
  const { page, said } = await openPage(context!, addressOf(server));
  const labels = await page.evaluate(async () => {
    const { label } = await import(new URL("page.js", document.baseURI).href);
    const { voxels, dims, report } = await label("model/head.nii.gz", { model: "model/", conform: false });
    const names = (report.labels as { name: string }[]).map(({ name }) => name);
    return { voxels: Array.from(voxels as Uint8Array), dims: dims as number[], names };
  });
  assertSame(Uint8Array.from(labels.voxels), commandLine().length / 1000);
  assert.deepEqual(labels.dims, [32, 32, 32]);
  assert.ok(labels.names.includes("grey matter"), labels.names.join());
  // A folder that cannot be listed is asked for files that models may have; the browser notes those that it has not.
  assert.deepEqual(said.filter((line) => !line.includes("404")), []);
  await page.close();
});

const inBrowser = { skip: skip || missing };

test("createSegmenter: models by name, scans of every form, one after another, errors in a line", inBrowser, async () => {
  const files = readdirSync(join(folder, "model")).filter((name) => /\.(json|pth|bin|safetensors)$/.test(name));
  mkdirSync(join(folder, "models"));
  cpSync(join(folder, "model"), join(folder, "models/head"), { recursive: true });
  writeFileSync(join(folder, "models/index.json"),
    JSON.stringify({ models: [{ name: "head", path: "head/", files: files.map((name) => ({ name, bytes: 1 })) }] }));
  writeFileSync(join(folder, "index.html"), '<!doctype html><link rel="icon" href="data:,">');
  const { page } = await openPage(context!, addressOf(server));
  const found = await page.evaluate(async (moduleUrl) => {
    const { createSegmenter } = await import(moduleUrl) as typeof import("../../web/src/index.js");
    const refused = (promise: Promise<unknown>) => promise.then(() => "", (error: Error) => error.message);
    const downloads: { loaded: number; total: number | null }[] = [];
    // The CPU, which is quick with a network of this size.
    const segment = await createSegmenter({ device: "cpu", conform: false, onDownload: (d) => downloads.push(d) });
    const bytes = new Uint8Array(await (await fetch("model/head.nii.gz")).arrayBuffer());
    const all = await Promise.all([segment(bytes, { name: "a.nii.gz" }), segment(bytes.buffer), segment(new Blob([bytes])),
      segment(new URL("model/head.nii.gz", document.baseURI))]);
    const out = {
      names: all.map(({ provenance }) => provenance.scan), voxels: all.map(({ voxels }) => voxels.join("")),
      model: segment.model.name, downloads, left: bytes.length, onCpu: all.every(({ onCpu }) => onCpu),
      brain: (await segment.brain()).length,
      errors: [await refused(segment("model/none.nii")), await refused(segment(new Uint8Array(500))),
        await refused(createSegmenter({ model: "other" })), await refused(createSegmenter({ model: "none/" }))],
    };
    segment.dispose();
    return { ...out, errors: [...out.errors, await refused(segment(bytes))] };
  }, `${addressOf(server)}node_modules/gyrus-web/dist/package/index.js`);
  assert.deepEqual(found.names, ["a.nii.gz", "scan", "scan", "head.nii.gz"]);
  for (const voxels of found.voxels) assertSame(Uint8Array.from(voxels, Number), commandLine().length / 1000);
  assert.deepEqual([found.model, found.onCpu, found.left > 0, found.brain > 32 ** 3], ["head", true, true, true]);
  const weights = files.filter((name) => !name.endsWith(".json")).map((name) => statSync(join(folder, "model", name)).size);
  const sum = weights.reduce((a, b) => a + b);
  assert.deepEqual(found.downloads.at(-1), { loaded: sum, total: sum });
  const want = [/none\.nii\] could not be read: 404/, /\[scan\]/, /index\.json\] has no model other; it lists head$/,
    /none\/model\.json\] is not there/, /was disposed of/];
  want.forEach((message, i) => assert.match(found.errors[i]!, message));
  await page.close();
});

// ---- in production builds of bundlers: the worker, the module, a Program in a worker of one's own ----

// What a site's author writes; bundlers differ in how they name a worker and the address of a file.
const script = (imports: string, worker: string) => `
  import { Compiler, createSegmenter, WorkerSegmenter } from "gyrus-web";
  ${imports}
  globalThis.run = async () => {
    const found = [];
    for (const options of [{}, { wasm: url }]) {
      const segmenter = new WorkerSegmenter(() => ${worker}, options);
      const scan = await (await fetch("/model/head.nii.gz")).arrayBuffer();
      found.push((await segmenter.openScan("head.nii.gz", scan)).info.dims.join());
      segmenter.close();
    }
    const segment = await createSegmenter({ model: "/model/" }); // with the package's own worker
    segment.dispose();
    found.push(segment.model.classes);
    const own = new Worker(new URL("./own.js", import.meta.url), { type: "module" }); // one's own, with a Program
    const slopes = await new Promise((done) => (own.onmessage = ({ data }) => done(data)));
    return [...found, (await Compiler.load()).version, slopes];
  };`;

const ownWorker = `
  import { Program } from "gyrus-web";
  (async () => {
    const model = await (await fetch(new URL("/edges.onnx", location.href))).arrayBuffer();
    const program = await Program.load(model);
    const image = { dtype: "f32", shape: [1, 1, 3, 3], data: new Uint8Array(Float32Array.of(0, 0, 0, 0, 1, 0, 0, 0, 0).buffer) };
    const { outputs } = await program.run({ image });
    program.destroy();
    postMessage(Array.from(new Float32Array(outputs.slope.data.buffer), (v) => v.toFixed(3)).join());
  })();`;

const emptyPage = '<!doctype html><link rel="icon" href="data:,"><script type="module" src="main.js"></script>';

/** The sources of a site, in a folder of this name. */
function site(name: string, main: string): string {
  const at = join(folder, name);
  mkdirSync(at);
  copyFileSync(join(folder, "node_modules/gyrus-web/example/program/edges.onnx"), join(folder, "edges.onnx"));
  writeFileSync(join(at, "index.html"), emptyPage);
  writeFileSync(join(at, "main.js"), main);
  writeFileSync(join(at, "own.js"), ownWorker);
  return at;
}

async function works(path: string): Promise<void> {
  const { page, said } = await openPage(context!, addressOf(server) + path);
  await page.waitForFunction(() => "run" in globalThis);
  const { version } = JSON.parse(readFileSync(join(web, "package.json"), "utf8")) as { version: string };
  assert.deepEqual(await page.evaluate(() => (globalThis as unknown as { run(): Promise<unknown[]> }).run()),
    ["32,32,32", "32,32,32", 6, version, "0.354,0.500,0.354,0.500,0.000,0.500,0.354,0.500,0.354"]);
  assert.deepEqual(said, []);
  await page.close();
}

test("a production build of Vite finds worker and module", { skip: skip || missing }, async () => {
  const imports = 'import SegmentWorker from "gyrus-web/worker?worker";\nimport url from "gyrus-web/gyrus.wasm?url";';
  const at = site("vite", script(imports, "new SegmentWorker()"));
  writeFileSync(join(at, "vite.config.mjs"), 'export default { base: "./", logLevel: "warn", worker: { format: "es" } };');
  const said = inFolder(process.execPath, join(web, "node_modules/vite/bin/vite.js"), "build", "vite");
  assert.doesNotMatch(said, /doesn't exist at build time/);
  await works("vite/dist/");
});

test("a production build of webpack finds worker and module", { skip: skip || missing }, async () => {
  const worker = 'new Worker(new URL("gyrus-web/worker", import.meta.url), { type: "module" })';
  const at = site("webpack", script('const url = new URL("gyrus-web/gyrus.wasm", import.meta.url);', worker));
  // As webpack's command does, which is a package of its own.
  writeFileSync(join(at, "build.cjs"), `
    const webpack = require(${JSON.stringify(join(web, "node_modules/webpack"))});
    const output = { filename: "main.js", path: __dirname + "/dist" };
    webpack({ mode: "production", context: __dirname, entry: "./main.js", output, performance: { hints: false } }, (error, stats) => {
      if (error) throw error;
      console.log(stats.toString("errors-warnings"));
      process.exitCode = Number(stats.hasErrors());
    });`);
  assert.doesNotMatch(inFolder(process.execPath, "webpack/build.cjs"), /ERROR|WARNING/);
  writeFileSync(join(at, "dist/index.html"), emptyPage);
  await works("webpack/dist/");
});
