// node web/package.mjs: what others use of web/, into web/dist.
//   gyrus.js, gyrus.d.ts   the executor alone as one ES module, and its types: what `gyrus export` puts beside a plan
//   example/               the page that it puts beside them
//   package/               the npm package's modules; `npm pack` in web/ makes the package of them and README.md

import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const web = dirname(fileURLToPath(import.meta.url));
const dist = join(web, "dist");
const common = { bundle: true, format: "esm", target: "es2022", legalComments: "none", logLevel: "warning" };
const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");

function run(what, args) {
  const { status } = spawnSync(process.execPath, args, { stdio: "inherit", cwd: web });
  if (status !== 0) throw new Error(`${what} failed`);
}

/** Emits a .d.ts for each of the entries and what they import. */
function emitTypes(entries, folder) {
  const options = ["--declaration", "--emitDeclarationOnly", "--noEmit", "false", "--outDir", folder, "--rootDir", "src"];
  const shared = ["--target", "ES2022", "--module", "ES2022", "--moduleResolution", "bundler", "--strict", "--skipLibCheck",
    "--verbatimModuleSyntax", "--lib", "ES2022,DOM,DOM.Iterable,WebWorker", "--types", "@webgpu/types,node"];
  run("tsc", [tsc, ...entries.map((name) => `src/${name}.ts`), ...options, ...shared]);
}

/** One file from an entry's declarations and all that they import; every name is declared once, values that the module
 *  does not export are not exported here either. */
function joinedTypes(folder, entry) {
  const start = readFileSync(join(folder, `${entry}.d.ts`), "utf8");
  const exported = new Set([...start.matchAll(/^export \{([^}]*)\}/gm)].flatMap(([, names]) => names.split(/\W+/)));
  for (const [, name] of start.matchAll(/^export declare \w+ (\w+)/gm)) exported.add(name);
  const done = new Set();
  const parts = [];
  const visit = (path) => {
    if (done.has(path)) return;
    done.add(path);
    const text = readFileSync(path, "utf8");
    for (const [, from] of text.matchAll(/from "(\.[^"]*)\.js"/g)) visit(resolve(dirname(path), `${from}.d.ts`));
    parts.push(text.replace(/^(import|export) [^;]*?from "[^"]*";\n/gm, "").replace(/^export \{\};\n/gm, ""));
  };
  visit(join(folder, `${entry}.d.ts`));
  const declarations = parts.join("\n").replace(/^export (declare (?:const|function|class) (\w+))/gm, (whole, inner, name) =>
    exported.has(name) ? whole : inner);
  return `/// <reference types="@webgpu/types" />\n${declarations}export {};\n`;
}

async function buildExported() {
  await build({
    ...common,
    entryPoints: [join(web, "src/executor-entry.ts")],
    outfile: join(dist, "gyrus.js"),
    banner: { js: "// gyrus's plan executor. MIT licence." },
  });
  const types = mkdtempSync(join(tmpdir(), "gyrus-types-"));
  try {
    emitTypes(["executor-entry"], types);
    writeFileSync(join(dist, "gyrus.d.ts"), joinedTypes(types, "executor-entry"));
  } finally {
    rmSync(types, { recursive: true });
  }
  run("checking gyrus.d.ts", [tsc, "--noEmit", "--strict", "--target", "ES2022", "--lib", "ES2022,DOM", "--types",
    "@webgpu/types", "dist/gyrus.d.ts"]);
  rmSync(join(dist, "example"), { recursive: true, force: true });
  cpSync(join(web, "example"), join(dist, "example"), { recursive: true });
}

// The modules lie beside the scripts that load them, named by `new URL("./gyrus.wasm", import.meta.url)`, which bundlers
// understand.
async function buildPackage() {
  const modules = ["gyrus.wasm", "gyrus-cpu.wasm", "gyrus-train.wasm", "gyrus-text.wasm"];
  for (const name of modules)
    if (!existsSync(join(dist, "wasm", name))) throw new Error(`web/dist/wasm/${name} is missing: run 'make web'`);
  const out = join(dist, "package");
  rmSync(out, { recursive: true, force: true });
  const entryPoints = { index: join(web, "src/index.ts"), executor: join(web, "src/executor-entry.ts") };
  await build({ ...common, entryPoints, outdir: out, splitting: true });
  await build({ ...common, entryPoints: { worker: join(web, "src/worker.ts") }, outdir: out });
  for (const name of modules) cpSync(join(dist, "wasm", name), join(out, name));
  emitTypes(["index"], join(out, "types"));
  writeFileSync(join(out, "types/worker.d.ts"), "export {};\n");
  // What a package must hold at its root; `git` does not.
  cpSync(join(web, "../LICENSE"), join(web, "LICENSE"));
  const api = readFileSync(join(web, "../docs/web.md"), "utf8").replace(/\]\((?!#|https:)([^)]*)\)/g, "]");
  writeFileSync(join(web, "API.md"), api);
}

try {
  mkdirSync(dist, { recursive: true });
  await buildExported();
  await buildPackage();
} catch (error) {
  console.error(`web/package.mjs: ${error.message}`);
  process.exit(1);
}
