// Parts of the page that need no browser: the rule for the plan, what is said without a GPU, the files of a model
// behind an address.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { errorCodes, hintNames } from "../../web/src/errors.js";
import { fetchModel } from "../../web/src/model-files.js";
import { noGpuText, smallModel } from "../../web/page/cpu.js";
import type { BrowserFacts, CpuOffer, ModelInfo, DeviceReport, PlanLimits, Precision, SiteModel } from "../../web/src/types.js";
import { DEFAULT_LIMITS, folderOf, loadCompiler, tinyModel } from "./support/compiler.js";
import { sourceFolder } from "./support/native.js";

const GiB = 2 ** 30;
const limits = { ...DEFAULT_LIMITS, maxStorageBufferBindingSize: 2 * GiB, maxBufferSize: 4 * GiB };
const large: DeviceReport = { available: true, why: "", adapter: "a", software: false, features: [], limits };

test("memory is guessed from what a browser tells, and decides the plan", async () => {
  const compiler = await loadCompiler();
  const model = compiler.openModel(folderOf(tinyModel()), "tiny");
  const desktop = { mobile: false, memoryGiB: 8 };
  const likely = (on: PlanLimits, facts: BrowserFacts) => model.policy.likelyMemory(on, facts).bytes / GiB;
  assert.equal(likely(limits, desktop), 4);
  assert.equal(likely(limits, { ...desktop, memoryGiB: null }), 4);
  assert.equal(likely(limits, { ...desktop, memoryGiB: 2 }), 1);
  assert.equal(likely(limits, { ...desktop, mobile: true }), 1.5);
  assert.equal(likely(DEFAULT_LIMITS, desktop), 1.5);
  assert.match(model.policy.likelyMemory(DEFAULT_LIMITS, desktop).because, /smallest limits/);

  const decided = (bytes: number, precision: "auto" | Precision = "auto") => model.plan({
    spatial: [64, 64, 64], input: "f32", clamp: false, output: "logits", software: false, limits, precision,
    memory: { bytes, because: "a test says so" },
  });
  const { peakBytes, decision } = decided(GiB);
  assert.deepEqual([decision.precision, decision.small, decision.notice], ["f32", false, ""]);
  const half = decided(peakBytes - 1).decision;
  assert.deepEqual([half.precision, half.notice], ["f16", `storing feature maps in f16: ${half.why}`]);
  assert.match(half.why, /^the plan in f32 needs .*, and more than .* is not to be counted on: a test says so/);
  assert.equal(decided(peakBytes - 1, "f32").decision.precision, "f32", "what was asked for is not questioned");
  model.close();
});

test("codes and hints are those of C++", () => {
  const names = (kind: string) =>
    [...source.matchAll(new RegExp(`case ${kind}::\\w+: return "([^"]+)"`, "g"))].map(([, name]) => name);
  const source = readFileSync(join(sourceFolder, "src/core/error.cpp"), "utf8");
  assert.deepEqual(names("ErrorCode"), [...errorCodes]);
  assert.deepEqual(names("Hint"), [...hintNames]);
});

test("without a GPU the page says what the CPU can do, or names a model that it can", () => {
  const gone = { ...large, available: false, why: "this browser has no WebGPU" };
  const site = (name: string, bytes: number): SiteModel =>
    ({ name, title: "", licence: "", classes: 3, bytes, path: `${name}/`, files: [{ name: "model.bin", bytes }] });
  const models = [site("big", 600_000), site("small", 22_000)];
  const mostFlops = 400e9;
  const text = (offer: CpuOffer | null) => noGpuText(gone, offer, { title: "The big one" } as ModelInfo);
  const offer = { possible: true, flops: 186.2e9, mostFlops, seconds: 18.4, why: "" };
  assert.match(text(null), /^This browser has no WebGPU\. WebGPU is in Chrome .* small models run on the CPU\.$/);
  assert.match(text(offer), /The CPU can run this model: 186 GFLOP, about 18 s on this machine\.$/);
  assert.match(text({ ...offer, flops: 3.228e12, seconds: 300 }),
    /The big one needs 3,228 GFLOP for this scan, which takes the CPU about 5 min 0 s on this machine\.$/);
  assert.match(text({ ...offer, possible: false, flops: 0, why: "[big] …" }), /The big one needs a GPU: it has layers/);
  assert.equal(smallModel(models, 256 ** 3, mostFlops)?.name, "small");
  assert.equal(smallModel([site("big", 600_000)], 256 ** 3, mostFlops), null);
});

const files: Record<string, string> = {
  "/list/model.json": '{"layers": []}', "/list/model.pth": "weights", "/list/colormap.json": "{}",
  "/tfjs/model.json": '{"modelTopology": {}, "weightsManifest": [{"paths": ["group1-shard1of1.bin"]}]}',
  "/tfjs/group1-shard1of1.bin": "shard", "/odd%20name/net.json": '{"layers": []}', "/odd%20name/model.safetensors": "w",
  "/text/model.json": "<html>",
};
let server: Server;
let site = "";

before(async () => {
  server = createServer((request, response) => {
    const url = request.url ?? "";
    const page = url.startsWith("/spa/"); // answers everything, as hosts of single-page sites do
    const found = files[page ? url.slice(4) : url];
    if (page && found === undefined) response.writeHead(200, { "Content-Type": "text/html" }).end("<!doctype html>");
    else response.writeHead(found === undefined ? 404 : 200).end(found);
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  site = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

after(() => {
  server.closeAllConnections();
  server.close();
});

const names = (model: { files: { name: string }[] }) => model.files.map((file) => file.name).sort();

test("a folder's address brings what its model.json needs", async () => {
  const list = await fetchModel(`${site}/list/`);
  assert.equal(list.name, "list");
  assert.deepEqual(names(list), ["colormap.json", "model.json", "model.pth"]);
  assert.deepEqual(names(await fetchModel(`${site}/tfjs`)), ["group1-shard1of1.bin", "model.json"]);
  const odd = await fetchModel(`${site}/odd%20name/net.json`);
  assert.equal(odd.name, "odd name");
  assert.equal(odd.main, "net.json");
  assert.deepEqual(names(odd), ["model.safetensors", "net.json"]);
  assert.deepEqual(names(await fetchModel(`${site}/list/`, ["model.json"])), ["model.json"]);
});

test("pages that a host sends for what it does not have are no files of a model", async () => {
  assert.deepEqual(names(await fetchModel(`${site}/spa/list/`)), ["colormap.json", "model.json", "model.pth"]);
  await assert.rejects(fetchModel(`${site}/spa/none/`), /none\/model\.json\] is not there/);
});

test("an address without a model is refused in one line", async () => {
  await assert.rejects(fetchModel(`${site}/none/`), /none\/model\.json\] is not there: check the address/);
  await assert.rejects(fetchModel(`${site}/text/`), /model\.json\] is no JSON/);
  await assert.rejects(fetchModel("http://127.0.0.1:1/none/"), /cannot be reached/);
});
