// Runs the plan of this folder on a volume and shows the labels. To take over: loadPlan, requestDevice and PlanExecutor
// are all that a page of your own needs (README.md).

import { GyrusError, PlanExecutor, loadPlan, peakBytes, requestDevice } from "./gyrus.js";
import { attempts, byId, fail, say } from "./page.js";

// ---- a scan ----

const elementTypes = {
  2: Uint8Array, 256: Int8Array, 4: Int16Array, 512: Uint16Array, 8: Int32Array, 768: Uint32Array, 16: Float32Array,
  64: Float64Array,
};

async function inflate(bytes) {
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return bytes;
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const standardAxes = [0, 1, 2].map((axis) => ({ axis, flipped: false }));

// Which axis of the file runs towards right, front and top, and whether backwards; by the sform.
function axesOf(header) {
  if (header.getInt16(254, true) <= 0) return standardAxes;
  const free = new Set([0, 1, 2]);
  return [280, 296, 312].map((at) => {
    const row = [0, 4, 8].map((offset) => header.getFloat32(at + offset, true));
    const [axis] = [...free].sort((a, b) => Math.abs(row[b]) - Math.abs(row[a]));
    free.delete(axis);
    return { axis, flipped: row[axis] < 0 };
  });
}

/** Dimensions and values (x fastest, slope applied) of a NIfTI-1 file, gzipped or not. */
export async function readNifti(file) {
  const bytes = await inflate(new Uint8Array(await file.arrayBuffer())).catch((error) =>
    fail(`[${file.name}] is a damaged gzip file: ${error.message}`));
  if (bytes.length < 348) fail(`[${file.name}] is no NIfTI file: it has ${bytes.length} bytes only`);
  const header = new DataView(bytes.buffer, bytes.byteOffset, 348);
  if (header.getInt32(0, true) !== 348) fail(`[${file.name}] is no little-endian NIfTI-1 file; gyrus conform makes one`);
  const dims = [1, 2, 3].map((axis) => header.getInt16(40 + 2 * axis, true));
  const Type = elementTypes[header.getInt16(70, true)];
  if (!Type) fail(`[${file.name}] has voxels of a type that this page does not read: save them as plain numbers, not colours`);
  const count = dims.reduce((a, b) => a * Math.max(1, b));
  const start = header.getFloat32(108, true) || 352;
  if (bytes.length < start + count * Type.BYTES_PER_ELEMENT) fail(`[${file.name}] is cut off: voxels are missing`);
  const values = new Type(bytes.slice(start, start + count * Type.BYTES_PER_ELEMENT).buffer);
  const slope = header.getFloat32(112, true), intercept = header.getFloat32(116, true);
  const scaled = Number.isFinite(slope) && slope !== 0 && (slope !== 1 || intercept !== 0);
  return { dims, header: bytes.slice(0, 348), axes: axesOf(header), values: scaled ? Float64Array.from(values, (v) => v * slope + intercept) : values };
}

/** Balls within a ball, with some noise: nothing anatomical, but something to label. */
export function syntheticHead(dims) {
  const values = new Uint8Array(dims[0] * dims[1] * dims[2]);
  const middle = dims.map((n) => (n - 1) / 2);
  for (let z = 0, i = 0; z < dims[2]; z++)
    for (let y = 0; y < dims[1]; y++)
      for (let x = 0; x < dims[0]; x++, i++) {
        const r = Math.hypot((x - middle[0]) / dims[0], (y - middle[1]) / dims[1], (z - middle[2]) / dims[2]);
        values[i] = (r < 0.15 ? 200 : r < 0.28 ? 120 : r < 0.4 ? 60 : 5) + ((i * 2654435761) >>> 28);
      }
  return { dims, values };
}

// ---- to the network and back: there the last axis is the fastest, in files the first ----

function turned(from, to, [nx, ny, nz], inwards) {
  for (let z = 0, file = 0; z < nz; z++)
    for (let y = 0; y < ny; y++)
      for (let x = 0; x < nx; x++, file++) {
        const tensor = (x * ny + y) * nz + z;
        if (inwards) to[tensor] = from[file];
        else to[file] = from[tensor];
      }
  return to;
}

// The value at a rank among all values; bytes are counted, which is faster than sorting.
function ranks(values) {
  if (!(values instanceof Uint8Array)) {
    const sorted = Float32Array.from(values).sort();
    return (rank) => sorted[rank];
  }
  const counts = new Float64Array(256);
  for (const v of values) counts[v]++;
  return (rank) => {
    let v = 0;
    for (let seen = counts[0]; seen <= rank; seen += counts[v]) v++;
    return v;
  };
}

/** What brings the values to [0, 1] as the model wants it. */
export function normalization(values, { kind, low, high }) {
  if (kind === "none") return { scale: 1, shift: 0 };
  const at = ranks(values);
  const [begin, end] = (kind === "minmax" ? [0, 1] : [low, high]).map((q) => {
    const position = q * (values.length - 1), below = Math.floor(position);
    return position === below ? at(below) : at(below) + (at(below + 1) - at(below)) * (position - below);
  });
  if (!(end > begin)) fail(`[scan] nearly all voxels have the value ${begin}: there is nothing to segment`);
  const scale = 1 / (end - begin);
  return { scale, shift: -begin * scale };
}

const bytesOf = (array) => new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
const scalar = (value) => ({ dtype: "f32", shape: [1], data: bytesOf(Float32Array.of(value)) });

function imageOf({ dims, values }, port) {
  const want = port.shape.slice(2);
  if (dims.some((n, axis) => n !== want[axis]))
    fail(`[scan] has ${dims.join("×")} voxels, this plan is for ${want.join("×")}: gyrus conform brings a scan to 256×256×256`);
  const isByte = (v) => v >= 0 && v <= 255 && Number.isInteger(v);
  if (port.dtype === "u8" && !(values instanceof Uint8Array) && !values.every(isByte))
    fail("[scan] holds values that are no bytes: conform it first, or export the plan with --input f32");
  const tensor = new (port.dtype === "u8" ? Uint8Array : Float32Array)(values.length);
  return { dtype: port.dtype, shape: port.shape, data: bytesOf(turned(values, tensor, dims, true)) };
}

// The best class of every voxel, where the plan gives all scores.
function labelsOf(outputs) {
  if (outputs.labels) {
    const { dtype, data } = outputs.labels;
    return dtype === "u8" ? data : new Uint32Array(data.buffer, data.byteOffset, data.byteLength / 4);
  }
  const { data, shape } = outputs.logits;
  const scores = new Float32Array(data.buffer, data.byteOffset, data.byteLength / 4);
  const voxels = scores.length / shape[1], labels = new Uint32Array(voxels);
  for (let c = 1; c < shape[1]; c++)
    for (let v = 0; v < voxels; v++) if (scores[c * voxels + v] > scores[labels[v] * voxels + v]) labels[v] = c;
  return labels;
}

// ---- the page ----

let executor, setup, stopping;

/** The volume and labels on show. */
export let shown = null;

/** Labels of a volume, x fastest, and the seconds that it took. */
export async function segment(volume, options = {}) {
  const image = imageOf(volume, executor.plan.inputs.find((port) => port.name === "image"));
  const { scale, shift } = normalization(volume.values, setup.normalize);
  const { outputs, wallMs } = await executor.run({ image, scale: scalar(scale), shift: scalar(shift) }, options);
  const labels = labelsOf(outputs);
  return { labels: turned(labels, new labels.constructor(labels.length), volume.dims, false), seconds: wallMs / 1000 };
}

function colours(entries) {
  const table = [];
  for (const { value, colour } of entries)
    table[value] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return table;
}

// Each plane: the axes across and upwards (0 to the right, 1 to the front, 2 to the top), and that of the slider.
const planes = [["Axial", 0, 1, 2], ["Coronal", 0, 2, 1], ["Sagittal", 1, 2, 0]];

function show({ dims, values, axes = standardAxes }, labels) {
  const table = colours(setup.labels);
  const strides = [1, dims[0], dims[0] * dims[1]];
  const extent = (a) => dims[axes[a].axis];
  const offset = (a, i) => (axes[a].flipped ? extent(a) - 1 - i : i) * strides[axes[a].axis];
  const brightest = values.reduce((most, v) => Math.max(most, v), 1e-30);
  byId("planes").replaceChildren(...planes.map(([name, across, up, along]) => {
    const figure = document.createElement("div");
    const canvas = Object.assign(document.createElement("canvas"), { width: extent(across), height: extent(up) });
    const slider = Object.assign(document.createElement("input"), { type: "range", max: extent(along) - 1 });
    slider.value = extent(along) >> 1;
    slider.setAttribute("aria-label", `${name} slice`);
    const draw = () => {
      const context = canvas.getContext("2d");
      const picture = context.createImageData(canvas.width, canvas.height);
      for (let row = 0, out = 0; row < canvas.height; row++)
        for (let column = 0; column < canvas.width; column++, out += 4) {
          const at = offset(across, column) + offset(up, canvas.height - 1 - row) + offset(along, Number(slider.value));
          const grey = (255 * values[at]) / brightest, colour = labels[at] ? table[labels[at]] : undefined;
          for (let c = 0; c < 3; c++) picture.data[out + c] = colour ? (grey + colour[c]) / 2 : grey;
          picture.data[out + 3] = 255;
        }
      context.putImageData(picture, 0, 0);
    };
    slider.addEventListener("input", draw);
    draw();
    figure.append(canvas, slider);
    return figure;
  }));
  byId("planes").hidden = false;
  byId("legend").replaceChildren(...setup.labels.filter(({ value }) => value > 0).map(({ name, colour }) => {
    const item = document.createElement("li"), patch = document.createElement("span");
    patch.style.background = colour;
    item.append(patch, name);
    return item;
  }));
}

const attempt = attempts(["synthetic", "file"], () => executor);

async function segmentAndShow(name, read) {
  await attempt(`Segmenting ${name}…`, async () => {
    const volume = await read();
    stopping = new AbortController();
    const onProgress = ({ fraction, label, secondsLeft }) => {
      byId("progress").value = fraction;
      say(`${Math.round(100 * fraction)} % · ${label}${secondsLeft === null ? "" : ` · ${Math.ceil(secondsLeft)} s left`}`);
    };
    const { labels, seconds } = await segment(volume, { signal: stopping.signal, onProgress });
    show(volume, labels);
    shown = { ...volume, labels };
    byId("save").hidden = false;
    const labelled = labels.reduce((count, label) => count + (label > 0), 0);
    if (labelled === 0) throw new GyrusError("device", `[${name}] has no label at all: wrong input, or the GPU failed`);
    byId("progress").value = 1;
    say(`${name}: ${labelled} of ${labels.length} voxels labelled in ${seconds.toFixed(2)} s`);
  });
}

// One that comes while kernels compile waits for them.
const takeFile = (file) => file && ready.then(() => executor && segmentAndShow(file.name, () => readNifti(file)));

/** The labels on show as a NIfTI file with the scan's header. */
export function niftiOf({ dims, header, labels }) {
  const bytes = new Uint8Array(352 + labels.length);
  const view = new DataView(bytes.buffer);
  if (header) bytes.set(header.subarray(0, 348));
  view.setInt32(0, 348, true);
  [3, ...dims, 1, 1, 1, 1].forEach((extent, i) => view.setInt16(40 + 2 * i, extent, true));
  if (!header) for (let i = 0; i < 4; i++) view.setFloat32(76 + 4 * i, 1, true);
  view.setInt16(68, 1002, true); // a label map
  view.setInt16(70, 2, true); // bytes
  view.setInt16(72, 8, true);
  [352, 1, 0].forEach((value, i) => view.setFloat32(108 + 4 * i, value, true)); // offset, slope, intercept
  bytes.set([0x6e, 0x2b, 0x31, 0, 0, 0, 0, 0], 344);
  bytes.set(labels, 352);
  return bytes;
}

async function readJson(name) {
  const response = await fetch(new URL(name, import.meta.url));
  if (!response.ok) throw new GyrusError("io", `[${name}] could not be fetched: ${response.status} ${response.statusText}`);
  return response.json();
}

/** Settles when the plan is loaded, or with what went wrong. */
export const ready = attempt("Loading…", async () => {
  const [described, { labels }, plan] = await Promise.all(
    [readJson("export.json"), readJson("labels.json"), loadPlan(new URL(".", import.meta.url))]);
  setup = { ...described, labels };
  const { device, report } = await requestDevice();
  device.lost.then(({ reason, message }) => {
    if (reason !== "destroyed") say("", `[device] was lost: ${message} Reload the page.`);
  });
  executor = await PlanExecutor.create(device, plan,
    { onCompiled: (done, total) => say(`Compiling kernel ${done} of ${total}…`) });
  const size = plan.inputs.find((port) => port.name === "image").shape.slice(2).join("×");
  document.title = byId("title").textContent = setup.title || setup.model;
  byId("about").textContent = `${setup.model} for ${size} voxels in ${plan.precision}, ` +
    `${(peakBytes(plan) / 2 ** 20).toFixed(1)} MiB of GPU memory, on ${report.adapter}.`;
  say("Ready.");
});

byId("synthetic").addEventListener("click", () => segmentAndShow("The synthetic head", () =>
  syntheticHead(executor.plan.inputs.find((port) => port.name === "image").shape.slice(2))));
byId("stop").addEventListener("click", () => stopping?.abort());
byId("file").addEventListener("change", (event) => {
  takeFile(event.target.files[0]);
  event.target.value = ""; // the same file may be picked again
});
byId("save").addEventListener("click", () => {
  const href = URL.createObjectURL(new Blob([niftiOf(shown)]));
  Object.assign(document.createElement("a"), { href, download: `${setup.model}_labels.nii` }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000); // the browser may still be writing
});
for (const kind of ["dragover", "dragleave", "drop"])
  document.addEventListener(kind, (event) => {
    event.preventDefault();
    byId("drop").classList.toggle("over", kind === "dragover");
    if (kind === "drop") takeFile(event.dataTransfer.files[0]);
  });
