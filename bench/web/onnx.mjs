// A network as an ONNX file: just enough protobuf for a chain of Conv and Relu. Field numbers are those of onnx.proto.

import { size } from "./networks.mjs";

function varint(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return [...bytes, value];
}

function join(parts) {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

const number = (field, value) => Uint8Array.from([...varint(field << 3), ...varint(value)]);
const bytes = (field, data) => join([Uint8Array.from([...varint((field << 3) | 2), ...varint(data.length)]), data]);
const text = (field, string) => bytes(field, new TextEncoder().encode(string));
const message = (field, ...parts) => bytes(field, join(parts));

const ints = (name, values) => message(5, text(1, name), ...values.map((value) => number(8, value)), number(20, 7));

function tensor(name, shape, values) {
  const raw = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  return message(5, ...shape.map((extent) => number(1, extent)), number(2, 1), text(8, name), bytes(9, raw));
}

function port(field, name, channels) {
  const dims = [1, channels, size, size, size].map((extent) => message(1, number(1, extent)));
  return message(field, text(1, name), message(2, message(1, number(1, 1), message(2, ...dims))));
}

function node(type, name, inputs, output, ...attributes) {
  return message(1, ...inputs.map((input) => text(1, input)), text(2, output), text(3, name), text(4, type),
    ...attributes);
}

// Input "image" f32 [1, C, size³], output "logits".
export function onnx({ layers }) {
  const parts = [text(2, "network")];
  let x = "image";
  layers.forEach(({ channels, outputs, k, dilation, relu, weight, bias }, i) => {
    const last = i === layers.length - 1;
    const y = last && !relu ? "logits" : `conv${i}`;
    const pad = ((k - 1) / 2) * dilation;
    parts.push(tensor(`w${i}`, [outputs, channels, k, k, k], weight), tensor(`b${i}`, [outputs], bias));
    parts.push(node("Conv", `conv${i}`, [x, `w${i}`, `b${i}`], y, ints("kernel_shape", [k, k, k]),
      ints("dilations", Array(3).fill(dilation)), ints("pads", Array(6).fill(pad))));
    x = y;
    if (!relu) return;
    x = last ? "logits" : `relu${i}`;
    parts.push(node("Relu", `relu${i}`, [y], x));
  });
  parts.push(port(11, "image", layers[0].channels), port(12, "logits", layers.at(-1).outputs));
  return join([number(1, 8), message(7, ...parts), message(8, text(1, ""), number(2, 17))]);
}
