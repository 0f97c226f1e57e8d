// Parts of the page that need no browser: the rule for the precision, the files of a model behind an address.

import assert from "node:assert/strict";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { fetchModel } from "../../web/src/model-files.js";
import { choosePrecision, type Host } from "../../web/src/precision.js";
import type { DeviceReport } from "../../web/src/types.js";

const GiB = 2 ** 30;
const MiB = 2 ** 20;
const desktop: Host = { mobile: false, memoryGiB: 8 };

function device(binding: number, buffer: number): DeviceReport {
  const limits = { maxStorageBufferBindingSize: binding, maxBufferSize: buffer };
  return { available: true, why: "", adapter: "a", software: false, features: [], limits };
}

test("f32 where it is likely to fit, else f16, and the reason is said", () => {
  const large = device(2 * GiB, 4 * GiB);
  const small = device(128 * MiB, 256 * MiB);
  assert.equal(choosePrecision(2.2 * GiB, large, desktop).precision, "f32");
  assert.equal(choosePrecision(3.5 * GiB, large, desktop).precision, "f16");
  assert.equal(choosePrecision(1.2 * GiB, small, desktop).precision, "f32");
  assert.match(choosePrecision(2.2 * GiB, small, desktop).why, /2\.20 GiB.*1\.5 GiB.*smallest limits/);
  assert.match(choosePrecision(2.2 * GiB, large, { mobile: true, memoryGiB: 8 }).why, /phone/);
  assert.match(choosePrecision(2.2 * GiB, large, { mobile: false, memoryGiB: 4 }).why, /about 4 GiB of memory/);
  assert.equal(choosePrecision(1.9 * GiB, large, { mobile: false, memoryGiB: 4 }).precision, "f32");
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
