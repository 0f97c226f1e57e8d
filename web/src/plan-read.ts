// Reading a plan from the JSON that the compiler writes. Every key must be there and no other, so that a file of
// another version fails here and not as wrong labels.

import { GyrusError } from "./errors.js";
import { checkConsistent } from "./plan-check.js";
import { limitNames, matrixFeature, oneLine, planFormat, usualFeatures } from "./plan.js";
import type { BindingKind, BufferKind, BufferRange, Piece, Plan } from "./plan.js";
import type { PlanArgument, PlanBuffer, PlanKernel, PlanPort, PlanReport, PlanState, Step } from "./plan.js";
import type { DType, Precision } from "./types.js";

function invalid(message: string): never {
  throw new GyrusError("invalid-input", oneLine(`[plan] ${message}`));
}

type Reader<T> = (json: unknown, where: string) => T;

function object<K extends string>(json: unknown, where: string, keys: readonly K[]): Record<K, unknown> {
  if (typeof json !== "object" || json === null || Array.isArray(json)) invalid(`${where} is not an object`);
  for (const key of keys) if (!Object.hasOwn(json, key)) invalid(`${where} has no '${key}'`);
  for (const key of Object.keys(json))
    if (!(keys as readonly string[]).includes(key)) invalid(`${where} has an unknown key '${key}'`);
  return json as Record<K, unknown>;
}

// Those that are always there, and that of matrix units where it is true.
function features(json: unknown): Plan["features"] {
  const isObject = typeof json === "object" && json !== null && !Array.isArray(json);
  const { [matrixFeature]: matrices, ...usual } = (isObject ? json : {}) as Record<string, unknown>;
  const read = each(isObject ? usual : json, "plan.features", usualFeatures, flag);
  return matrices === undefined ? read : { ...read, [matrixFeature]: flag(matrices, "plan.features") };
}

function string(json: unknown, where: string): string {
  if (typeof json !== "string") invalid(`${where} is not a string`);
  return json;
}

// A name that later messages show.
function label(json: unknown, where: string): string {
  const value = string(json, where);
  if (/[\x00-\x1f\x7f]/.test(value)) invalid(`${where} has control characters`);
  return value;
}

function flag(json: unknown, where: string): boolean {
  if (typeof json !== "boolean") invalid(`${where} is not true or false`);
  return json;
}

function number(json: unknown, where: string): number {
  if (typeof json !== "number" || !Number.isFinite(json)) invalid(`${where} is not a finite number`);
  return json;
}

function whole(json: unknown, where: string): number {
  if (!Number.isSafeInteger(json) || (json as number) < 0) invalid(`${where} is not a whole number of at least 0`);
  return json as number;
}

function u32(json: unknown, where: string): number {
  const value = whole(json, where);
  if (value > 0xffffffff) invalid(`${where} is over 2^32: ${value}`);
  return value;
}

function oneOf<T extends string>(names: readonly T[]): Reader<T> {
  return (json, where) => {
    const value = string(json, where);
    if (!(names as readonly string[]).includes(value)) invalid(`${where} is the unknown '${value}'`);
    return value as T;
  };
}

function each<K extends string, T>(json: unknown, where: string, keys: readonly K[], read: Reader<T>): Record<K, T> {
  const o = object(json, where, keys);
  return Object.fromEntries(keys.map((key) => [key, read(o[key], `${where}.${key}`)])) as Record<K, T>;
}

function list<T>(json: unknown, where: string, read: Reader<T>): T[] {
  if (!Array.isArray(json)) invalid(`${where} is not a list`);
  return json.map((item, i) => read(item, `${where}[${i}]`));
}

function tuple(json: unknown, where: string, form: string): number[] {
  const count = form.split(",").length;
  if (!Array.isArray(json) || json.length !== count) invalid(`${where} is not [${form}]`);
  return json.map((item) => whole(item, where));
}

function triple(json: unknown, where: string): [number, number, number] {
  const [x, y, z] = tuple(json, where, "x, y, z") as [number, number, number];
  return [u32(x, where), u32(y, where), u32(z, where)];
}

function range(json: unknown, where: string): BufferRange {
  const [buffer, offset, size] = tuple(json, where, "buffer, offset, size") as [number, number, number];
  return { buffer, offset, size };
}

function piece(json: unknown, where: string): Piece {
  const form = "hostOffset, buffer, offset, size";
  const [hostOffset, buffer, offset, size] = tuple(json, where, form) as [number, number, number, number];
  return { hostOffset, range: { buffer, offset, size } };
}

const bufferKind = oneOf<BufferKind>(["storage", "weights", "params", "state", "arguments"]);
const bindingKind = oneOf<BindingKind>(["read", "write", "uniform"]);
const dtype = oneOf<DType>(["f32", "f16", "i32", "u32", "u8"]);
const reportKind = oneOf<PlanReport["kind"]>(["index", "finite", "room"]);
const precision = oneOf<Precision>(["f32", "f16"]);

function buffer(json: unknown, where: string): PlanBuffer {
  const o = object(json, where, ["label", "size", "kind", "dataOffset"]);
  return {
    label: label(o.label, `${where}.label`),
    size: whole(o.size, `${where}.size`),
    kind: bufferKind(o.kind, `${where}.kind`),
    dataOffset: whole(o.dataOffset, `${where}.dataOffset`),
  };
}

function kernel(json: unknown, where: string): PlanKernel {
  const o = object(json, where, ["name", "entry", "workgroupSize", "workgroupBytes", "bindings", "wgsl"]);
  return {
    name: label(o.name, `${where}.name`),
    entry: label(o.entry, `${where}.entry`),
    workgroupSize: triple(o.workgroupSize, `${where}.workgroupSize`),
    workgroupBytes: u32(o.workgroupBytes, `${where}.workgroupBytes`),
    bindings: list(o.bindings, `${where}.bindings`, bindingKind),
    wgsl: string(o.wgsl, `${where}.wgsl`),
  };
}

function step(json: unknown, where: string): Step {
  const op = typeof json === "object" && json !== null ? (json as { op?: unknown }).op : undefined;
  if (op === "copy") {
    const o = object(json, where, ["op", "from", "to"]);
    return { op, from: range(o.from, `${where}.from`), to: range(o.to, `${where}.to`) };
  }
  if (op === "clear") {
    const o = object(json, where, ["op", "range"]);
    return { op, range: range(o.range, `${where}.range`) };
  }
  if (op !== "dispatch") invalid(`${where} has the unknown op '${String(op)}'`);
  const o = object(json, where, ["op", "label", "kernel", "groups", "bindings", "flops", "bytes"]);
  return {
    op,
    label: label(o.label, `${where}.label`),
    kernel: u32(o.kernel, `${where}.kernel`),
    groups: triple(o.groups, `${where}.groups`),
    bindings: list(o.bindings, `${where}.bindings`, range),
    flops: number(o.flops, `${where}.flops`),
    bytes: number(o.bytes, `${where}.bytes`),
  };
}

const portKeys = ["name", "dtype", "shape", "pieces"] as const;

function portOf(o: Record<(typeof portKeys)[number], unknown>, where: string): PlanPort {
  return {
    name: label(o.name, `${where}.name`),
    dtype: dtype(o.dtype, `${where}.dtype`),
    shape: list(o.shape, `${where}.shape`, whole),
    pieces: list(o.pieces, `${where}.pieces`, piece),
  };
}

const port: Reader<PlanPort> = (json, where) => portOf(object(json, where, portKeys), where);

function state(json: unknown, where: string): PlanState {
  const o = object(json, where, [...portKeys, "start"] as const);
  return { ...portOf(o, where), start: o.start === null ? null : whole(o.start, `${where}.start`) };
}

function argument(json: unknown, where: string): PlanArgument {
  const o = object(json, where, ["name", "dtype", "least", "most", "offset"]);
  return {
    name: label(o.name, `${where}.name`),
    dtype: dtype(o.dtype, `${where}.dtype`),
    least: number(o.least, `${where}.least`),
    most: number(o.most, `${where}.most`),
    offset: whole(o.offset, `${where}.offset`),
  };
}

function report(json: unknown, where: string): PlanReport {
  const o = object(json, where, ["kind", "label"]);
  return { kind: reportKind(o.kind, `${where}.kind`), label: label(o.label, `${where}.label`) };
}

const planKeys = ["format", "precision", "needs", "features", "weights", "buffers", "kernels", "steps", "inputs",
  "outputs", "captures", "states", "arguments", "report", "reports"] as const;

/**
 * Reads a plan from the two files that the compiler writes and checks it completely: after this, nothing in it points
 * outside of its buffers. Throws a {@link GyrusError} "invalid-input" with one line that names the place.
 */
export function parsePlan(json: string, weights: Uint8Array): Plan {
  let parsed: unknown;
  try {
    parsed = JSON.parse(json);
  } catch (error) {
    invalid(`is not well-formed JSON: ${(error as Error).message}`);
  }
  const found = (parsed as { format?: unknown } | null)?.format;
  if (typeof found === "string" && found !== planFormat)
    invalid(`has the format '${found}'; this version reads '${planFormat}': compile or export the model again`);
  const o = object(parsed, "plan", planKeys);
  string(o.format, "plan.format");
  const bytes = whole(o.weights, "plan.weights");
  if (bytes !== weights.byteLength)
    invalid(`goes with a weights file of ${bytes} bytes; the one given has ${weights.byteLength}`);
  const plan: Plan = {
    precision: precision(o.precision, "plan.precision"),
    needs: each(o.needs, "plan.needs", limitNames, whole),
    features: features(o.features),
    buffers: list(o.buffers, "plan.buffers", buffer),
    kernels: list(o.kernels, "plan.kernels", kernel),
    steps: list(o.steps, "plan.steps", step),
    inputs: list(o.inputs, "plan.inputs", port),
    outputs: list(o.outputs, "plan.outputs", port),
    captures: list(o.captures, "plan.captures", port),
    states: list(o.states, "plan.states", state),
    arguments: list(o.arguments, "plan.arguments", argument),
    report: o.report === null ? null : range(o.report, "plan.report"),
    reports: list(o.reports, "plan.reports", report),
    weights,
  };
  checkConsistent(plan);
  return plan;
}
