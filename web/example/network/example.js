// Runs the plan of this folder on tensors from .npy files, or random ones, and shows what comes out. To take over:
// loadPlan, requestDevice and PlanExecutor are all that a page of your own needs (README.md).

import { GyrusError, PlanExecutor, loadPlan, peakBytes, requestDevice } from "./gyrus.js";
import { attempts, byId, fail, say } from "./page.js";

// ---- tensors ----

const arrays = { f32: Float32Array, f16: Uint16Array, i32: Int32Array, u32: Uint32Array, u8: Uint8Array };
const npyTypes = { f32: "<f4", f16: "<f2", i32: "<i4", u32: "<u4", u8: "|u1" };
const readTypes = {
  "<f4": Float32Array, "<f8": Float64Array, "<i4": Int32Array, "<u4": Uint32Array, "<i8": BigInt64Array, "|u1": Uint8Array,
  "|b1": Uint8Array, "|i1": Int8Array, "<i2": Int16Array, "<u2": Uint16Array,
};
const count = (shape) => shape.reduce((product, extent) => product * extent, 1);

/** The elements of a tensor as a typed array; halves as their bits. */
export const elements = ({ dtype, data }) =>
  new arrays[dtype](data.buffer, data.byteOffset, data.byteLength / arrays[dtype].BYTES_PER_ELEMENT);

/** A tensor for an input from the bytes of a .npy file of the same shape; numbers become those of the input. */
export function readNpy(bytes, port, name = port.name) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 10 || view.getUint32(0) !== 0x934e554d) fail(`[${name}] is no .npy file`);
  const wide = bytes[6] > 1;
  const start = (wide ? 12 : 10) + (wide ? view.getUint32(8, true) : view.getUint16(8, true));
  const head = new TextDecoder().decode(bytes.subarray(10, start));
  const type = /'descr':\s*'([^']+)'/.exec(head)?.[1];
  const shape = (/'shape':\s*\(([^)]*)\)/.exec(head)?.[1] ?? "").split(",").filter((n) => n.trim() !== "").map(Number);
  if (/'fortran_order':\s*True/.test(head)) fail(`[${name}] is in Fortran's order; save numpy.ascontiguousarray of it`);
  if (shape.join() !== port.shape.join()) fail(`[${name}] is [${shape}], this plan takes [${port.shape}]`);
  const Type = type === "<f2" && port.dtype === "f16" ? Uint16Array : readTypes[type];
  if (!Type || (port.dtype === "f16" && type !== "<f2")) fail(`[${name}] has elements of ${type}; save ${npyTypes[port.dtype]}`);
  const from = new Type(bytes.slice(start, start + count(shape) * Type.BYTES_PER_ELEMENT).buffer);
  if (from.length < count(shape)) fail(`[${name}] is cut off`);
  return { dtype: port.dtype, shape, data: new Uint8Array(arrays[port.dtype].from(from, Number).buffer) };
}

/** The bytes of a .npy file. */
export function writeNpy({ dtype, shape, data }) {
  const text = `{'descr': '${npyTypes[dtype]}', 'fortran_order': False, 'shape': (${shape.join(", ")}${shape.length === 1 ? "," : ""}), }`;
  const head = new TextEncoder().encode(text.padEnd(Math.ceil((text.length + 11) / 64) * 64 - 11) + "\n");
  return new Blob([Uint8Array.of(0x93, 78, 85, 77, 80, 89, 1, 0, head.length & 255, head.length >> 8), head, data]);
}

/** Floats from -1 to 1; integers 0 and 1, which are indices of nearly anything. */
function random({ dtype, shape }) {
  const make = () => (dtype === "f32" ? 2 * Math.random() - 1 : dtype === "f16" ? 0x3800 : Math.round(Math.random()));
  return { dtype, shape, data: new Uint8Array(arrays[dtype].from({ length: count(shape) }, make).buffer) };
}

// ---- the page ----

let executor, stopping;
const files = new Map(); // by input

/** What the last run gave. */
export let shown = null;

/** Runs the plan; inputs that are not given are random. */
export async function run(given = {}, options = {}) {
  const inputs = Object.fromEntries(executor.plan.inputs.map((port) => [port.name, given[port.name] ?? random(port)]));
  return executor.run(inputs, options);
}

function cell(row, tag, ...content) {
  const made = document.createElement(tag);
  made.append(...content);
  row.append(made);
  return made;
}

function showInputs() {
  byId("inputs").tBodies[0].replaceChildren(...executor.plan.inputs.map(({ name, dtype, shape }) => {
    const row = document.createElement("tr");
    cell(row, "th", name).scope = "row";
    cell(row, "td", `${dtype} [${shape.join(", ")}]`);
    const file = Object.assign(document.createElement("input"), { type: "file", accept: ".npy" });
    file.addEventListener("change", () => files.set(name, file.files[0]));
    const label = document.createElement("label");
    label.append("random, or a .npy file: ", file);
    cell(row, "td", label);
    return row;
  }));
}

function showOutputs(outputs) {
  byId("outputs").tBodies[0].replaceChildren(...Object.entries(outputs).map(([name, tensor]) => {
    const row = document.createElement("tr");
    cell(row, "th", name).scope = "row";
    cell(row, "td", `${tensor.dtype} [${tensor.shape.join(", ")}]`);
    const values = elements(tensor);
    let least = Infinity, most = -Infinity, sum = 0;
    for (const value of values) [least, most, sum] = [Math.min(least, value), Math.max(most, value), sum + value];
    const numbers = tensor.dtype === "f16" ? ["", "", ""] : [least, most, sum / values.length].map((n) => n.toPrecision(6));
    for (const number of numbers) cell(row, "td", number).className = "number";
    const save = Object.assign(document.createElement("a"), { download: `${name}.npy`, textContent: "Save .npy" });
    save.href = URL.createObjectURL(writeNpy(tensor));
    cell(row, "td", save);
    return row;
  }));
  byId("outputs").hidden = false;
}

const attempt = attempts(["run"], () => executor);

byId("run").addEventListener("click", () => attempt("Running…", async () => {
  const given = {};
  for (const port of executor.plan.inputs) {
    const file = files.get(port.name);
    if (file) given[port.name] = readNpy(new Uint8Array(await file.arrayBuffer()), port, file.name);
  }
  stopping = new AbortController();
  const onProgress = ({ fraction }) => (byId("progress").value = fraction);
  const { outputs, wallMs } = await run(given, { signal: stopping.signal, onProgress });
  shown = outputs;
  showOutputs(outputs);
  say(`Done in ${(wallMs / 1000).toFixed(3)} s.`);
}));
byId("stop").addEventListener("click", () => stopping?.abort());

/** Settles when the plan is loaded, or with what went wrong. */
export const ready = attempt("Loading…", async () => {
  const response = await fetch(new URL("export.json", import.meta.url));
  if (!response.ok) throw new GyrusError("io", `[export.json] could not be fetched: ${response.status}`);
  const [{ model }, plan] = [await response.json(), await loadPlan(new URL(".", import.meta.url))];
  document.title = byId("title").textContent = model;
  const { device, report } = await requestDevice();
  device.lost.then(({ reason, message }) => {
    if (reason !== "destroyed") say("", `[device] was lost: ${message} Reload the page.`);
  });
  executor = await PlanExecutor.create(device, plan,
    { checkFinite: false, onCompiled: (done, total) => say(`Compiling kernel ${done} of ${total}…`) });
  byId("about").textContent =
    `In ${plan.precision}, ${(peakBytes(plan) / 2 ** 20).toFixed(1)} MiB of GPU memory, on ${report.adapter}.`;
  showInputs();
  say("Ready.");
});
