// Training against PyTorch in float64, step by step: as tests/conformance/train_nets_test.cpp does.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, test } from "node:test";
import { Trainer, type StepResult } from "../../web/src/trainer.js";
import { openDevice } from "./support/gpu.js";
import { everything, testData } from "./support/native.js";
import { loadTrainingCompiler } from "./support/compiler.js";
import { goldenNet, isFree, largest, largestError, nmse, smallMeshnet, type TrainingNet } from "./support/training-nets.js";

const data = testData();
const skip = data ? false : "the public test data is not here; set GYRUS_TEST_DATA";
const read = async (path: string) => new Uint8Array(await readFile(join(data!, path)));
const compiler = await loadTrainingCompiler();
const open = await openDevice();
after(() => open.device.destroy());

const atMost = (found: number, most: number, what: string) => assert.ok(found <= most, `${what}: ${found}, not ${most}`);

// Trains, and gives the first step's results and the last parameters.
async function train(net: TrainingNet, steps: number, bound: number) {
  const trainer = await Trainer.create(open, net.graph, { ...net.options, compiler });
  const captures = [...Object.keys(net.captures), ...Object.keys(net.gradients).map((name) => `gradient/${name}`)];
  let first: StepResult | undefined;
  for (const [t, want] of net.losses.slice(0, steps).entries()) {
    const step = await trainer.step(net.inputs, t === 0 ? { captures } : {});
    first ??= step;
    atMost(Math.abs(step.loss / want - 1), bound, `the loss of step ${t}, ${step.loss} for ${want}`);
  }
  const final = await trainer.parameters();
  trainer.destroy();
  return { first: first!, final };
}

// A software driver compiles kernels for a minute, or takes a minute for the steps.
const few = everything ? false : "takes long; GYRUS_TEST_FULL=1 runs it";

for (const optimizer of ["adam", "adamw", "sgd"] as const)
  test(`the small MeshNet learns by ${optimizer} as in PyTorch`, { skip: skip || (optimizer !== "adam" && few) }, async () => {
    const net = await smallMeshnet(read, optimizer);
    const { first, final } = await train(net, net.losses.length, 1e-5);
    for (const [name, want] of Object.entries(net.captures)) atMost(nmse(first.outputs[name]!, want), 1e-9, name);
    for (const [name, want] of Object.entries(net.gradients)) {
      const found = first.outputs[`gradient/${name}`]!;
      if (isFree(name)) atMost(largest(found), 1e-6, `the gradient of ${name}`);
      else atMost(nmse(found, want), 1e-9, `the gradient of ${name}`);
    }
    for (const [name, want] of Object.entries(net.final))
      if (!isFree(name)) atMost(largestError(final[name]!, want), 1e-4, name);
  });

for (const name of ["meshnet3d", "unet2d", "encoder", "lm"])
  test(`${name} learns as in PyTorch`, { skip: skip || (name !== "meshnet3d" && few) }, async () => {
    const net = await goldenNet(read, name);
    const { first, final } = await train(net, net.losses.length, 1e-4);
    for (const [each, want] of Object.entries(net.gradients))
      atMost(largestError(first.outputs[`gradient/${each}`]!, want), 4e-5, `the gradient of ${each}`);
    for (const [each, want] of Object.entries(net.final)) atMost(largestError(final[each]!, want), 1e-3, each);
  });
