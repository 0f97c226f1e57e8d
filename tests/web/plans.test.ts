// The suite of tests/plans, which the native runtime passes too.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { GyrusError } from "../../web/src/errors.js";
import { PlanExecutor } from "../../web/src/executor.js";
import { Memory } from "../../web/src/memory.js";
import { checkLimits } from "../../web/src/plan-check.js";
import { parsePlan, type Plan } from "../../web/src/plan.js";
import type { DeviceTensor, DType, Inputs, TensorValue } from "../../web/src/types.js";
import { openDevice } from "./support/gpu.js";
import { sourceFolder } from "./support/native.js";
import { refuseMemory } from "./support/spy.js";
import { fromNumbers, toNumbers } from "./support/tensors.js";

type Value = number | "nan" | "inf" | "-inf";
type Tensor = Value[] | { dtype: DType; shape: number[]; values: Value[] };
type Fault = [code: string, message: string];

interface Changed {
  plan: string;
  set?: Record<string, unknown>;
  remove?: string[];
}

interface Step extends Changed {
  memory?: string;
  load?: string;
  run?: string;
  inputs?: Record<string, Tensor>;
  kept?: Record<string, string>;
  arguments?: Record<string, Value>;
  outputs?: string[];
  captures?: string[];
  keep?: string[];
  gives?: unknown;
  uploaded?: number;
  cancel?: boolean;
  read?: string;
  write?: string;
  value?: Tensor;
  range?: [number, number];
  reset?: string[] | true;
  save?: string;
  restore?: string;
  bytes?: number;
  names?: string[];
  undefined?: string[];
  of?: string;
  free?: string;
  lose?: boolean;
  error?: Fault;
  changed?: boolean;
}

interface Suite {
  plans: Record<string, { plan: unknown; data: [number, DType, Value[]][] }>;
  reads?: (Changed & { name: string; error?: Fault })[];
  checks?: (Changed & { name: string; limits?: object; error?: Fault })[];
  runs?: { name: string; refuse?: number; do: Step[] }[];
}

const number = (value: Value) =>
  typeof value === "number" ? value : value === "nan" ? NaN : value === "inf" ? Infinity : -Infinity;

// Follows a JSON pointer to the parent of what it names.
function parentOf(json: unknown, pointer: string): [Record<string, unknown>, string] {
  const keys = pointer.split("/").slice(1);
  const last = keys.pop()!;
  return [keys.reduce((at, key) => (at as Record<string, unknown>)[key], json) as Record<string, unknown>, last];
}

function makePlan(suite: Suite, { plan: name, set = {}, remove = [] }: Changed): Plan {
  const { plan, data } = structuredClone(suite.plans[name]!);
  const weights = new Uint8Array((plan as { weights: number }).weights);
  for (const [offset, dtype, values] of data) weights.set(fromNumbers(dtype, values.map(number)), offset);
  for (const [pointer, value] of Object.entries(set)) {
    const [parent, key] = parentOf(plan, pointer);
    parent[key] = value;
  }
  for (const pointer of remove) {
    const [parent, key] = parentOf(plan, pointer);
    delete parent[key];
  }
  for (const kernel of (plan as { kernels: { wgsl: string | string[] }[] }).kernels)
    if (Array.isArray(kernel.wgsl)) kernel.wgsl = kernel.wgsl.join("\n");
  return parsePlan(JSON.stringify(plan), weights);
}

// Runs `body`, which must fail with `error` where there is one.
async function expecting(error: Fault | undefined, body: () => unknown, changed?: boolean): Promise<void> {
  if (!error) return void (await body());
  const found = await Promise.resolve().then(body).then(() => assert.fail(`no error, ${error} was expected`), (e) => e);
  assert.ok(found instanceof GyrusError, String(found));
  assert.equal(found.code, error[0], found.message);
  assert.ok(found.message.includes(error[1]), `"${found.message}" has no "${error[1]}"`);
  assert.doesNotMatch(found.message, /\n/);
  if (changed !== undefined) assert.equal(found.stateChanged, changed, found.message);
}

function tensorOf(port: { dtype: DType; shape: number[] } | undefined, tensor: Tensor, count?: number): TensorValue {
  if (!Array.isArray(tensor))
    return { dtype: tensor.dtype, shape: tensor.shape, data: fromNumbers(tensor.dtype, tensor.values.map(number)) };
  const { dtype, shape } = port!;
  return { dtype, shape: count === undefined ? shape : [count], data: fromNumbers(dtype, tensor.map(number)) };
}

class Play {
  readonly suite: Suite;
  readonly device: GPUDevice;
  memories = new Map<string, Memory>();
  executors = new Map<string, PlanExecutor>();
  files = new Map<string, Uint8Array>();
  kept = new Map<string, DeviceTensor>();

  constructor(suite: Suite, device: GPUDevice) {
    this.suite = suite;
    this.device = device;
  }

  memory(name: string): Memory {
    return this.memories.get(name) ?? this.executors.get(name)!.memory;
  }

  async perform(step: Step): Promise<void> {
    const { load, run, read, write, reset, save, restore, bytes, names, free, lose, of = "" } = step;
    const range = step.range ? { offset: step.range[0], count: step.range[1] } : undefined;
    if (load !== undefined) await this.#load(load, step);
    else if (run !== undefined) await this.#run(this.executors.get(run)!, step);
    else if (read !== undefined) {
      const { data, dtype } = await this.memory(of).read(read, range);
      assert.deepEqual([...Array.from(toNumbers({ dtype, shape: [], data }))], (step.gives as Value[]).map(number));
    } else if (write !== undefined) {
      const memory = this.memory(of);
      const port = memory.has(write) ? memory.describe(write) : undefined;
      await memory.write(write, tensorOf(port, step.value!, range?.count), range);
    } else if (reset !== undefined) await this.memory(of).reset(reset === true ? undefined : reset);
    else if (save !== undefined) this.files.set(save, await this.memory(of).save());
    else if (restore !== undefined) await this.memory(of).load(this.files.get(restore)!);
    else if (bytes !== undefined) assert.equal(this.memory(of).bytes, bytes);
    else if (names !== undefined) assert.deepEqual(this.memory(of).names, names);
    else if (step.undefined) assert.deepEqual(this.memory(of).undefined, step.undefined);
    else if (free !== undefined) (this.executors.get(free) ?? this.memories.get(free))!.destroy();
    else if (lose) this.device.destroy();
    else if (step.memory !== undefined) this.memories.set(step.memory, new Memory(this.device));
    else assert.fail(`unknown step ${JSON.stringify(step)}`);
  }

  async #load(name: string, step: Step): Promise<void> {
    const options = step.memory ? { memory: this.memories.get(step.memory)! } : {};
    this.executors.set(name, await PlanExecutor.create(this.device, makePlan(this.suite, step), options));
  }

  async #run(executor: PlanExecutor, step: Step): Promise<void> {
    const inputs: Inputs = {};
    for (const [name, tensor] of Object.entries(step.inputs ?? {}))
      inputs[name] = tensorOf(executor.plan.inputs.find((port) => port.name === name), tensor);
    for (const [name, from] of Object.entries(step.kept ?? {})) inputs[name] = this.kept.get(from)!;
    const given = Object.entries(step.arguments ?? {}).map(([name, value]) => [name, number(value)]);
    const { outputs, captures, keep } = step;
    const { outputs: got, kept, uploadedBytes } = await executor.run(inputs, {
      arguments: Object.fromEntries(given) as Record<string, number>,
      ...(outputs ? { outputs } : {}), ...(captures ? { captures } : {}), ...(keep ? { keep } : {}),
      ...(step.cancel ? { signal: AbortSignal.abort() } : {}),
    });
    for (const [name, tensor] of Object.entries(kept)) this.kept.set(name, tensor);
    if (step.uploaded !== undefined) assert.equal(uploadedBytes, step.uploaded);
    if (step.gives === undefined) return;
    const values = Object.entries(got).map(([name, tensor]) => [name, Array.from(toNumbers(tensor))]);
    const wanted = Object.entries(step.gives as Record<string, Value[]>).map(([name, list]) => [name, list.map(number)]);
    assert.deepEqual(Object.fromEntries(values), Object.fromEntries(wanted));
  }

  destroy(): void {
    for (const each of [...this.executors.values(), ...this.memories.values()]) each.destroy();
    for (const { buffer } of this.kept.values()) buffer.destroy();
  }
}

const folder = join(sourceFolder, "tests/plans");
const common = (await openDevice()).device;

for (const file of readdirSync(folder).filter((name) => name.endsWith(".json")).sort()) {
  const suite = JSON.parse(readFileSync(join(folder, file), "utf8")) as Suite;
  describe(file, () => {
    for (const { name, error, ...changed } of suite.reads ?? [])
      test(`reading: ${name}`, () => expecting(error, () => makePlan(suite, changed)));
    for (const { name, limits, error, ...changed } of suite.checks ?? [])
      test(`limits: ${name}`, () => {
        const plan = makePlan(suite, changed);
        return expecting(error, () => checkLimits(plan, { ...plan.needs, ...limits }, new Set()));
      });
    for (const { name, refuse, do: steps } of suite.runs ?? [])
      test(`runs: ${name}`, async () => {
        const own = refuse !== undefined || steps.some((step) => step.lose);
        const device = own ? (await openDevice()).device : common;
        if (refuse !== undefined) refuseMemory(device, refuse + 1);
        const play = new Play(suite, device);
        try {
          for (const [i, step] of steps.entries())
            await expecting(step.error, () => play.perform(step), step.changed).catch((error: Error) => {
              throw new Error(`step ${i} ${JSON.stringify(step).slice(0, 80)}: ${error.message}`, { cause: error });
            });
        } finally {
          play.destroy();
          if (own) device.destroy();
        }
      });
  });
}
