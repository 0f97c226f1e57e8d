// Parts of the page that need no browser: the rule for the plan, what is said without a GPU, the files of a model
// behind an address.

import assert from "node:assert/strict";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { fetchModel } from "../../web/src/model-files.js";
import { choosePlan, type Host } from "../../web/src/precision.js";
import { noGpuText } from "../../web/page/cpu.js";
import type { CpuOffer, DeviceReport, SiteModel } from "../../web/src/types.js";

const GiB = 2 ** 30;
const MiB = 2 ** 20;
const desktop: Host = { mobile: false, memoryGiB: 8 };

function device(binding: number, buffer: number): DeviceReport {
  const limits = { maxStorageBufferBindingSize: binding, maxBufferSize: buffer };
  return { available: true, why: "", adapter: "a", software: false, features: [], limits };
}

const large = device(2 * GiB, 4 * GiB);
const tight = device(128 * MiB, 256 * MiB);
const never = () => assert.fail("the smaller plan is not asked for");

test("f32 where it is likely to fit, and the smaller plan is not made then", () => {
  assert.deepEqual(choosePlan(3.1 * GiB, never, large, desktop), {
    precision: "f32", small: false, notice: "",
    why: "the plan in f32 needs 3.10 GiB, and 4.0 GiB are likely to be there",
  });
  for (const [bytes, on, around] of [
    [4 * GiB, large, desktop], [1.2 * GiB, tight, desktop], [1.9 * GiB, large, { mobile: false, memoryGiB: 4 }],
    [1.5 * GiB, large, { mobile: true, memoryGiB: 8 }], [4 * GiB, large, { mobile: false, memoryGiB: null }],
  ] as const)
    assert.equal(choosePlan(bytes, never, on, around).precision, "f32");
});

test("f32 for the default limits where that fits and the device's own do not", () => {
  const choice = choosePlan(4.5 * GiB, () => 2.3 * GiB, large, desktop);
  assert.deepEqual([choice.precision, choice.small], ["f32", true]);
  assert.match(choice.why, /needs 4\.50 GiB \(2\.30 GiB for WebGPU's default limits, a little slower\)/);
  assert.match(choice.notice, /^Planned for WebGPU's default limits: .*more than 4\.0 GiB is not to be counted on/);
});

test("else f16, and the reason is said", () => {
  for (const small of [4.1 * GiB, null]) {
    const choice = choosePlan(4.5 * GiB, () => small, large, desktop);
    assert.deepEqual([choice.precision, choice.small], ["f16", false]);
    assert.match(choice.notice, /^Storing feature maps in f16: the plan in f32 needs 4\.50 GiB/);
  }
  const why = (on: DeviceReport, around: Host) => choosePlan(2.2 * GiB, () => 1.9 * GiB, on, around).why;
  assert.match(why(tight, desktop), /2\.20 GiB.*1\.5 GiB.*smallest limits/);
  assert.match(why(large, { mobile: true, memoryGiB: 8 }), /phone/);
  assert.match(why(large, { mobile: false, memoryGiB: 2 }), /about 2 GiB of memory/);
  const none = choosePlan(null, never, large, desktop);
  assert.deepEqual([none.precision, none.why], ["f16", "no plan in f32 keeps this GPU's limits"]);
});

test("without a GPU the page says what the CPU can do, or names a model that it can", () => {
  const gone = { ...large, available: false, why: "this browser has no WebGPU" };
  const site = (name: string, bytes: number): SiteModel =>
    ({ name, title: "", licence: "", classes: 3, bytes, path: `${name}/`, files: [{ name: "model.bin", bytes }] });
  const models = [site("big", 600_000), site("small", 22_000)];
  const mostFlops = 400e9;
  const text = (offer: CpuOffer | null, list = models) => noGpuText(gone, offer, list, 256 ** 3);
  assert.match(text(null), /^This browser has no WebGPU\. WebGPU is in Chrome .* small models run on the CPU\.$/);
  assert.match(text({ possible: true, flops: 186.2e9, mostFlops, seconds: 18.4, why: "" }),
    /The CPU can run this model: 186 GFLOP, about 18 s on this machine\.$/);
  const refused: CpuOffer = { possible: false, flops: 3.2e12, mostFlops, seconds: 300, why: "[big] needs 3,228 GFLOP" };
  assert.match(text(refused), /\[big\] needs 3,228 GFLOP, about 5 min 0 s on this machine; choose .*instance small/);
  assert.match(text(refused, [site("big", 600_000)]), /; choose a smaller model, or a browser with WebGPU/);
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
    const found = files[request.url ?? ""];
    response.writeHead(found === undefined ? 404 : 200).end(found);
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

test("an address without a model is refused in one line", async () => {
  await assert.rejects(fetchModel(`${site}/none/`), /none\/model\.json\] is not there: check the address/);
  await assert.rejects(fetchModel(`${site}/text/`), /model\.json\] is no JSON/);
  await assert.rejects(fetchModel("http://127.0.0.1:1/none/"), /cannot be reached/);
});
