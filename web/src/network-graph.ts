// Networks as data: what Trainer takes where there is no file.

import { GyrusError } from "./errors.js";
import { checkHostTensor } from "./host-tensors.js";
import type { HostDType, HostTensor } from "./types.js";

/** A value of a graph, by its name; null: an operand that is absent; a number: a scalar beside the first operand. */
export type Operand = string | number | null;

export type Attributes = Record<string, boolean | number | string | number[]>;

export interface GraphNode {
  /** One of docs/ops.md, or a layer or loss: see docs/web.md. */
  op: string;
  inputs: Operand[];
  attributes?: Attributes;
  /** Names of the results; those not named are dropped. */
  outputs: string[];
}

/** A network with its loss. Every value has a name of its own; nodes stand behind those that they read. */
export interface NetworkGraph {
  inputs: Record<string, { dtype: HostDType; shape: number[] }>;
  /** With their first values. Those that no node updates, and of f32, are trained. */
  parameters: Record<string, HostTensor>;
  constants?: Record<string, HostTensor>;
  nodes: GraphNode[];
  /** Names of values, or other names for them. */
  outputs: string[] | Record<string, string>;
  captures?: string[] | Record<string, string>;
}

/**
 * Builds a NetworkGraph line by line; values are their names.
 *
 * ```ts
 * const g = new GraphBuilder();
 * let x = g.input("image", "f32", [8, 1, 64, 64]);
 * x = g.op("conv", [x, g.random("conv.weight", [16, 1, 3, 3]), g.zeros("conv.bias", [16])], { pads: [1, 1, 1, 1] });
 * x = g.op("relu", [x]);
 * const y = g.output("y", g.op("conv", [x, g.random("head.weight", [4, 16, 1, 1]), g.zeros("head.bias", [4])]));
 * g.output("loss", g.op("cross_entropy", [y, g.input("labels", "i32", [8, 64, 64])]));
 * const trainer = await Trainer.create(device, g.graph);
 * ```
 */
export class GraphBuilder {
  readonly graph: NetworkGraph & { outputs: Record<string, string>; captures: Record<string, string> } =
    { inputs: {}, parameters: {}, constants: {}, nodes: [], outputs: {}, captures: {} };
  #random: () => number;

  /** `seed`: of the numbers that random() draws. */
  constructor(seed = 1) {
    this.#random = numbers(seed);
  }

  input(name: string, dtype: HostDType, shape: number[]): string {
    this.graph.inputs[name] = { dtype, shape };
    return name;
  }

  parameter(name: string, start: HostTensor): string {
    checkHostTensor(name, start);
    this.graph.parameters[name] = start;
    return name;
  }

  constant(name: string, value: HostTensor): string {
    checkHostTensor(name, value);
    this.graph.constants![name] = value;
    return name;
  }

  /** A parameter of numbers drawn evenly from ±√(6 / inputs), where `inputs`, of each output, are counted unless given. */
  random(name: string, shape: number[], inputs = shape.slice(1).reduce((product, n) => product * n, 1)): string {
    const bound = Math.sqrt(6 / Math.max(inputs, 1));
    return this.parameter(name, floats(shape, () => (2 * this.#random() - 1) * bound));
  }

  zeros(name: string, shape: number[]): string {
    return this.parameter(name, floats(shape, () => 0));
  }

  ones(name: string, shape: number[]): string {
    return this.parameter(name, floats(shape, () => 1));
  }

  /** The first result of an op, layer or loss. */
  op(op: string, inputs: Operand[], attributes: Attributes = {}, name = `${op}.${this.graph.nodes.length}`): string {
    this.graph.nodes.push({ op, inputs, attributes, outputs: [name] });
    return name;
  }

  output(name: string, value: string): string {
    this.graph.outputs[name] = value;
    return value;
  }

  /** A value that runs and steps give where they are asked for it. */
  capture(name: string, value: string): string {
    this.graph.captures[name] = value;
    return value;
  }
}

/** Even numbers in [0, 1) from a seed (mulberry32). */
function numbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

function floats(shape: number[], value: () => number): HostTensor {
  const data = new Float32Array(shape.reduce((product, n) => product * n, 1)).map(value);
  return { dtype: "f32", shape, data: new Uint8Array(data.buffer) };
}

const named = (ports: string[] | Record<string, string>): Record<string, string> =>
  Array.isArray(ports) ? Object.fromEntries(ports.map((name) => [name, name])) : ports;

/** The graph as the compiler reads it, and the tensors that go with it. */
export function graphJson(graph: NetworkGraph): { json: string; tensors: Record<string, HostTensor> } {
  const { inputs, parameters, constants = {}, nodes, outputs, captures = [] } = graph;
  for (const [name, tensor] of Object.entries({ ...parameters, ...constants })) checkHostTensor(name, tensor);
  const twice = Object.keys(constants).find((name) => Object.hasOwn(parameters, name));
  if (twice !== undefined)
    throw new GyrusError("invalid-input", `[${twice}] is the name of a parameter and of a constant; each is given once`);
  const json = {
    inputs: Object.entries(inputs).map(([name, { dtype, shape }]) => ({ name, dtype, shape })),
    parameters: Object.keys(parameters), constants: Object.keys(constants), nodes,
    outputs: named(outputs), captures: named(captures),
  };
  return { json: JSON.stringify(json), tensors: { ...parameters, ...constants } };
}
