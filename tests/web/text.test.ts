// Language models under Node: stories byte for byte under small limits too, logits against float64, tokens, memory to the
// byte, streaming from a host that breaks off, and what goes wrong.

import assert from "node:assert/strict";
import { existsSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { openSource, urlSource } from "../../web/src/byte-source.js";
import type { OpenDevice } from "../../web/src/device.js";
import { planTextModel, TextGenerator } from "../../web/src/text-generator.js";
import { TextCompiler } from "../../web/src/text-model.js";
import type { PlanLimits } from "../../web/src/types.js";
import { DEFAULT_LIMITS, isError, ROOT, shared } from "./support/compiler.js";
import { openDevice } from "./support/gpu.js";
import { writeStory } from "./support/stories.js";

const folder = shared("llm/stories260K");
const skip = folder ? false : "the public test data is not here; set GYRUS_TEST_DATA";
const modulePath = join(ROOT, "web/dist/wasm/gyrus-text.wasm");
const stories = (format: string) => new Uint8Array(readFileSync(join(folder!, `stories260K-${format}.gguf`)));
const expected = () => readFileSync(join(folder!, "expected.txt"), "utf8");
// As core/limits.h has them.
const TINY_LIMITS: PlanLimits = {
  ...DEFAULT_LIMITS, maxBufferSize: 2 << 20, maxStorageBufferBindingSize: 1 << 20, maxUniformBufferBindingSize: 16384,
  maxStorageBuffersPerShaderStage: 4, maxComputeWorkgroupsPerDimension: 32, maxComputeInvocationsPerWorkgroup: 64,
  maxComputeWorkgroupSizeX: 64, maxComputeWorkgroupSizeY: 64, maxComputeWorkgroupStorageSize: 4096,
};
let compiler: TextCompiler;
let open: OpenDevice;
before(async () => {
  compiler = await TextCompiler.load({ wasm: readFileSync(modulePath) });
  open = await openDevice();
});
after(() => open.device.destroy());

test("everything for text is less than 2 MB", () => {
  const script = join(ROOT, "web/dist/package/index.js");
  const bytes = statSync(modulePath).size + (existsSync(script) ? statSync(script).size : 0);
  assert.ok(bytes < 2e6, `${bytes} bytes`);
});

for (const [format, name, limits] of [["f32", "default", DEFAULT_LIMITS], ["f32", "tiny", TINY_LIMITS],
  ["f16", "default", DEFAULT_LIMITS]] as const)
  test(`a story from ${format} under ${name} limits, byte for byte`, { skip }, async (t) => {
    const made = await writeStory(stories(format), open, { compiler, limits });
    assert.equal(made.text, expected());
    assert.equal(made.finish, "length");
    assert.deepEqual(made.created, {}, "nothing is made after the first token");
    assert.ok(made.up <= 64 && made.up > 40 && made.down <= 64 && made.down > 16, `${made.up} up, ${made.down} down`);
    t.diagnostic(`${made.up} bytes up and ${made.down} down a token`);
  });

test("logits are those of float64, and memory that of the plan", { skip }, async () => {
  const reference = JSON.parse(readFileSync(join(folder!, "reference.json"), "utf8"));
  const options = { compiler, context: 256, chunk: 32 } as const;
  const generator = await TextGenerator.load(stories("q4_0"), { ...options, device: open });
  const tokens: number[] = reference.q4_0.teacher_forced_tokens;
  const { data, shape } = await generator.logits(tokens);
  assert.deepEqual(shape, [64, 512]);
  const want = new Float32Array(new Uint8Array(readFileSync(join(folder!, "stories260K-q4_0.logits.f32"))).buffer);
  const off = new Float32Array(data.buffer).reduce((most, value, i) => Math.max(most, Math.abs(value - want[i]!)), 0);
  assert.ok(off <= 2e-3, `${off}`);
  const embedded = await generator.embed(tokens);
  assert.ok(Math.abs(Math.hypot(...embedded) - 1) < 1e-5);
  const planned = await planTextModel(stories("q4_0"), open.limits, { ...options, software: true });
  const fresh = await TextGenerator.load(stories("q4_0"), { ...options, device: open });
  assert.deepEqual(fresh.memory, planned.memory);
  assert.equal(planned.info.architecture, "llama");
  fresh.destroy();
  generator.destroy();
});

test("tokens, stops, batches, scores and a full context", { skip }, async () => {
  const generator = await TextGenerator.load(new Blob([stories("f32")]), {
    compiler, device: open, context: 48, chunk: 32, sequences: 2,
  });
  const prompt = "Once upon a time, there was";
  assert.equal(generator.textOf(generator.tokenize(prompt)), prompt);
  const alone = await generator.generate(prompt, { tokens: 20 });
  const [first, second] = await generator.generateBatch([prompt, "The dog"], [{ tokens: 20 }, { tokens: 12 }]);
  assert.equal(first!.text, alone.text);
  assert.equal(second!.tokens.length, 12);
  let streamed = "";
  const stopped = await generator.generate(prompt, {
    tokens: 20, stop: ["girl"], candidates: 2, onToken: ({ text }) => void (streamed += text),
  });
  assert.equal(stopped.finish, "stop");
  assert.equal(stopped.text, alone.text.slice(0, alone.text.indexOf("girl")));
  assert.equal(streamed, stopped.text);
  assert.ok(stopped.reusedTokens > 0);
  for (const { token, candidates } of stopped.tokens) {
    assert.equal(candidates.length, 3);
    assert.equal(candidates[0]!.token, token);
    assert.ok(candidates[1]!.logProbability <= 0 && candidates[2]!.logProbability <= candidates[1]!.logProbability);
  }
  const long = await generator.generate(prompt, { tokens: 70, temperature: 0.8, topK: 40, seed: 5, repetitionPenalty: 1.1 });
  assert.equal(long.tokens.length, 70);
  await generator.forget();
  const again = await generator.generate(prompt, { tokens: 70, temperature: 0.8, topK: 40, seed: 5, repetitionPenalty: 1.1 });
  assert.equal(again.text, long.text, "draws are those of the seed");
  let count = 0;
  const ended = await generator.generate(prompt, { tokens: 20, onToken: () => ++count < 3 });
  assert.deepEqual([ended.finish, ended.tokens.length], ["cancelled", 3]);
  await assert.rejects(generator.generate(prompt, { signal: AbortSignal.abort() }), isError("cancelled", /prompt/));
  assert.throws(() => generator.chat([{ role: "user", content: "Hello" }]), isError("invalid-model", /no chat template/));
  await assert.rejects(generator.generate([1, 600]), isError("invalid-input", /token 600/));
  await assert.rejects(generator.generate(Array(48).fill(1)), isError("invalid-input", /context/));
  assert.equal((await generator.generate(prompt, { tokens: 20 })).text, alone.text, "usable after errors");
  generator.destroy();
});

test("weights come in ranges from a host that breaks off", { skip }, async () => {
  const bytes = stories("q8_0");
  let [requests, largest] = [0, 0];
  const server = createServer((request, response) => {
    const [, from, to] = /bytes=(\d+)-(\d+)/.exec(request.headers.range ?? "") ?? [];
    if (from === undefined || request.url === "/whole.gguf") return response.end(bytes);
    if (++requests % 3 === 0) return response.destroy();
    const part = bytes.subarray(Number(from), Number(to) + 1);
    largest = Math.max(largest, part.length);
    response.writeHead(206, { "Content-Range": `bytes ${from}-${to}/${bytes.length}`, ETag: '"1"' }).end(part);
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const at = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  try {
    const progress: number[] = [];
    const generator = await TextGenerator.load(`${at}/model.gguf`, {
      compiler, device: open, context: 64, chunk: 16, onProgress: (loaded, total) => progress.push(loaded / total),
    });
    const there = await TextGenerator.load(bytes, { compiler, device: open, context: 64, chunk: 16 });
    assert.equal((await generator.generate("", { tokens: 8 })).text, (await there.generate("", { tokens: 8 })).text);
    assert.ok(requests > 10, `${requests} requests`);
    assert.equal(progress.at(-1), 1);
    assert.ok(progress.every((value, i) => i === 0 || value > progress[i - 1]!));
    [generator, there].forEach((each) => each.destroy());
    const whole = await openSource(`${at}/whole.gguf`);
    assert.deepEqual(await whole.read(100, 200), bytes.slice(100, 200));
  } finally {
    server.close();
  }
  await assert.rejects(urlSource(`${at}/gone.gguf`), isError("io", /cannot be reached/));
});

test("files that are wrong are one line", { skip }, async () => {
  const load = (bytes: Uint8Array) => TextGenerator.load(bytes, { compiler, device: open });
  await assert.rejects(load(new Uint8Array(100)), isError("invalid-model", /GGUF/));
  await assert.rejects(load(stories("f32").slice(0, 9000)), isError("invalid-model", /model/));
  await assert.rejects(TextGenerator.load(stories("f32"), { compiler, device: open, context: 1 }),
    isError("invalid-input", /context of 1/));
  await assert.rejects(TextGenerator.load(stories("f32"), { compiler, device: open, cache: "f8" as "f16" }),
    isError("invalid-input", /cache/));
});
