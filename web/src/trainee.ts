// A network with its loss inside the compiler that knows gradients, gyrus-train.wasm.

import { GyrusError } from "./errors.js";
import { graphJson, type NetworkGraph } from "./network-graph.js";
import type { NamedBytes, NetworkPlan, NetworkRequest } from "./types.js";
import { Wasm, type WasmSource } from "./wasm.js";

/** The network of a file: an ONNX file or a model's folder, whose weights become parameters. */
export interface NetworkFiles {
  files: NamedBytes[];
  name?: string;
  /** Which of several files is the model. */
  main?: string;
  /** Of its inputs, those that the file fixes left out; a model's folder has "image", [batch, channels, extents…]. */
  shapes: Record<string, number[]>;
  /** What is made smaller: one loss, or the sum of several. */
  loss: Loss | Loss[];
}

/** A loss of an output of a network against an input that it brings. */
export interface Loss {
  /** "cross_entropy", "dice", "mse" …: see docs/web.md. */
  op: string;
  /** The output; the first unless given. */
  output?: string;
  /** The input's name, "target" unless given; losses of one name share it. Classes (i32, without the axis of channels)
   *  for losses of classes, else numbers in the output's shape. */
  target?: string;
  weight?: number; // 1 unless given
  attributes?: Record<string, boolean | number | string>;
}

export type StepKind = "update" | "collect" | "inference" | "forward";

/** The compiler for training; several trainers may share one. */
export class TrainingCompiler {
  readonly wasm: Wasm;

  private constructor(wasm: Wasm) {
    this.wasm = wasm;
  }

  /** The module's bytes, a response that brings them, or where they lie; gyrus-train.wasm beside this script by default. */
  static async load(options: { wasm?: WasmSource } = {}): Promise<TrainingCompiler> {
    return new TrainingCompiler(await Wasm.load(options.wasm ?? new URL("./gyrus-train.wasm", import.meta.url)));
  }

  get version(): string {
    return this.wasm.cText("gyrus_version");
  }
}

export class Trainee {
  readonly names: string[]; // of the parameters that are trained
  readonly shapes: Record<string, number[]>; // of the inputs, as the network was given
  readonly arguments: string[];
  #wasm: Wasm;
  #handle: number;

  /** `options`: as web/wasm/train.cpp reads them. */
  constructor({ wasm }: TrainingCompiler, network: NetworkGraph | NetworkFiles, options: object) {
    this.#wasm = wasm;
    this.#handle = wasm.check("gyrus_trainee_new");
    try {
      if ("files" in network) this.#open(network, JSON.stringify(options));
      else this.#build(network, JSON.stringify(options));
      const about = JSON.parse(wasm.text()) as Pick<Trainee, "names" | "shapes" | "arguments">;
      this.names = about.names;
      this.shapes = about.shapes;
      this.arguments = about.arguments;
    } catch (error) {
      this.close();
      throw error;
    }
  }

  plan(kind: StepKind, request: NetworkRequest): NetworkPlan {
    if (this.#handle === 0) throw new GyrusError("cancelled", "[trainer] was destroyed; create a new one");
    this.#wasm.check("gyrus_trainee_plan", this.#handle, kind, JSON.stringify(request));
    const json = this.#wasm.text();
    const ports = JSON.parse(this.#wasm.cText("gyrus_network_ports")) as Omit<NetworkPlan, "json" | "weights">;
    return { json, weights: this.#wasm.data(), ...ports };
  }

  /** Of step 0, 1, … */
  rate(schedule: object, step: number): number {
    this.#wasm.check("gyrus_learning_rate", JSON.stringify(schedule), step);
    return JSON.parse(this.#wasm.text()) as number;
  }

  close(): void {
    if (this.#handle !== 0) this.#wasm.call("gyrus_trainee_close", this.#handle);
    this.#handle = 0;
  }

  #build(graph: NetworkGraph, options: string): void {
    const { json, tensors } = graphJson(graph);
    for (const [name, { dtype, shape, data }] of Object.entries(tensors))
      this.#wasm.check("gyrus_trainee_tensor", this.#handle, name, JSON.stringify({ dtype, shape }), data);
    this.#wasm.check("gyrus_trainee_graph", this.#handle, json, options);
  }

  #open({ files, main, name, shapes, loss }: NetworkFiles, options: string): void {
    const chosen = main ?? (files.length === 1 ? files[0]!.name : "");
    const folder = this.#wasm.check("gyrus_files_new", name ?? chosen, chosen);
    try {
      for (const file of files) this.#wasm.check("gyrus_files_add", folder, file.name, file.bytes);
    } catch (error) {
      this.#wasm.call("gyrus_files_close", folder);
      throw error;
    }
    const losses = JSON.stringify(Array.isArray(loss) ? loss : [loss]);
    this.#wasm.check("gyrus_trainee_network", this.#handle, folder, JSON.stringify(shapes), losses, options);
  }
}
