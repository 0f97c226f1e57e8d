// ONNX for tests: the public node tests as they lie in the test data, and small files written here.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Compiler } from "../../../web/src/compiler.js";
import type { Program } from "../../../web/src/program.js";
import type { HostTensor } from "../../../web/src/types.js";
import { sourceFolder } from "./native.js";
import { toNumbers } from "./tensors.js";

export interface OnnxCase {
  name: string;
  op: string;
  bind: Set<string>; // inputs whose values decide shapes
  rtol: number;
  atol: number;
}

/** The cases of index.tsv, as tests/support/onnx_cases.h reads them. */
export function onnxCases(folder: string): OnnxCase[] {
  const lines = readFileSync(join(folder, "index.tsv"), "utf8").split("\n");
  return lines.filter((line) => line !== "" && !line.startsWith("#")).map((line) => {
    const fields = line.split("\t");
    const bind = new Set(fields[5] === "-" ? [] : fields[5]!.split(","));
    // The expanded twins read it too, which the index does not say.
    if (fields[0]!.includes("affine_grid")) bind.add("size");
    return { name: fields[0]!, op: fields[1]!, bind, rtol: Number(fields[7]), atol: Number(fields[8]) };
  });
}

/** Names of the tests that gyrus refuses. */
export function refusedCases(): Set<string> {
  const lines = readFileSync(join(sourceFolder, "tests/data/onnx_refused.tsv"), "utf8").split("\n");
  return new Set(lines.filter((line) => line !== "" && !line.startsWith("#")).map((line) => line.split("\t")[0]!));
}

type Stored = HostTensor & { type: string };

/** A set of inputs and outputs, in the order of the model's ports. */
export function readSet(compiler: Compiler, folder: string): { inputs: Stored[]; outputs: Stored[] } {
  const read = (kind: string) => {
    const all: Stored[] = [];
    for (let path; existsSync((path = join(folder, `${kind}_${all.length}.pb`))); )
      all.push(compiler.readTensor(readFileSync(path), path));
    return all;
  };
  return { inputs: read("input"), outputs: read("output") };
}

/** What is wrong with the results, in a sentence; empty: nothing. */
export function difference(
  program: Program, found: Record<string, HostTensor>, wanted: Stored[], { rtol, atol }: { rtol: number; atol: number },
): string {
  for (const [i, want] of wanted.entries()) {
    const { name, type } = program.outputs[i]!;
    const got = found[name];
    if (!got) return `${name} is missing`;
    const [is, should] = [got, want].map(({ dtype, shape }) => `${dtype}[${shape.join()}]`);
    if (is !== should || type !== want.type) return `${name} is ${type} ${is}, expected ${want.type} ${should}`;
    const exact = want.dtype !== "f32" && want.dtype !== "f16";
    const [a, b] = [toNumbers(got), toNumbers(want)];
    for (let k = 0; k < b.length; ++k) {
      const [x, y] = [a[k]!, b[k]!];
      const fits = Number.isNaN(y) ? Number.isNaN(x) : Number.isFinite(y)
        ? Math.abs(x - y) <= (exact ? 0 : atol + rtol * Math.abs(y)) : x === y;
      if (!fits) return `${name}[${k}] of [${want.shape.join()}] is ${x}, expected ${y}`;
    }
  }
  return "";
}

// ---- writing: messages are bytes, put together field by field ----

const join2 = (parts: Uint8Array[]) => new Uint8Array(Buffer.concat(parts));

function varint(value: bigint): number[] {
  const bytes: number[] = [];
  for (let rest = BigInt.asUintN(64, value); ; rest >>= 7n) {
    if (rest < 128n) return [...bytes, Number(rest)];
    bytes.push(Number(rest & 127n) | 128);
  }
}

const number = (field: number, value: number) => Uint8Array.from([...varint(BigInt(field << 3)), ...varint(BigInt(value))]);

function text(field: number, content: string | Uint8Array): Uint8Array {
  const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
  return join2([Uint8Array.from([...varint(BigInt((field << 3) | 2)), ...varint(BigInt(bytes.length))]), bytes]);
}

const types = { f32: 1, i64: 7, bool: 9 } as const;
type Type = keyof typeof types;

/** An input or output; names are extents that are not fixed. */
export function value(name: string, type: Type, dims: (number | string)[]): Uint8Array {
  const extents = dims.map((dim) => text(1, typeof dim === "number" ? number(1, dim) : text(2, dim)));
  return join2([text(1, name), text(2, text(1, join2([number(1, types[type]), text(2, join2(extents))])))]);
}

/** An initializer; where `file` is given its bytes lie there, from `offset` on. */
export function tensor(
  name: string, type: Type, dims: number[], data: Uint8Array, file?: { name: string; offset: number },
): Uint8Array {
  const head = [...dims.map((extent) => number(1, extent)), number(2, types[type]), text(8, name)];
  if (!file) return join2([...head, text(9, data)]);
  const entry = (key: string, content: string) => text(13, join2([text(1, key), text(2, content)]));
  const where = [entry("location", file.name), entry("offset", String(file.offset)), entry("length", String(data.length))];
  return join2([...head, ...where, number(14, 1)]);
}

export function node(op: string, inputs: string[], outputs: string[], ints: Record<string, number[] | number> = {}) {
  const attributes = Object.entries(ints).map(([name, given]) => text(5, join2(Array.isArray(given)
    ? [text(1, name), ...given.map((each) => number(8, each)), number(20, 7)]
    : [text(1, name), number(3, given), number(20, 2)])));
  return join2([...inputs.map((name) => text(1, name)), ...outputs.map((name) => text(2, name)), text(3, `${op}_node`),
    text(4, op), ...attributes]);
}

export interface OnnxParts {
  nodes: Uint8Array[];
  inputs: Uint8Array[];
  outputs: Uint8Array[];
  initializers?: Uint8Array[];
}

/** A model of opset 21. */
export function onnxFile({ nodes, inputs, outputs, initializers = [] }: OnnxParts): Uint8Array {
  const graph = join2([...nodes.map((each) => text(1, each)), text(2, "small"), ...initializers.map((each) => text(5, each)),
    ...inputs.map((each) => text(11, each)), ...outputs.map((each) => text(12, each))]);
  return join2([number(1, 10), text(2, "gyrus tests"), text(7, graph), text(8, join2([text(1, ""), number(2, 21)]))]);
}
