// What the caller of a run gives and gets, against what the plan says.

import { GyrusError } from "./errors.js";
import type { Plan, PlanArgument, PlanPort } from "./plan.js";
import { checkTensor } from "./tensors.js";
import type { Inputs, RunOptions, TensorValue } from "./types.js";

function invalid(name: string, message: string): GyrusError {
  return new GyrusError("invalid-input", `[${name}] ${message}`);
}

function listed(items: { name: string }[]): string {
  return items.map(({ name }) => name).join(", ") || "none";
}

/** Throws "invalid-input" unless there is one fitting tensor for each input. */
export function checkInputs(ports: PlanPort[], inputs: Inputs): void {
  for (const port of ports) {
    const input = inputs[port.name];
    if (!input) throw invalid(port.name, "this input is missing");
    checkTensor(port.name, port, input);
  }
  for (const name of Object.keys(inputs))
    if (!ports.some((port) => port.name === name))
      throw invalid(name, `the plan has no such input; it has: ${listed(ports)}`);
}

function checkArgument({ name, dtype, least, most }: PlanArgument, value: number | undefined): void {
  if (value === undefined) throw invalid(name, "this argument is missing");
  if (dtype !== "f32" && !Number.isInteger(value)) throw invalid(name, `${value} is no whole number`);
  if (!(least <= value && value <= most)) throw invalid(name, `${value} is not between ${least} and ${most}`);
}

/** Throws "invalid-input" unless there is one value within its range for each argument. */
export function checkArguments(wanted: PlanArgument[], given: Record<string, number> = {}): void {
  for (const argument of wanted) checkArgument(argument, given[argument.name]);
  for (const name of Object.keys(given))
    if (!wanted.some((argument) => argument.name === name))
      throw invalid(name, `the plan has no such argument; it has: ${listed(wanted)}`);
}

/** The contents of the buffer of arguments. */
export function argumentBytes(wanted: PlanArgument[], given: Record<string, number>, size: number): Uint8Array {
  const view = new DataView(new ArrayBuffer(size));
  for (const { name, dtype, offset } of wanted) {
    const value = given[name]!;
    if (dtype === "f32") view.setFloat32(offset, value, true);
    else if (dtype === "i32") view.setInt32(offset, value, true);
    else view.setUint32(offset, value, true);
  }
  return new Uint8Array(view.buffer);
}

/** The ports of those names; throws "invalid-input" for one that the plan does not have. */
function named(ports: PlanPort[], names: string[], what: string): PlanPort[] {
  return [...new Set(names)].map((name) => {
    const found = ports.find((port) => port.name === name);
    if (!found) throw invalid(name, `the plan has no such ${what}; it has: ${listed(ports)}`);
    return found;
  });
}

/** What a run gives back: ports to read, and ports to keep on the device. */
export function chosenResults(plan: Plan, options: RunOptions): { read: PlanPort[]; keep: PlanPort[] } {
  const { outputs, captures, keep: kept = [] } = options;
  const read = outputs ? named(plan.outputs, outputs, "output") : plan.outputs;
  const more = captures === true ? plan.captures : named(plan.captures, captures || [], "capture");
  const keep = named([...plan.outputs, ...plan.captures], kept, "output or capture");
  return { read: [...read, ...more].filter((port) => !keep.includes(port)), keep };
}

/** The first step that may write a state, behind the last one where none does; and the states that are written. */
export function stateWrites({ buffers, kernels, states, steps }: Plan): { first: number; names: string[] } {
  const written = new Set<number>();
  let first = steps.length;
  steps.forEach((step, i) => {
    const ranges = step.op === "copy" ? [step.to] : step.op === "clear" ? [step.range]
      : step.bindings.filter((_, b) => kernels[step.kernel]!.bindings[b] === "write");
    for (const { buffer } of ranges) {
      if (buffers[buffer]!.kind !== "state") continue;
      written.add(buffer);
      first = Math.min(first, i);
    }
  });
  const isWritten = ({ pieces }: PlanPort) => pieces.some(({ range }) => written.has(range.buffer));
  return { first, names: states.filter(isWritten).map(({ name }) => name) };
}

/** Throws "invalid-input" where a run cannot be made with this. */
export function checkRun(plan: Plan, inputs: Inputs, options: RunOptions): void {
  checkInputs(plan.inputs, inputs);
  checkArguments(plan.arguments, options.arguments);
  chosenResults(plan, options);
}

// Index of the first infinity or NaN, or -1.
function firstNonFinite({ dtype, data }: TensorValue): number {
  if (dtype === "f32") return new Float32Array(data.buffer).findIndex((value) => !Number.isFinite(value));
  if (dtype === "f16") return new Uint16Array(data.buffer).findIndex((bits) => (bits & 0x7c00) === 0x7c00);
  return -1;
}

/** Throws "non-finite" where an output that was read holds an infinity or NaN. */
export function checkFinite(plan: Plan, outputs: Record<string, TensorValue>): void {
  for (const { name } of plan.outputs) {
    const at = outputs[name] ? firstNonFinite(outputs[name]) : -1;
    if (at < 0) continue;
    throw new GyrusError("non-finite", `[${name}] element ${at} of the result is not finite; the network ` +
      "overflowed or the driver is at fault", { hints: ["single-precision", "other-device"] });
  }
}

/** Throws what a kernel reported, if one did: the word is 0, or 1 + the index of a report. */
export function checkReported({ reports }: Plan, words: Uint8Array): void {
  const view = new DataView(words.buffer, words.byteOffset, words.byteLength);
  const word = view.getUint32(0, true);
  if (word === 0) return;
  const report = reports[word - 1];
  if (!report) throw new GyrusError("device", `[report] the device reported ${word}, which the plan does not know`);
  if (report.kind === "finite")
    throw new GyrusError("non-finite", `[${report.label}] computed a value that is not finite`,
      { hints: ["single-precision", "other-device"] });
  if (report.kind === "room")
    throw invalid(report.label, `needs ${view.getUint32(4, true)} places and has ${view.getUint32(8, true)}: give it more`);
  throw invalid(report.label, `index ${view.getInt32(4, true)} is out of range: the extent is ${view.getUint32(8, true)}`);
}
