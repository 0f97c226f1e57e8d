// Models and the example for the site.

import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import * as esbuild from "esbuild";

const web = dirname(fileURLToPath(import.meta.url));
const modelFile = /^[^.]*(\.(json|pth|pt|ckpt|bin|safetensors))?$/;

// The compiler itself, bundled for Node: it knows titles and classes.
async function loadCompiler() {
  const file = join(web, "dist/compiler.mjs");
  await esbuild.build({
    entryPoints: [join(web, "src/compiler.ts")], bundle: true, format: "esm", platform: "node", outfile: file,
    logLevel: "warning",
  });
  const { Compiler } = await import(pathToFileURL(file).href);
  return Compiler.load({ wasm: readFileSync(join(web, "dist/wasm/gyrus.wasm")) });
}

// Copies the model folders, or the model folders below them, and lists them in index.json.
export async function addModels(out, folders) {
  const compiler = await loadCompiler();
  const models = [];
  const isModel = (folder) => existsSync(join(folder, "model.json"));
  const found = folders.flatMap((folder) => isModel(folder) ? [folder]
    : readdirSync(folder).map((name) => join(folder, name)).filter((below) => isModel(below)));
  for (const folder of found.sort()) {
    const name = basename(folder);
    const names = readdirSync(folder).filter((file) => modelFile.test(file) && statSync(join(folder, file)).isFile());
    const files = names.map((file) => ({ name: file, bytes: readFileSync(join(folder, file)) }));
    const model = compiler.openModel(files, name);
    const { title, description, citation, licence, classes, parameters } = model.info;
    const labels = model.info.labels.filter(({ value }) => value !== 0).map((entry) => entry.name);
    model.close();
    mkdirSync(join(out, name), { recursive: true });
    for (const file of names) cpSync(join(folder, file), join(out, name, file));
    const sizes = files.map((file) => ({ name: file.name, bytes: file.bytes.length }));
    const bytes = sizes.reduce((sum, file) => sum + file.bytes, 0);
    models.push({ name, title, description, licence, citation, classes, labels, parameters, bytes, path: `${name}/`, files: sizes });
  }
  writeFileSync(join(out, "index.json"), JSON.stringify({ models }, null, 2) + "\n");
}

// A small synthetic head and a network for it, where the command line is built; else the page has none.
export function addDemo(out) {
  const program = process.env.GYRUS_PROGRAM ?? join(web, "../build/release/bin/gyrus");
  mkdirSync(out, { recursive: true });
  const made = existsSync(program) &&
    spawnSync(program, ["demo", "--size", "64", "--files", "--out", out], { stdio: "ignore" }).status === 0;
  const files = made ? readdirSync(out).filter((name) => modelFile.test(name) && name !== "index.json") : [];
  writeFileSync(join(out, "index.json"), JSON.stringify({ scan: made ? "head.nii.gz" : null, files }) + "\n");
  if (!made) console.error("web/build.mjs: no example on the page: build/release/bin/gyrus makes it, and is not there");
}
