// Reading and checking plans; needs no GPU.

import assert from "node:assert/strict";
import { test } from "node:test";
import { GyrusError } from "../../web/src/errors.js";
import { checkLimits } from "../../web/src/plan-check.js";
import { parsePlan, peakBytes, type Plan } from "../../web/src/plan.js";
import type { PlanLimits } from "../../web/src/types.js";
import { chainJson, chainPlan, needs, type ChainJson } from "./support/plans.js";

function changed(change: (json: any) => void): ChainJson {
  const json = chainJson(100, 3);
  change(json);
  return json;
}

function thrown(body: () => unknown): GyrusError {
  try {
    body();
  } catch (error) {
    assert.ok(error instanceof GyrusError, String(error));
    assert.doesNotMatch(error.message, /\n/);
    return error;
  }
  assert.fail("nothing was thrown");
}

test("a good plan is read", () => {
  const plan = chainPlan(chainJson(100, 3));
  assert.equal(plan.steps.length, 6);
  assert.equal(peakBytes(plan), 16 + 4 + 4 * 400);
  assert.deepEqual(plan.outputs[0]!.pieces, [{ hostOffset: 0, range: { buffer: 3, offset: 0, size: 400 } }]);
});

const bad: [string, (json: any) => void, RegExp][] = [
  ["another format", (p) => (p.format = "gyrus-plan-1"), /format 'gyrus-plan-1'; this version reads 'gyrus-plan-2'/],
  ["an unknown key", (p) => (p.extra = 1), /plan has an unknown key 'extra'/],
  ["a missing key", (p) => delete p.captures, /plan has no 'captures'/],
  ["an unknown key inside", (p) => (p.buffers[2].usage = 1), /plan\.buffers\[2\] has an unknown key 'usage'/],
  ["a missing limit", (p) => delete p.needs.maxBufferSize, /plan\.needs has no 'maxBufferSize'/],
  ["a missing feature", (p) => delete p.features.subgroups, /plan\.features has no 'subgroups'/],
  ["weights of another length", (p) => (p.weights = 10), /weights file of 10 bytes; the one given has 260/],
  ["an unknown precision", (p) => (p.precision = "f64"), /plan\.precision is the unknown 'f64'/],
  ["an unknown kind", (p) => (p.buffers[0].kind = "x"), /plan\.buffers\[0\]\.kind is the unknown 'x'/],
  ["a fraction", (p) => (p.buffers[0].size = 1.5), /plan\.buffers\[0\]\.size is not a whole number/],
  ["a number past 2^53", (p) => (p.buffers[2].size = 2 ** 60), /plan\.buffers\[2\]\.size is not a whole number/],
  ["an odd size", (p) => (p.buffers[2].size = 402), /buffer 2 'even': size 402 is not a positive multiple of 4/],
  ["an empty buffer", (p) => (p.buffers[2].size = 0), /size 0 is not a positive multiple of 4/],
  ["data past the weights", (p) => (p.buffers[1].dataOffset = 260), /pass the end of the weights of 260 bytes/],
  ["a line end in a label", (p) => (p.steps[2].label = "a\nb"), /plan\.steps\[2\]\.label has control characters/],
  ["an unknown op", (p) => (p.steps[0].op = "jump"), /plan\.steps\[0\] has the unknown op 'jump'/],
  ["no such buffer", (p) => (p.steps[0].from[0] = 9), /step 0 \(copy\): buffer 9 does not exist/],
  ["a range past the end", (p) => (p.steps[2].bindings[2] = [2, 256, 400]), /step 2 'layer.0' binding 2: offset 256/],
  ["an unaligned range", (p) => (p.steps[1].range = [3, 2, 4]), /must be multiples of 4 bytes/],
  ["an empty range", (p) => (p.steps[1].range = [3, 0, 0]), /an empty range of buffer 'odd'/],
  ["a copy within a buffer", (p) => (p.steps[0].to = [4, 0, 400]), /copies within buffer 'input'/],
  ["a copy of two sizes", (p) => (p.steps[0].to = [2, 0, 396]), /copies 400 bytes to 396/],
  ["a clear of parameters", (p) => (p.steps[1].range = [0, 0, 16]), /parameter buffer 'params' is filled once/],
  ["no such kernel", (p) => (p.steps[2].kernel = 1), /kernel 1 does not exist/],
  ["a binding too few", (p) => p.steps[2].bindings.pop(), /3 bindings for kernel 'double', which takes 4/],
  ["a parameter as storage", (p) => (p.steps[2].bindings[2] = [0, 0, 16]), /a parameter buffer bound as storage/],
  ["storage as a parameter", (p) => (p.steps[2].bindings[0] = [2, 0, 16]), /a storage buffer bound as uniform/],
  ["a buffer read and written", (p) => (p.steps[2].bindings[3] = [2, 0, 400]), /share buffer 'even', which the first/],
  ["no groups", (p) => (p.steps[2].groups = [1, 0, 1]), /a group count of 0/],
  ["two groups only", (p) => (p.steps[2].groups = [1, 1]), /plan\.steps\[2\]\.groups is not \[x, y, z\]/],
  ["a negative cost", (p) => (p.steps[2].flops = -1), /a cost below 0/],
  ["an empty workgroup", (p) => (p.kernels[0].workgroupSize = [0, 1, 1]), /a workgroup size of 0/],
  ["no entry point", (p) => (p.kernels[0].entry = ""), /no entry point/],
  ["a port with a gap", (p) => (p.outputs[0].pieces = [[0, 3, 0, 100]]), /its pieces leave out byte 100 of 400/],
  ["a piece past the tensor", (p) => (p.outputs[0].pieces = [[4, 3, 0, 400]]), /passes the tensor's 400/],
  ["two ports of one name", (p) => p.inputs.push(p.inputs[0]), /port 'x': is there twice/],
  ["an unknown dtype", (p) => (p.inputs[0].dtype = "f8"), /plan\.inputs\[0\]\.dtype is the unknown 'f8'/],
];

for (const [name, change, message] of bad) {
  test(`refused: ${name}`, () => {
    const error = thrown(() => chainPlan(changed(change)));
    assert.equal(error.code, "invalid-input");
    assert.match(error.message, message);
  });
}

test("refused: no JSON at all", () => {
  for (const text of ["", "{", "null", "[]", '"plan"'])
    assert.equal(thrown(() => parsePlan(text, new Uint8Array(0))).code, "invalid-input");
});

const over: [keyof PlanLimits, number, RegExp][] = [
  ["maxBufferSize", 399, /buffer 2 'even': size is 400, the limit is 399; plan for this device/],
  ["maxStorageBufferBindingSize", 399, /step 2 'layer.0' binding 2: size is 400/],
  ["maxUniformBufferBindingSize", 12, /binding 0: size is 16/],
  ["maxStorageBuffersPerShaderStage", 2, /kernel 'double': number of storage buffers is 3/],
  ["maxComputeWorkgroupsPerDimension", 1, /group count is 2/],
  ["maxComputeInvocationsPerWorkgroup", 32, /invocations per workgroup is 64/],
  ["maxComputeWorkgroupSizeX", 32, /workgroup size x is 64/],
];

test("limits are kept", () => {
  const plan: Plan = chainPlan(chainJson(100, 3));
  const enough: PlanLimits = { ...needs, maxStorageBuffersPerShaderStage: 3 };
  checkLimits(plan, enough, new Set());
  for (const [name, value, message] of over) {
    const error = thrown(() => checkLimits(plan, { ...enough, [name]: value }, new Set()));
    assert.equal(error.code, "over-limits");
    assert.match(error.message, message);
  }
  const f16 = chainPlan(changed((p) => (p.features["shader-f16"] = true)));
  assert.match(thrown(() => checkLimits(f16, enough, new Set())).message, /without shader-f16/);
  const shifted = chainPlan(changed((p) => (p.steps[2].bindings[2] = [2, 128, 256])));
  assert.match(thrown(() => checkLimits(shifted, enough, new Set())).message, /offset 128 is no multiple of 256/);
});
