// Parts of the page that need no browser: the rule for the plan, what is said without a GPU, the files of a model
// behind an address.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { niftiLabels, onCpu } from "../../web/src/create.js";
import { errorCodes, hintNames } from "../../web/src/errors.js";
import { fetchModel } from "../../web/src/model-files.js";
import { labelsText, timeText } from "../../web/page/cards.js";
import { noGpuText, smallModel } from "../../web/page/cpu.js";
import { bytesText } from "../../web/page/dom.js";
import { classify } from "../../web/page/files.js";
import { oddScan } from "../../web/page/scan-notes.js";
import type {
  BrowserFacts, CpuOffer, DeviceReport, Download, ModelInfo, PlanLimits, Precision, SiteModel,
} from "../../web/src/types.js";
import { DEFAULT_LIMITS, folderOf, isError, loadCompiler, tinyModel } from "./support/compiler.js";
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
  const text = (offer: CpuOffer | null) => noGpuText(gone, offer, { title: "The big one" } as ModelInfo);
  const offer = { possible: true, flops: 186.2e9, mostSeconds: 60, seconds: 18.4, why: "" };
  assert.match(text(null), /^This browser has no WebGPU\. WebGPU is in Chrome .* models run on the CPU\.$/);
  assert.match(text(offer), /The CPU can run this model: 186 GFLOP, about 18 s on this machine\.$/);
  assert.match(text({ ...offer, flops: 3.228e12, seconds: 300 }),
    /The big one needs 3,228 GFLOP for this scan, which takes the CPU about 5 min 0 s on this machine\.$/);
  assert.match(text({ ...offer, possible: false, flops: 0, why: "[big] needs 5.0 GiB; a page can have 4.0 GiB" }),
    /The big one needs a GPU: it needs 5\.0 GiB; a page can have 4\.0 GiB\.$/);
  assert.equal(smallModel(models, 256 ** 3)?.name, "small");
  assert.equal(smallModel([site("big", 600_000)], 256 ** 3), null);
});

test("createSegmenter takes the CPU where there is no GPU and it takes no minutes, or where it is asked to", async () => {
  const gone = { available: false, software: false, why: "this browser has no WebGPU" };
  const offer = { possible: true, flops: 1e9, mostSeconds: 60, seconds: 2, why: "" };
  const choice = (wish: "auto" | "gpu" | "cpu", device = gone, offered: CpuOffer = offer) =>
    onCpu(wish, device, async () => offered);
  assert.equal(await choice("auto"), true);
  assert.equal(await choice("auto", { available: true, software: false, why: "" }), false);
  const standsIn = { available: true, software: true, why: "" }; // a CPU for the GPU: its own kernels are faster
  assert.equal(await choice("auto", standsIn), true);
  assert.equal(await choice("auto", standsIn, { ...offer, seconds: 1000 }), true);
  assert.equal(await choice("auto", standsIn, { ...offer, possible: false }), false);
  assert.equal(await choice("gpu", standsIn), false);
  assert.equal(await choice("gpu"), false);
  assert.equal(await choice("cpu", gone, { ...offer, seconds: 1e5 }), true);
  await assert.rejects(choice("auto", gone, { ...offer, flops: 1e12, seconds: 453.2 }), isError("device",
    /^\[device\] this browser has no WebGPU; on the CPU it takes about 453 s, which device: "cpu" accepts$/));
  await assert.rejects(choice("auto", gone, { ...offer, possible: false, why: "[net] has a layer" }), /no WebGPU; \[net\] has a layer$/);
});

test("labels are read from NIfTI files of bytes and of more, wherever these lie", () => {
  const file = (type: number, bytes: number, offset: number) => {
    const whole = new Uint8Array(offset + 352 + 8 * bytes);
    const header = new DataView(whole.buffer, offset);
    [3, 2, 2, 2].forEach((n, i) => header.setInt16(40 + 2 * i, n, true));
    header.setInt16(70, type, true);
    header.setFloat32(108, 352, true);
    whole[offset + 352 + 7 * bytes] = 9;
    return whole.subarray(offset);
  };
  for (const [type, bytes] of [[2, 1], [4, 2], [512, 2], [8, 4]] as const)
    for (const offset of [0, 1]) assert.deepEqual([...niftiLabels(file(type, bytes, offset))], [0, 0, 0, 0, 0, 0, 0, 9]);
  assert.throws(() => niftiLabels(file(16, 4, 0)), isError("invalid-input", /no whole numbers/));
});

test("odd scans are told before the network runs", () => {
  const notes = (range: [number, number] | null, dims: [number, number, number] = [64, 64, 64]) => oddScan({ dims, range });
  assert.deepEqual(notes([0, 255]), []);
  assert.deepEqual(notes(null), ["no voxel of the scan has a finite value"]);
  assert.match(notes([-1000, 2000]).join(), /^values reach far below zero, as in CT/);
  assert.deepEqual(notes([-499, 2000]), []);
  assert.match(notes([7, 7]).join(), /^all voxels of the scan have the value 7/);
  assert.match(notes([0, 1], [64, 8, 64]).join(), /^the scan has only 64 × 8 × 64 voxels$/);
});

test("several scans at once, and none, are said as what they are", async () => {
  const file = (name: string) => new File(["voxels"], name);
  await assert.rejects(classify([file("a.nii"), file("b.nii.gz"), file("c.mgz")]),
    /^Error: These are 3 scans; this page takes one at a time\.$/);
  assert.deepEqual((await classify([file(".hidden.nii"), file("a.nii"), file("notes.txt")])).kind, "scan");
  await assert.rejects(classify([file("a.txt"), file("b.png")]), /None of these 2 files is a scan/);
  await assert.rejects(classify([new File([], "a.nii")]), /a\.nii is empty/);
});

test("sizes are written as the command line writes them", async () => {
  const compiler = await loadCompiler();
  const model = compiler.openModel(folderOf(tinyModel()), "tiny");
  for (const side of [16, 48, 100]) {
    const { peakBytes, decision } = model.plan({ spatial: [side, side, side], input: "f32", clamp: false, output: "labels",
      software: false, limits, precision: "auto", memory: { bytes: 4 * GiB, because: "" } });
    assert.ok(decision.why.endsWith(`needs ${bytesText(peakBytes)}`), `${decision.why} / ${bytesText(peakBytes)}`);
  }
  model.close();
  assert.deepEqual([1000, 2048, 12 * 2 ** 20, 300 * 2 ** 20].map(bytesText), ["1000 bytes", "2.00 KiB", "12.0 MiB", "300 MiB"]);
});

test("cards name a few labels and count the rest; times are round", () => {
  assert.equal(labelsText(["a", "b"]), "a, b");
  assert.equal(labelsText([..."abcdefg"]), "a, b, c, d, e, f, g");
  assert.equal(labelsText([..."abcdefghij"]), "a, b, c, d, e, f … and 4 more");
  assert.deepEqual([null, 12.4, 500].map(timeText), ["known after a first run here", "about 12 s here", "about 8 min here"]);
});

// ---- the palettes of style.css ----

type Palette = Record<string, string>;

function palettes(): [light: Palette, dark: Palette] {
  const css = readFileSync(join(sourceFolder, "web/page/style.css"), "utf8");
  const read = (block: string) =>
    Object.fromEntries([...block.matchAll(/--([\w-]+): (#[0-9a-f]{6})/g)].map(([, name, colour]) => [name!, colour!]));
  const [light, dark] = [...css.matchAll(/:root \{([^}]*)\}/g)].map(([, block]) => read(block!));
  return [light!, { ...light, ...dark }];
}

// WCAG 2.2, relative luminance and contrast ratio.
function ratio(a: string, b: string): number {
  const luminance = (colour: string) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i]!, 0);
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

test("text, borders of controls and the focus ring have the contrast that WCAG asks for", () => {
  for (const [scheme, palette] of palettes().entries()) {
    const check = (front: string, back: string, least: number) => {
      const got = ratio(palette[front]!, palette[back]!);
      assert.ok(got >= least, `${["light", "dark"][scheme]}: --${front} on --${back} has ${got.toFixed(2)}:1 of ${least}:1`);
    };
    for (const back of ["paper", "card"]) {
      for (const ink of ["ink", "soft"]) check(ink, back, 4.5);
      for (const line of ["edge", "focus", "accent"]) check(line, back, 3);
    }
    for (const [ink, back] of [["ink", "accent-soft"], ["soft", "accent-soft"], ["accent-ink", "accent"], ["warn", "warn-paper"],
      ["bad", "bad-paper"]]) check(ink!, back!, 4.5);
    for (const back of ["bar", "bar-card"]) for (const line of ["bar-edge", "bar-focus"]) check(line, back, 3);
  }
});

const files: Record<string, string> = {
  "/list/model.json": '{"layers": []}', "/list/model.pth": "weights", "/list/colormap.json": "{}",
  "/tfjs/model.json": '{"modelTopology": {}, "weightsManifest": [{"paths": ["group1-shard1of1.bin"]}]}',
  "/tfjs/group1-shard1of1.bin": "shard", "/odd%20name/net.json": '{"layers": []}', "/odd%20name/model.safetensors": "w",
  "/text/model.json": "<html>",
  ...Object.fromEntries([["list", "layers"], ["tfjs", "modelTopology"]].flatMap(([kind, key]) =>
    [["model.json", `{"${key}": [1]}`], ["model.pth", "w"], ["model.bin", "w"]]
      .map(([file, text]) => [`/both-${kind}/${file}`, text!]))),
  "/slow/model.json": '{"layers": []}', "/unsized/model.json": '{"layers": []}',
};
let server: Server;
let site = "";

before(async () => {
  server = createServer((request, response) => {
    const url = request.url ?? "";
    if (url === "/unsized/model.pth") return response.writeHead(200).write("half"), void response.end();
    if (url === "/slow/model.pth") {
      response.writeHead(200, { "Content-Length": 8 }).write("half");
      return void setTimeout(() => response.end("half"), 250);
    }
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
  assert.deepEqual(names(await fetchModel(`${site}/list/`, { files: ["model.json"] })), ["model.json"]);
});

test("pages that a host sends for what it does not have are no files of a model", async () => {
  assert.deepEqual(names(await fetchModel(`${site}/spa/list/`)), ["colormap.json", "model.json", "model.pth"]);
  await assert.rejects(fetchModel(`${site}/spa/none/`), /none\/model\.json\] is not there/);
});

test("of weights in two formats those are fetched that the importer reads", async () => {
  const files = (kind: string) => fetchModel(`${site}/both-${kind}/`, { files: ["model.bin", "model.json", "model.pth"] });
  assert.deepEqual(names(await files("list")), ["model.json", "model.pth"]);
  assert.deepEqual(names(await files("tfjs")), ["model.bin", "model.json"]);
});

test("the bytes of a model's weights are counted as they come, and the download can be stopped", async () => {
  const seen: Download[] = [];
  const stop = new AbortController();
  const fetching = (folder: string) =>
    fetchModel(`${site}/${folder}/`, { signal: stop.signal, onDownload: (download) => seen.push(download) });
  await fetching("slow");
  assert.deepEqual([seen.at(0), seen.at(-1)], [{ loaded: 4, total: 8 }, { loaded: 8, total: 8 }]);
  seen.length = 0;
  await fetching("unsized");
  assert.deepEqual(seen, [{ loaded: 4, total: null }, { loaded: 4, total: 4 }]);
  setTimeout(() => stop.abort(), 50);
  await assert.rejects(fetching("slow"), isError("cancelled", /cancelled while it was read/));
});

test("without a network a model that was never opened is said to be missing, not refused by its host", async () => {
  const before = Object.getOwnPropertyDescriptor(globalThis, "navigator");
  Object.defineProperty(globalThis, "navigator", { value: { onLine: false }, configurable: true });
  try {
    await assert.rejects(fetchModel("http://127.0.0.1:1/none/"),
      /none\/model\.json\] is not here: there is no network, and the model was not opened while there was$/);
  } finally {
    if (before) Object.defineProperty(globalThis, "navigator", before);
    else delete (globalThis as { navigator?: unknown }).navigator;
  }
});

test("an address without a model is refused in one line", async () => {
  await assert.rejects(fetchModel(`${site}/none/`), /none\/model\.json\] is not there: check the address/);
  await assert.rejects(fetchModel(`${site}/text/`), /model\.json\] is no JSON/);
  await assert.rejects(fetchModel("http://127.0.0.1:1/none/"), /cannot be reached/);
});
