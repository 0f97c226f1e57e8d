// node web/test.mjs [PATTERN…] [--node-option…]: bundles tests/web/*.test.ts into build/web-tests and runs those whose
// name contains a pattern under node --test, on the software driver unless VK_ICD_FILENAMES says otherwise.
// GYRUS_TEST_FULL=1 runs what takes minutes as well.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const web = dirname(fileURLToPath(import.meta.url));
const tests = join(web, "../tests/web");
const out = join(web, "../build/web-tests");
const softwareDriver = "/usr/share/vulkan/icd.d/lvp_icd.json";

const nodeOptions = process.argv.slice(2).filter((arg) => arg.startsWith("--"));
const patterns = process.argv.slice(2).filter((arg) => !arg.startsWith("--"));
const names = readdirSync(tests).filter((name) => name.endsWith(".test.ts"));
const chosen = names.filter((name) => patterns.length === 0 || patterns.some((pattern) => name.includes(pattern)));
if (chosen.length === 0) {
  console.error(`web/test.mjs: no test is named like ${patterns.join(", ")}; there are ${names.join(", ")}`);
  process.exit(2);
}

mkdirSync(out, { recursive: true });
// Native packages stay outside of the bundles and are looked up beside them.
rmSync(join(out, "node_modules"), { force: true });
symlinkSync(join(web, "node_modules"), join(out, "node_modules"));
await build({
  entryPoints: chosen.map((name) => join(tests, name)),
  outdir: out,
  outExtension: { ".js": ".mjs" },
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  packages: "external",
  sourcemap: "inline",
  logLevel: "warning",
});

const env = { XDG_RUNTIME_DIR: "/tmp", ...process.env };
if (!env.VK_ICD_FILENAMES && existsSync(softwareDriver)) env.VK_ICD_FILENAMES = softwareDriver;
// Those of the page look at the time, one after another; compiling kernels keeps a software driver on one core, so of the
// others two run at a time, those with a browser apart.
const ofThePage = (name) => /^page-(nogpu|open|run|train|view)\./.test(name);
const withBrowser = (name) =>
  /^(export|models-chromium|ops-chromium|package|page-chat|serve|text-chromium|trainer-chromium)\./.test(name);
const parts = [
  [2, chosen.filter((name) => !ofThePage(name) && !withBrowser(name))],
  [2, chosen.filter(withBrowser)],
  [1, chosen.filter(ofThePage)],
];
let worst = 0;
for (const [concurrency, part] of parts) {
  if (part.length === 0) continue;
  const files = part.map((name) => join(out, name.replace(/\.ts$/, ".mjs")));
  const args = ["--enable-source-maps", "--test", `--test-concurrency=${concurrency}`, ...nodeOptions, ...files];
  worst = Math.max(worst, spawnSync(process.execPath, args, { stdio: "inherit", env }).status ?? 1);
}
process.exit(worst);
