// Networks whose training PyTorch ran in float64, as graphs with a loss: those of tests/support/training_nets.cpp.

import { GraphBuilder, type Operand } from "../../../web/src/network-graph.js";
import type { TrainerOptions } from "../../../web/src/trainer.js";
import type { HostDType, HostTensor } from "../../../web/src/types.js";

export type Read = (path: string) => Promise<Uint8Array>; // a file of the test data

export interface TrainingNet {
  graph: GraphBuilder["graph"]; // outputs "y" and "loss"
  options: TrainerOptions;
  inputs: Record<string, HostTensor>;
  losses: number[]; // of every step
  gradients: Record<string, HostTensor>;
  final: Record<string, HostTensor>;
  captures: Record<string, HostTensor>;
}

type Tensors = Record<string, HostTensor>;

const fileTypes: Record<string, HostDType> = { F32: "f32", I32: "i32", U8: "u8", BOOL: "bool", I64: "i64" };

// Tensors of a file; those of f64 as f32, and as numbers in `doubles`.
function tensorsOf(file: Uint8Array): { tensors: Tensors; doubles: Record<string, number[]> } {
  const size = Number(new DataView(file.buffer, file.byteOffset).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(file.subarray(8, 8 + size))) as
    Record<string, { dtype: string; shape: number[]; data_offsets: [number, number] }>;
  const tensors: Tensors = {};
  const doubles: Record<string, number[]> = {};
  const { __metadata__: _, ...entries } = header;
  for (const [name, { dtype, shape, data_offsets: [begin, end] }] of Object.entries(entries)) {
    const data = file.slice(8 + size + begin, 8 + size + end);
    if (dtype === "F64") {
      doubles[name] = Array.from(new Float64Array(new Uint8Array(data).buffer));
      tensors[name] = { dtype: "f32", shape, data: new Uint8Array(Float32Array.from(doubles[name]).buffer) };
    } else {
      tensors[name] = { dtype: fileTypes[dtype]!, shape, data: new Uint8Array(data) };
    }
  }
  return { tensors, doubles };
}

const withPrefix = (all: Tensors, prefix: string): Tensors => Object.fromEntries(Object.entries(all)
  .filter(([name]) => name.startsWith(prefix)).map(([name, tensor]) => [name.slice(prefix.length), tensor]));

const json = async (read: Read, path: string) => JSON.parse(new TextDecoder().decode(await read(path)));
const file = async (read: Read, path: string) => tensorsOf(await read(path));

// A graph in the making, with its parameters and inputs.
class Net {
  readonly g = new GraphBuilder();
  readonly inputs: Tensors = {};
  #start: Tensors;

  constructor(start: Tensors) {
    this.#start = start;
    for (const [name, tensor] of Object.entries(start)) this.g.parameter(name, tensor);
  }

  input(name: string, tensor: HostTensor): string {
    this.inputs[name] = tensor;
    return this.g.input(name, tensor.dtype, tensor.shape);
  }

  orNone(name: string): Operand {
    return Object.hasOwn(this.#start, name) ? name : null;
  }

  op(...given: Parameters<GraphBuilder["op"]>): string {
    return this.g.op(...given);
  }
}

interface Config {
  dilations: number[];
  eps: number;
  activation: string;
  groups: number;
  dice_weight: number;
  heads: number;
  layers: number;
  head_dim: number;
  rope_base: number;
  rope_interleaved: boolean;
}

function buildMeshnet(net: Net, config: Config, given: Tensors): void {
  let x = net.input("x", given["input/x"]!);
  const target = net.input("target", given["input/target"]!);
  config.dilations.forEach((d, i) => {
    const pads = Array<number>(6).fill(d);
    x = net.op("conv", [x, `layers.${i}.weight`], { dilation: [d, d, d], pads });
    x = net.op("instance_norm", [x, net.orNone(`layers.${i}.gamma`), net.orNone(`layers.${i}.beta`)], { eps: config.eps });
    x = net.op(config.activation, [x]);
  });
  const y = net.g.output("y", net.op("conv", [x, "head.weight", "head.bias"]));
  net.g.output("loss", net.op("cross_entropy", [y, target]));
}

function buildUnet(net: Net, { groups, eps, dice_weight: weight }: Config, given: Tensors): void {
  const block = (x: string, name: string) => {
    x = net.op("conv", [x, `${name}.conv.weight`], { pads: [1, 1, 1, 1] });
    return net.op("silu", [net.op("group_norm", [x, `${name}.norm.weight`, `${name}.norm.bias`], { groups, eps })]);
  };
  const down = (x: string, name: string) =>
    net.op("conv", [x, `${name}.weight`, `${name}.bias`], { stride: [2, 2], pads: [1, 1, 1, 1] });
  const up = (x: string, name: string) =>
    net.op("conv_transpose", [x, `${name}.weight`, `${name}.bias`], { stride: [2, 2] });
  const image = net.input("x", given["input/x"]!);
  const target = net.input("target", given["input/target"]!);
  const s0 = block(block(image, "enc0.0"), "enc0.1");
  const s1 = block(down(s0, "down0"), "enc1.0");
  let x = up(block(down(s1, "down1"), "mid"), "up1");
  x = up(block(net.op("concat", [s1, x], { axis: 1 }), "dec1"), "up0");
  x = block(net.op("concat", [s0, x], { axis: 1 }), "dec0");
  const y = net.g.output("y", net.op("conv", [x, "head.weight", "head.bias"]));
  const dice = net.op("mul", [net.op("dice", [y, target], { batch: true }), weight]);
  net.g.output("loss", net.op("add", [net.op("cross_entropy", [y, target]), dice]));
}

// [B, S, heads * D] to [B, heads, S, D], and back.
const headsOf = (net: Net, x: string, [b, s]: number[], heads: number) =>
  net.op("transpose", [net.op("reshape", [x], { shape: [b!, s!, heads, -1] })], { perm: [0, 2, 1, 3] });
const joined = (net: Net, x: string, [b, s]: number[]) =>
  net.op("reshape", [net.op("transpose", [x], { perm: [0, 2, 1, 3] })], { shape: [b!, s!, -1] });

function buildEncoder(net: Net, { eps, heads, layers, activation }: Config, given: Tensors): void {
  const shape = given["input/x"]!.shape;
  let x = net.input("x", given["input/x"]!);
  const mask = net.input("mask", given["input/mask"]!);
  const target = net.input("target", given["input/target"]!);
  const seen = net.op("reshape", [mask], { shape: [shape[0]!, 1, 1, shape[1]!] });
  for (let i = 0; i < layers; ++i) {
    const layer = `layers.${i}.`;
    const projected = (h: string, name: string) =>
      net.op("linear", [h, `${layer}${name}.weight`, net.orNone(`${layer}${name}.bias`)]);
    const norm = (name: string) => net.op("layer_norm", [x, `${layer}${name}.weight`, `${layer}${name}.bias`], { axis: -1, eps });
    let h = norm("norm1");
    const [q, k, v] = ["q", "k", "v"].map((name) => headsOf(net, projected(h, name), shape, heads)) as [string, string, string];
    x = net.op("add", [x, projected(joined(net, net.op("attention", [q, k, v, seen]), shape), "out")]);
    h = norm("norm2");
    x = net.op("add", [x, projected(net.op(activation, [projected(h, "up")]), "down")]);
  }
  const y = net.g.output("y", net.op("layer_norm", [x, "norm.weight", "norm.bias"], { axis: -1, eps }));
  const here = net.op("cast", [net.op("reshape", [mask], { shape: [shape[0]!, shape[1]!, 1] })], { to: "f32" });
  const error = net.op("reduce_sum", [net.op("mul", [net.op("square", [net.op("sub", [y, target])]), here])]);
  net.g.output("loss", net.op("div", [error, net.op("mul", [net.op("reduce_sum", [here]), shape[2]!])]));
}

function buildLm(net: Net, config: Config, given: Tensors): void {
  const { eps, head_dim: depth } = config;
  const tokens = net.input("tokens", given["input/train_tokens"]!);
  const [rows, columns] = given["input/train_tokens"]!.shape as [number, number];
  const shape = [rows, columns - 1];
  const target = net.op("slice", [tokens], { starts: [0, 1], ends: [rows, columns] });
  let x = net.op("embedding", ["embed.weight", net.op("slice", [tokens], { starts: [0, 0], ends: shape })]);
  const turn = { base: config.rope_base, interleaved: config.rope_interleaved };
  for (let i = 0; i < config.layers; ++i) {
    const layer = `layers.${i}.`;
    const projected = (h: string, name: string) => net.op("linear", [h, `${layer}${name}.weight`]);
    let h = net.op("rms_norm", [x, `${layer}attn_norm.weight`], { axis: -1, eps });
    const heads = (name: string) => headsOf(net, projected(h, name), shape,
      net.g.graph.parameters[`${layer}${name}.weight`]!.shape[0]! / depth);
    const seen = net.op("attention", [net.op("rope", [heads("q")], turn), net.op("rope", [heads("k")], turn), heads("v")],
      { causal: true });
    x = net.op("add", [x, projected(joined(net, seen, shape), "out")]);
    h = net.op("rms_norm", [x, `${layer}mlp_norm.weight`], { axis: -1, eps });
    const gated = net.op("mul", [net.op("silu", [projected(h, "gate")]), projected(h, "up")]);
    x = net.op("add", [x, projected(gated, "down")]);
  }
  const y = net.g.output("y", net.op("linear", [net.op("rms_norm", [x, "norm.weight"], { axis: -1, eps }), "head.weight"]));
  net.g.output("loss", net.op("cross_entropy", [net.op("transpose", [y], { perm: [0, 2, 1] }), target]));
}

interface OptimizerJson {
  kind: "sgd" | "adam" | "adamw";
  lr: number;
  momentum?: number;
  nesterov?: boolean;
  weight_decay?: number;
  eps?: number;
  betas?: [number, number];
  clip_grad_norm?: number;
  decayed?: string[];
}

function optionsOf(o: OptimizerJson): TrainerOptions {
  const weightDecay = o.weight_decay ?? 0;
  const options: TrainerOptions = {
    schedule: { rate: o.lr },
    optimizer: { kind: o.kind, weightDecay, momentum: o.momentum ?? 0, nesterov: o.nesterov ?? false, eps: o.eps ?? 1e-8 },
  };
  if (o.betas) Object.assign(options.optimizer!, { beta1: o.betas[0], beta2: o.betas[1] });
  if (o.clip_grad_norm !== undefined) options.clipNorm = o.clip_grad_norm;
  if (o.decayed)
    options.groups = [...o.decayed.map((pattern) => ({ pattern, weightDecay })), { pattern: "*", weightDecay: 0 }];
  return options;
}

/** "adam", "adamw" or "sgd" of the test data's training. */
export async function smallMeshnet(read: Read, optimizer: "adam" | "adamw" | "sgd"): Promise<TrainingNet> {
  const tensors = async (name: string) => (await file(read, `training/${name}.safetensors`)).tensors;
  const [batch, start, captures] = [await tensors("batch"), await tensors("init"), await tensors("captures_step0")];
  for (const tensor of Object.values(captures)) tensor.shape = [1, ...tensor.shape];
  const net = new Net(start);
  let x = net.input("image", batch.image!);
  const target = net.input("labels", batch.labels!);
  [1, 2, 4, 1].forEach((d, i) => {
    x = net.op("conv", [x, `conv${i}.weight`, `conv${i}.bias`], { dilation: [d, d, d], pads: Array<number>(6).fill(d) });
    x = net.op("gelu", [net.op("group_norm", [x, `norm${i}.weight`, `norm${i}.bias`], { groups: 5 })]);
    net.g.capture(`layer${i}`, x);
  });
  const y = net.g.output("y", net.op("conv", [x, "head.weight", "head.bias"]));
  net.g.output("loss", net.op("cross_entropy", [y, target]));
  const more = { sgd: { momentum: 0.9 }, adam: {}, adamw: { weightDecay: 0.01 } }[optimizer];
  return {
    graph: net.g.graph, inputs: net.inputs, captures,
    options: { optimizer: { kind: optimizer, ...more }, schedule: { rate: optimizer === "sgd" ? 0.1 : 0.01 } },
    losses: (await json(read, "training/losses.json"))[optimizer].loss_f64 as number[],
    gradients: await tensors("grads_step0"), final: await tensors(`final_${optimizer}`),
  };
}

/** "meshnet3d", "unet2d", "encoder" or "lm" of the test data's goldens. */
export async function goldenNet(read: Read, name: string): Promise<TrainingNet> {
  const about = await json(read, `goldens/net_${name}.json`);
  const { tensors, doubles } = await file(read, `goldens/net_${name}.safetensors`);
  const net = new Net(withPrefix(tensors, "param/"));
  const build = { meshnet3d: buildMeshnet, unet2d: buildUnet, encoder: buildEncoder, lm: buildLm }[name]!;
  build(net, about.config as Config, tensors);
  return {
    graph: net.g.graph, inputs: net.inputs, options: optionsOf(about.optimizer as OptimizerJson), captures: {},
    losses: doubles[about.losses as string]!, gradients: withPrefix(tensors, "grad/"), final: withPrefix(tensors, "final/"),
  };
}

// ---- comparing ----

const numbers = ({ data }: HostTensor) => new Float32Array(new Uint8Array(data).buffer);

/** Σ (a - b)² / Σ b². */
export function nmse(found: HostTensor, wanted: HostTensor): number {
  const [a, b] = [numbers(found), numbers(wanted)];
  let [error, sum] = [0, 0];
  b.forEach((value, i) => {
    error += (a[i]! - value) ** 2;
    sum += value ** 2;
  });
  return a.length === b.length ? error / Math.max(sum, 1e-300) : Infinity;
}

export const largest = (tensor: HostTensor) => numbers(tensor).reduce((most, value) => Math.max(most, Math.abs(value)), 0);

/** The largest error over the largest value. */
export function largestError(found: HostTensor, wanted: HostTensor): number {
  const b = numbers(wanted);
  const error = numbers(found).reduce((most, value, i) => Math.max(most, Math.abs(value - b[i]!)), 0);
  return error / Math.max(largest(wanted), 1e-30);
}

/** Biases before a norm, whose true gradient is zero. */
export const isFree = (name: string) => /^conv.*\.bias$/.test(name);
