// ONNX's node tests and real models through Program under Node: the cases, tolerances and list of the native test.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { GyrusError } from "../../web/src/errors.js";
import { Program } from "../../web/src/program.js";
import type { HostTensor } from "../../web/src/types.js";
import { loadCompiler } from "./support/compiler.js";
import { openDevice } from "./support/gpu.js";
import { everything, testData } from "./support/native.js";
import { difference, onnxCases, readSet, refusedCases, type OnnxCase } from "./support/onnx.js";

const folder = join(testData() ?? "/nowhere", "onnx");
const skip = existsSync(folder) ? false : "the public test data is not here; set GYRUS_TEST_DATA";
const compiler = await loadCompiler();
const open = await openDevice();

async function run(path: string, set: string, { bind, ...bounds }: Omit<OnnxCase, "name" | "op">): Promise<string> {
  const { inputs, outputs } = readSet(compiler, join(path, set));
  const model = readFileSync(join(path, "model.onnx"));
  const whole = compiler.openNetwork([{ name: "model.onnx", bytes: model }]);
  const names = whole.inputs.slice(0, inputs.length).map(({ name }) => name);
  whole.close();
  const bound: Record<string, HostTensor> = {}, given: Record<string, HostTensor> = {};
  names.forEach((name, i) => ((bind.has(name) ? bound : given)[name] = inputs[i]!));
  const program = await Program.load(model, { compiler, device: open, bind: bound });
  try {
    return difference(program, (await program.run(given)).outputs, outputs, bounds);
  } finally {
    program.destroy();
  }
}

// At least one test of each op; all where everything is tested.
const mostOfEach = everything ? Infinity : 2;
const fewest = everything ? 1100 : 200;

test("ONNX's node tests are right or refused", { skip }, async (t) => {
  const refused = refusedCases();
  const taken = new Map<string, number>();
  const wrong: string[] = [];
  let passed = 0, listed = 0;
  for (const each of onnxCases(join(folder, "node-tests"))) {
    const count = taken.get(each.op) ?? 0;
    if (count >= mostOfEach) continue;
    if (!refused.has(each.name)) taken.set(each.op, count + 1);
    else if (!everything) continue;
    try {
      const found = await run(join(folder, "node-tests", each.name), "test_data_set_0", each);
      if (found !== "") wrong.push(`${each.name}: ${found}`);
      else if (refused.has(each.name)) wrong.push(`${each.name} passes: take it from tests/data/onnx_refused.tsv`);
      else ++passed;
    } catch (error) {
      if (error instanceof GyrusError && refused.has(each.name)) ++listed;
      else wrong.push(`${each.name}: ${(error as Error).message}`);
    }
  }
  t.diagnostic(`${passed} pass, of ${taken.size} ops; ${listed} refused`);
  assert.deepEqual(wrong, []);
  assert.ok(passed >= fewest, `${passed} pass`);
});

for (const name of ["text-magika", "detect-ultraface"])
  test(`${name} gives what onnxruntime does`, { skip }, async () => {
    const bounds = { bind: new Set<string>(), rtol: 1e-3, atol: 1e-4 }; // as in tests/support/onnx_cases.h
    assert.equal(await run(join(folder, "models", name), "test_data_set_0", bounds), "");
  });

const long = everything ? false : "takes long; GYRUS_TEST_FULL=1 runs it";
test("two steps of Silero, whose rate decides shapes", { skip: skip || long }, async () => {
  const path = join(folder, "models/audio-silero-vad");
  const bounds = { bind: new Set(["sr"]), rtol: 1e-3, atol: 1e-4 };
  for (const set of ["test_data_set_0", "test_data_set_1"]) assert.equal(await run(path, set, bounds), "");
});
