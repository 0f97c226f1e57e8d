// The contestants, each with one contract: open(network, files) gives { adapter, run, … }, and run() takes the image
// from the host's memory, runs the network and resolves with the logits there, [O, size³] after finish().

import * as tf from "@tensorflow/tfjs-core";
import "@tensorflow/tfjs-backend-webgpu";
import * as ort from "onnxruntime-web/webgpu";
import { Compiler } from "../../web/src/compiler.ts";
import { requestDevice } from "../../web/src/device.ts";
import { PlanExecutor } from "../../web/src/executor.ts";
import { parsePlan } from "../../web/src/plan.ts";
import { input, size } from "./networks.mjs";
import { onnx } from "./onnx.mjs";

const voxels = size ** 3;

function safetensors(tensors) {
  const header = {};
  let at = 0;
  for (const { name, shape, values } of tensors)
    header[name] = { dtype: "F32", shape, data_offsets: [at, (at += values.byteLength)] };
  const head = new TextEncoder().encode(JSON.stringify(header));
  const file = new Uint8Array(8 + head.length + at);
  new DataView(file.buffer).setBigUint64(0, BigInt(head.length), true);
  file.set(head, 8);
  at = 8 + head.length;
  for (const { values } of tensors) {
    file.set(new Uint8Array(values.buffer, values.byteOffset, values.byteLength), at);
    at += values.byteLength;
  }
  return file;
}

function gyrusModel({ layers }) {
  const list = layers.map(({ channels, outputs, k, dilation }) => ({
    in_channels: channels, out_channels: outputs, kernel_size: k, padding: ((k - 1) / 2) * dilation, stride: 1,
    dilation,
  }));
  const json = { header: "", bnorm: false, bias: true, dropout_p: 0, layers: list };
  const weights = layers.flatMap(({ channels, outputs, k, weight, bias }, i) => [
    { name: `model.${2 * i}.weight`, shape: [outputs, channels, k, k, k], values: weight },
    { name: `model.${2 * i}.bias`, shape: [outputs], values: bias },
  ]);
  return [
    { name: "model.json", bytes: new TextEncoder().encode(JSON.stringify(json)) },
    { name: "model.pth", bytes: safetensors(weights) },
  ];
}

let open; // gyrus's device, shared by the networks

async function gyrus(network, files) {
  open ??= await requestDevice();
  const compiler = await Compiler.load({ wasm: files.gyrus });
  const compiled = compiler.openModel(gyrusModel(network), "network").plan({
    spatial: [size, size, size], input: "f32", clamp: false, output: "logits", precision: "f32", limits: open.limits,
    software: open.report.software,
  });
  const executor = await PlanExecutor.create(open.device, parsePlan(compiled.json, compiled.weights));
  const bytes = (values) => new Uint8Array(values.buffer);
  const number = (value) => ({ dtype: "f32", shape: [1], data: bytes(Float32Array.of(value)) });
  const shape = [1, network.layers[0].channels, size, size, size];
  const inputs = {
    image: { dtype: "f32", shape, data: bytes(input(network)) },
    scale: number(1),
    shift: number(0),
  };
  return {
    adapter: `${open.report.adapter}${open.report.software ? ", planned for a CPU" : ""}`,
    run: async () => new Float32Array((await executor.run(inputs)).outputs.logits.data.buffer),
    steps: async () => (await executor.run(inputs, { profile: true })).profile,
  };
}

async function onnxruntime(network, files) {
  ort.env.wasm.numThreads = 1; // of the CPU's side; the network runs on the device
  ort.env.wasm.wasmBinary = files.onnxruntime;
  ort.env.logLevel = "error";
  const session = await ort.InferenceSession.create(onnx(network), {
    executionProviders: ["webgpu"],
    extra: { session: { disable_cpu_ep_fallback: "1" } }, // fails, where otherwise a layer would move to the CPU
  });
  const image = new ort.Tensor("float32", input(network), [1, network.layers[0].channels, size, size, size]);
  return { adapter: "", run: async () => (await session.run({ image })).logits.data };
}

// [C, voxels] to [voxels, C], tfjs's order of channels, or back.
function transposed(values, rows) {
  const columns = values.length / rows;
  return Float32Array.from(values, (_, i) => values[(i % rows) * columns + Math.floor(i / rows)]);
}

// [O, C, taps] to [taps, C, O].
function kernel({ channels, outputs, k, weight }) {
  const taps = k ** 3;
  const at = (tap, c, o) => weight[(o * channels + c) * taps + tap];
  const values = Float32Array.from(weight, (_, i) =>
    at(Math.floor(i / (channels * outputs)), Math.floor(i / outputs) % channels, i % outputs));
  return tf.tensor5d(values, [k, k, k, channels, outputs]);
}

async function tfjs(network) {
  await tf.setBackend("webgpu");
  await tf.ready();
  const layers = network.layers.map((layer) => ({ ...layer, weight: kernel(layer), bias: tf.tensor1d(layer.bias) }));
  const image = transposed(input(network), network.layers[0].channels);
  const forward = () => tf.tidy(() => {
    let x = tf.tensor5d(image, [1, size, size, size, network.layers[0].channels]);
    for (const { outputs, weight, bias, dilation, relu } of layers) {
      x = tf.conv3d(x, weight, 1, "same", "NDHWC", dilation);
      // As two axes: the kernel that adds to a tensor of five does not compile.
      x = tf.add(tf.reshape(x, [voxels, outputs]), bias);
      x = tf.reshape(relu ? tf.relu(x) : x, [1, size, size, size, outputs]);
    }
    return x;
  });
  return {
    adapter: "",
    run: async () => {
      const y = forward();
      const values = await y.data();
      y.dispose();
      return values;
    },
    finish: (values) => transposed(values, voxels),
  };
}

export const contestants = { gyrus, "onnxruntime-web": onnxruntime, tfjs };
