// node bench/web/run.mjs [--only browser|node] [--rounds N] [--warm-ups N] [--networks conv,meshnet]
//                        [--contestants gyrus,tfjs,…] [--driver ICD] [--profile] [--out FILE]
// gyrus, onnxruntime-web and tfjs, the same networks at 64³ through WebGPU: in Chromium, and under Node with the Vulkan
// driver ICD (lavapipe's unless given). All take turns in one page or process. A time is that of a whole run, from the
// image in the host's memory to the logits in the host's memory. Prints tables, writes build/bench-web.json; with
// --profile also the times of gyrus's kernels. Measure on an idle machine: the load is printed beside the numbers.
// Needs 'make web' and 'npm ci' in bench/web.

import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { cpus, loadavg, tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

const here = dirname(fileURLToPath(import.meta.url));
const root = resolve(here, "../..");
const out = join(root, "build/bench-web");
const browser = process.env.GYRUS_BROWSER ?? "/usr/bin/chromium";
const wasm = join(root, "web/dist/wasm/gyrus.wasm");
const ortWasm = join(here, "node_modules/onnxruntime-web/dist/ort-wasm-simd-threaded.asyncify.wasm");
const fromWeb = createRequire(join(root, "web/package.json"));

const { values: args } = parseArgs({
  options: {
    only: { type: "string" },
    rounds: { type: "string", default: "7" },
    "warm-ups": { type: "string", default: "2" },
    networks: { type: "string" },
    profile: { type: "boolean" },
    contestants: { type: "string" },
    driver: { type: "string", default: "/usr/share/vulkan/icd.d/lvp_icd.json" },
    out: { type: "string", default: join(root, "build/bench-web.json") },
  },
});
const options = {
  rounds: Number(args.rounds),
  warmUps: Number(args["warm-ups"]),
  profile: args.profile,
  networks: args.networks?.split(","),
  only: args.contestants?.split(","),
};

function fail(message) {
  console.error(`bench/web: ${message}`);
  process.exit(1);
}

async function build() {
  const esbuild = fromWeb("esbuild");
  const common = { bundle: true, format: "esm", target: "es2022", logLevel: "error", outdir: out };
  mkdirSync(out, { recursive: true });
  await esbuild.build({ ...common, entryPoints: [join(here, "page.mjs")], external: ["module", "worker_threads"] });
  await esbuild.build({
    ...common,
    entryPoints: [join(here, "node.mjs")],
    platform: "node",
    mainFields: ["module", "main"],
    outExtension: { ".js": ".mjs" },
    banner: { js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);' },
  });
}

function serve() {
  const files = { "/page.js": [join(out, "page.js"), "text/javascript"], "/gyrus.wasm": [wasm, "application/wasm"],
    "/onnxruntime.wasm": [ortWasm, "application/wasm"] };
  const server = createServer((request, response) => {
    if (request.url === "/") {
      response.setHeader("Content-Type", "text/html");
      return response.end("<!doctype html><link rel=icon href=data:,><script type=module src=page.js></script>");
    }
    const [path, type] = files[request.url] ?? [];
    if (!path) return response.writeHead(404).end();
    response.setHeader("Content-Type", type);
    return response.end(readFileSync(path));
  });
  return new Promise((done) => server.listen(0, "127.0.0.1", () => done(server)));
}

async function inBrowser() {
  const { chromium } = await import(pathToFileURL(fromWeb.resolve("playwright-core")).href).then((m) => m.default ?? m);
  const server = await serve();
  const profile = mkdtempSync(join(tmpdir(), "gyrus-bench-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: browser,
    headless: true,
    args: [
      "--no-sandbox", "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--use-gl=angle",
      "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--disable-quic", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync",
    ],
  });
  try {
    const page = await context.newPage();
    page.on("console", (message) => console.error(`  ${message.text()}`));
    page.on("pageerror", (error) => console.error(`  ${error.message}`));
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    await page.waitForFunction(() => globalThis.bench);
    return { where: `Chromium ${context.browser()?.version() ?? ""}`.trim(),
      measured: await page.evaluate((options) => globalThis.bench(options), options) };
  } finally {
    await context.close();
    server.close();
    rmSync(profile, { recursive: true, force: true });
  }
}

function inNode() {
  const env = { XDG_RUNTIME_DIR: tmpdir(), ...process.env, VK_ICD_FILENAMES: args.driver };
  const bundle = join(out, "node.mjs");
  const command = [bundle, fromWeb.resolve("webgpu"), wasm, ortWasm, JSON.stringify(options)];
  const child = spawn(process.execPath, command, { env, stdio: ["ignore", "pipe", "inherit"] });
  let said = "";
  child.stdout.on("data", (data) => (said += data));
  return new Promise((done, failed) =>
    child.on("close", (code) => code === 0
      ? done({ where: `Node ${process.version}`, measured: JSON.parse(said.trim().split("\n").at(-1)) })
      : failed(new Error(`the process under Node ended with ${code}`))));
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

function print({ where, measured, load }) {
  const adapter = Object.values(measured).flatMap(({ results }) => Object.values(results))[0]?.adapter;
  console.log(`\n${where}, ${adapter}; ${cpus().length} cores, load ${load.map((x) => x.toFixed(2)).join(" → ")}\n`);
  console.log("| network, 64³ | | median | min to max | gyrus is faster by | first result | largest difference |");
  console.log("|---|---|---|---|---|---|---|");
  for (const { title, scale, results } of Object.values(measured)) {
    const base = results.gyrus?.ms ? median(results.gyrus.ms) : NaN;
    for (const [name, result] of Object.entries(results)) {
      if (result.error) {
        console.log(`| ${title} | ${name} | ${result.error} | | | | |`);
        continue;
      }
      const { ms, firstMs, maxDifference, labelsDiffering } = result;
      result.median = median(ms);
      result.ratio = result.median / base;
      const range = `${Math.min(...ms).toFixed(0)} to ${Math.max(...ms).toFixed(0)} ms`;
      const same = name === "gyrus" ? `(values to ${scale.toFixed(1)})`
        : `${maxDifference.toExponential(1)}, ${labelsDiffering} labels`;
      console.log(`| ${title} | ${name} | ${result.median.toFixed(1)} ms | ${range} | ` +
        `${name === "gyrus" ? "" : `${result.ratio.toFixed(1)}×`} | ${(firstMs / 1000).toFixed(1)} s | ${same} |`);
      for (const { label, kernel, ms } of result.steps ?? []) console.log(`  ${ms.toFixed(2)} ms ${kernel} (${label})`);
    }
  }
}

for (const [path, remedy] of [[wasm, "run 'make web'"], [ortWasm, "run 'npm ci' in bench/web"]])
  if (!existsSync(path)) fail(`${path} is missing: ${remedy}`);
await build();
const all = [];
for (const [name, run, needs] of [["node", inNode, args.driver], ["browser", inBrowser, browser]]) {
  if (args.only && args.only !== name) continue;
  if (!existsSync(needs)) fail(`${needs} is missing: install it, or leave it out by --only`);
  const before = loadavg()[0];
  const result = { ...(await run()), load: [before, loadavg()[0]] };
  print(result);
  all.push(result);
}
mkdirSync(dirname(args.out), { recursive: true });
const report = { date: new Date().toISOString(), cpu: cpus()[0].model, cores: cpus().length, runs: all };
writeFileSync(args.out, JSON.stringify(report, null, 1));
console.log(`\n${args.out}`);
