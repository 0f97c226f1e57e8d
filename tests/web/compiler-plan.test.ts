// The compiler as a module makes the very plans that the command line makes.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { Compiler, type Model } from "../../web/src/compiler.js";
import type { NamedBytes, PlanLimits, PlanRequest } from "../../web/src/types.js";
import {
  DEFAULT_LIMITS,
  folderOf,
  isError,
  loadCompiler,
  loudLayers,
  native,
  ROOT,
  scaled,
  shared,
  sharedModels,
  temporary,
  tinyModel,
} from "./support/compiler.js";

const request = (more: Partial<PlanRequest> = {}): PlanRequest => ({
  spatial: [64, 64, 64],
  input: "u8",
  clamp: true,
  output: "labels",
  precision: "f32",
  limits: DEFAULT_LIMITS,
  software: false,
  ...more,
});

let compiler: Compiler;
before(async () => {
  compiler = await loadCompiler();
});

test("the module for inference is small: it has nothing that only training needs", () => {
  const bytes = readFileSync(join(ROOT, "web/dist/wasm/gyrus.wasm"));
  assert.ok(bytes.length <= 1_658_389, `${bytes.length} bytes`);
  for (const text of ["norm_sums", "conv_weights", "gyrus_trainee"])
    assert.ok(bytes.indexOf(text, 0, "latin1") < 0, `it holds '${text}'`);
  assert.ok(readFileSync(join(ROOT, "web/dist/wasm/gyrus-train.wasm")).indexOf("conv_weights", 0, "latin1") > 0);
});

// What the command line writes for the same request.
function nativePlan(folder: string, wanted: PlanRequest): { json: string; weights: Buffer } {
  const out = temporary();
  const limits = join(out.path, "limits.json");
  out.write("limits.json", JSON.stringify(wanted.limits));
  const file = join(out.path, "plan.json");
  native(["plan", folder, "-q", "--size", wanted.spatial.join("x"), "--input", wanted.input, "--limits", limits]
    .concat(["--normalize", wanted.clamp ? "minmax" : "none", "--precision", wanted.precision, "-o", file]));
  return { json: readFileSync(file, "utf8"), weights: readFileSync(join(out.path, "plan.bin")) };
}

function assertSamePlan(folder: string, name: string, wanted: PlanRequest): void {
  const model = compiler.openModel(folderOf(folder), name);
  try {
    const plan = model.plan(wanted);
    const expected = nativePlan(folder, wanted);
    assert.ok(plan.json === expected.json, `the JSON of ${name} differs`);
    assert.ok(Buffer.from(plan.weights).equals(expected.weights), `the weights of ${name} differ`);
    const sizes = (JSON.parse(plan.json) as { buffers: { size: number }[] }).buffers.map((buffer) => buffer.size);
    assert.equal(plan.peakBytes, sizes.reduce((sum, size) => sum + size, 0));
    assert.ok(plan.flops > 0);
  } finally {
    model.close();
  }
}

describe("plans", { skip: native.missing }, () => {
  const tiny = tinyModel();
  const phone: PlanLimits = {
    ...DEFAULT_LIMITS,
    maxStorageBuffersPerShaderStage: 4,
    maxComputeInvocationsPerWorkgroup: 128,
  };
  const small: PlanLimits = { ...DEFAULT_LIMITS, maxStorageBufferBindingSize: 1 << 20, maxBufferSize: 1 << 21 };
  const cases: [string, Partial<PlanRequest>][] = [
    ["as it is", {}],
    ["in halves", { precision: "f16" }],
    ["of floats, not clamped", { input: "f32", clamp: false }],
    ["of odd extents", { spatial: [61, 53, 47] }],
    ["with few bindings", { limits: phone }],
    ["with small buffers", { limits: small }],
  ];
  for (const [what, more] of cases)
    test(`tiny model, ${what}: as the command line`, () => assertSamePlan(tiny, "model", request(more)));

  for (const { name, folder } of sharedModels())
    for (const precision of ["f32", "f16"] as const)
      test(`${name} at 256³ in ${precision}: as the command line`, () =>
        assertSamePlan(folder, name, request({ spatial: [256, 256, 256], precision })));

  for (const { name, folder } of sharedModels().slice(0, 3))
    test(`${name} under tight limits: as the command line`, () => {
      assertSamePlan(folder, name, request({ spatial: [96, 80, 72], limits: small }));
      assertSamePlan(folder, name, request({ spatial: [61, 53, 47], limits: phone, input: "f32" }));
    });
});

describe("models", () => {
  let model: Model;
  before(() => {
    model = compiler.openModel(folderOf(tinyModel()), "tiny");
  });
  after(() => model.close());

  test("say what they are", () => {
    const { info } = model;
    assert.equal(info.name, "tiny");
    assert.equal(info.format, "layer list + safetensors");
    assert.equal(info.classes, 3);
    assert.equal(info.inputChannels, 1);
    assert.equal(info.parameters, 2 * 27 + 2 + 6 + 3);
    assert.equal(info.receptiveField, 3);
    assert.deepEqual(info.layers.map((layer) => layer.weightShape), [[2, 1, 3, 3, 3], [3, 2, 1, 1, 1]]);
    assert.deepEqual(info.labels.map((label) => label.name), ["background", "label 1", "label 2"]);
    for (const { colour } of info.labels) assert.match(colour, /^#[0-9a-f]{6}$/);
    assert.equal(info.normalize, "minmax");
  });

  for (const { name, folder } of sharedModels())
    test(`${name}: the description is the command line's`, { skip: native.missing }, () => {
      const shared = compiler.openModel(folderOf(folder), name);
      const expected = JSON.parse(native(["info", folder, "--json", "--size", "16"])) as Record<string, unknown>;
      const { info } = shared;
      assert.equal(info.format, expected.format);
      assert.equal(info.classes, expected.classes);
      assert.equal(info.parameters, expected.parameters);
      assert.equal(info.receptiveField, expected.receptive_field);
      assert.equal(info.normalize, expected.normalize);
      assert.deepEqual(info.labels.map((label) => label.name), expected.labels);
      assert.equal(info.layers.length, (expected.layers as unknown[]).length);
      shared.close();
    });

  const mindgrab = shared("models/mindgrab");
  test("a model is known by its weights, whatever its folder's name", { skip: mindgrab ? false : "no test data" }, () => {
    const renamed = compiler.openModel(folderOf(mindgrab!), "brainmask");
    const { name, title, normalize, largestComponent } = renamed.info;
    assert.deepEqual([name, normalize, largestComponent], ["brainmask", "quantile:0.02,0.98", true]);
    assert.notEqual(title, "");
    const model5 = folderOf(shared("models/model5_gw_ae")!);
    const known = compiler.openModel(model5, "model5");
    const other = compiler.openModel(scaled(model5, loudLayers, 2), "model5_gw_ae");
    assert.deepEqual([known.info.title, other.info.title], ["Grey and white matter, light", ""]);
    for (const each of [renamed, known, other]) each.close();
  });

  test("a gyrus.json counts", () => {
    const manifest = { title: "T", normalize: "none", labels: ["air", "dark", "bright"], components: "largest" };
    const files = [...folderOf(tinyModel()), named("gyrus.json", JSON.stringify(manifest))];
    const own = compiler.openModel(files, "tiny");
    assert.equal(own.info.title, "T");
    assert.equal(own.info.normalize, "none");
    assert.equal(own.info.largestComponent, true);
    assert.deepEqual(own.info.labels.map((label) => label.name), ["air", "dark", "bright"]);
    own.close();
  });

  test("closed twice does no harm; used after it says so", () => {
    const gone = compiler.openModel(folderOf(tinyModel()), "gone");
    gone.close();
    gone.close();
    assert.throws(() => gone.plan(request()), isError("invalid-input", /closed/));
  });
});

describe("what is wrong with a model is said in one line", () => {
  const broken = (change: (files: NamedBytes[]) => NamedBytes[]) => () =>
    compiler.openModel(change(folderOf(tinyModel())), "tiny");

  test("nothing in it", () => {
    assert.throws(broken(() => []), isError("invalid-model", /^\[tiny\] no model in it: wanted model.json/));
  });
  test("no weights", () => {
    const only = (files: NamedBytes[]) => files.filter((file) => file.name === "model.json");
    assert.throws(broken(only), isError("invalid-model", /^\[tiny\/model.json\] no weights/));
  });
  test("a tensor missing", () => {
    const without = (files: NamedBytes[]) =>
      files.map((file) => (file.name === "model.pth" ? renamed(file, "model.2.bias", "model.9.bias") : file));
    assert.throws(broken(without), isError("invalid-model", /^\[tiny\/model\.(pth|json)\]/));
  });
  test("cut off", () => {
    const cut = (files: NamedBytes[]) => files.map((file) => ({ ...file, bytes: file.bytes.subarray(0, 100) }));
    assert.throws(broken(cut), isError("invalid-model", /^\[tiny\/model/));
  });
  test("limits that no network fits, and limits that are none", () => {
    const model = compiler.openModel(folderOf(tinyModel()), "tiny");
    const limits = { ...DEFAULT_LIMITS, maxStorageBuffersPerShaderStage: 1 };
    assert.throws(() => model.plan(request({ limits })), isError("over-limits", /^\[/));
    const none = { ...DEFAULT_LIMITS, maxBufferSize: Number.NaN };
    assert.throws(() => model.plan(request({ limits: none })), isError("invalid-input", /maxBufferSize/));
    assert.throws(() => model.plan(request({ spatial: [0, 1, 1] })), isError("invalid-input", /^\[/));
    model.close();
  });
});

function named(name: string, text: string): NamedBytes {
  return { name, bytes: new TextEncoder().encode(text) };
}

function renamed(file: NamedBytes, from: string, to: string): NamedBytes {
  const text = Buffer.from(file.bytes).toString("latin1").replace(from, to);
  return { ...file, bytes: Buffer.from(text, "latin1") };
}
