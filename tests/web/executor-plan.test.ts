// Reading and checking plans: what the suite of tests/plans does not ask of every executor. Needs no GPU.

import assert from "node:assert/strict";
import { test } from "node:test";
import { GyrusError } from "../../web/src/errors.js";
import { checkLimits } from "../../web/src/plan-check.js";
import { parsePlan, peakBytes } from "../../web/src/plan.js";
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

test("numbers that JavaScript cannot hold are refused", () => {
  const error = thrown(() => chainPlan(changed((p) => (p.buffers[2].size = 2 ** 60))));
  assert.equal(error.code, "invalid-input");
  assert.match(error.message, /plan\.buffers\[2\]\.size is not a whole number/);
});

test("no JSON at all is refused", () => {
  for (const text of ["", "{", "null", "[]", '"plan"'])
    assert.equal(thrown(() => parsePlan(text, new Uint8Array(0))).code, "invalid-input");
});

test("features are asked for", () => {
  const f16 = chainPlan(changed((p) => (p.features["shader-f16"] = true)));
  const enough = { ...needs, maxStorageBuffersPerShaderStage: 3 };
  assert.match(thrown(() => checkLimits(f16, enough, new Set())).message, /without shader-f16/);
  checkLimits(f16, enough, new Set(["shader-f16"]));
});
