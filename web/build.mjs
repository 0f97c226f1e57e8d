// node web/build.mjs [--serve [PORT]] [--models DIR]…: the page, in web/dist/page. Needs web/dist/wasm (see make web).
// --models copies model folders into the site and lists them; --serve rebuilds on change and serves on 127.0.0.1.

import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import * as esbuild from "esbuild";

const web = dirname(fileURLToPath(import.meta.url));
const out = join(web, "dist/page");
const budget = 1.5e6; // bytes, compressed: what a first visit loads before there is a scan
// What waits: the viewer, the DICOM converter, models, the example, the kernels for the processor; and the pages that train
// and chat, which stand alone.
const waits = /^(chunks\/niivue|chunks\/dicom|dcm2niix\/|models\/|demo\/|train\.|gyrus-cpu\.|gyrus-train\.|chat\/)/;
const chatBudget = 2e6; // bytes of the chat page as they are, without a model
const converter = ["index.jpeg.js", "worker.jpeg.js", "dcm2niix.jpeg.js", "dcm2niix.jpeg.wasm"];

const args = process.argv.slice(2);
const serve = args.includes("--serve");
const port = Number(args[args.indexOf("--serve") + 1]) || 8090;
const modelFolders = args.flatMap((arg, i) => (args[i - 1] === "--models" ? [arg] : []));

const common = {
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: !serve,
  sourcemap: serve ? "inline" : false,
  legalComments: "none",
  logLevel: "warning",
  outdir: out,
};

const page = {
  ...common,
  entryPoints: { main: join(web, "page/main.ts") },
  splitting: true,
  chunkNames: "chunks/[name]-[hash]",
  alias: { zarrita: join(web, "page/no-zarr.ts") },
  logOverride: { "import-is-undefined": "silent" },
};
const train = { ...common, entryPoints: { train: join(web, "page/train.ts") } };
const chat = { ...common, outdir: join(out, "chat"), entryPoints: { chat: join(web, "page/chat/chat.ts") } };
const worker = { ...common, entryPoints: { worker: join(web, "src/worker.ts") } };

function copyStyle(from, to) {
  const css = readFileSync(join(web, "page", from), "utf8");
  writeFileSync(join(out, to), esbuild.transformSync(css, { loader: "css", minify: !serve }).code);
}

function copyStatic() {
  for (const name of ["index.html", "train.html", "icon.svg", "app.webmanifest"])
    cpSync(join(web, "page", name), join(out, name));
  for (const name of ["style.css", "train.css"]) copyStyle(name, name);
  for (const name of ["gyrus.wasm", "gyrus-cpu.wasm", "gyrus-train.wasm"]) cpSync(join(web, "dist/wasm", name), join(out, name));
  // A folder of its own, so that it is kept for use without a network by itself.
  mkdirSync(join(out, "chat"), { recursive: true });
  cpSync(join(web, "page/chat/index.html"), join(out, "chat/index.html"));
  cpSync(join(web, "page/icon.svg"), join(out, "chat/icon.svg"));
  copyStyle("style.css", "chat/style.css");
  copyStyle("chat/chat.css", "chat/chat.css");
  cpSync(join(web, "dist/wasm/gyrus-text.wasm"), join(out, "chat/gyrus-text.wasm"));
  mkdirSync(join(out, "dcm2niix"), { recursive: true });
  const from = join(web, "node_modules/@niivue/dcm2niix/dist");
  for (const name of converter) cpSync(join(from, name), join(out, "dcm2niix", name));
}

function filesBelow(folder) {
  return readdirSync(folder, { recursive: true }).map(String)
    .filter((name) => statSync(join(folder, name)).isFile()).map((name) => name.replaceAll("\\", "/")).sort();
}

// Last, since they name all the others. Each page's own keeps what lies in its folder.
async function buildServiceWorker(folder, prefix, leftOut) {
  const files = filesBelow(folder).filter((name) => !leftOut.test(name));
  const hash = createHash("sha256");
  for (const name of files) hash.update(name).update(readFileSync(join(folder, name)));
  const text = { FILES: ["./", ...files], VERSION: hash.digest("hex").slice(0, 16), PREFIX: prefix };
  await esbuild.build({
    ...common,
    format: "iife",
    outdir: folder,
    entryPoints: { sw: join(web, "page/sw.ts") },
    define: Object.fromEntries(Object.entries(text).map(([name, value]) => [name, JSON.stringify(value)])),
  });
}

function sizes() {
  const rows = filesBelow(out).map((name) => {
    const bytes = readFileSync(join(out, name));
    return { name, bytes: bytes.length, packed: gzipSync(bytes).length, first: !waits.test(name) };
  });
  const text = (bytes) => `${(bytes / 1000).toFixed(1)} kB`.padStart(12);
  for (const { name, bytes, packed, first } of rows)
    console.log(`${name.padEnd(44)}${text(bytes)}${text(packed)}${first ? "" : "  waits"}`);
  const first = rows.filter((row) => row.first).reduce((sum, row) => sum + row.packed, 0);
  console.log(`${"first visit, compressed".padEnd(56)}${text(first)} of ${text(budget).trim()}`);
  const talking = rows.filter((row) => row.name.startsWith("chat/")).reduce((sum, row) => sum + row.bytes, 0);
  console.log(`${"the chat page".padEnd(44)}${text(talking)} of ${text(chatBudget).trim()}`);
  if (first <= budget && talking <= chatBudget) return;
  console.error("web/build.mjs: a page loads more than its budget; see the table above");
  process.exit(1);
}

async function buildAll() {
  const modules = ["gyrus", "gyrus-cpu", "gyrus-train", "gyrus-text"].map((name) => `dist/wasm/${name}.wasm`);
  for (const name of [...modules, "node_modules"])
    if (!existsSync(join(web, name))) throw new Error(`web/${name} is missing: run 'make web'`);
  if (!serve) rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  await esbuild.build(page);
  await esbuild.build(train);
  await esbuild.build(chat);
  await esbuild.build(worker);
  copyStatic();
  const { addDemo, addModels } = await import("./build-models.mjs");
  if (modelFolders.length > 0) await addModels(join(out, "models"), modelFolders);
  addDemo(join(out, "demo"));
  await buildServiceWorker(join(out, "chat"), "gyrus-chat-", /^sw\.js$/);
  await buildServiceWorker(out, "gyrus-page-", /^(models\/|demo\/index\.json|sw\.js|train\.|gyrus-train\.|chat\/)/);
}

try {
  await buildAll();
} catch (error) {
  console.error(`web/build.mjs: ${error.message}`);
  process.exit(1);
}
if (serve) {
  const context = await esbuild.context(page);
  const workerContext = await esbuild.context(worker);
  await Promise.all([context.watch(), workerContext.watch()]);
  const { hosts, port: got } = await context.serve({ servedir: out, host: "127.0.0.1", port });
  console.log(`http://${hosts?.[0] ?? "127.0.0.1"}:${got}/ (${relative(process.cwd(), out)}, rebuilt on change)`);
} else {
  sizes();
}
