// node onnx.mjs [--cpu] GYRUS_BENCH FOLDER…: ONNX models with a test_data_set_0 beside them, by gyrus (build/release/bench/onnx) and by
// onnxruntime-node: its WebGPU provider with and without its CPU fallback, and its CPU provider. Least time of a few
// runs from host memory to host memory, one program after another, and the largest difference from the stored outputs
// relative to their largest value. Prints a table. `npm install --ignore-scripts` here first.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

const REPEATS = 5;
const WRONG = 1e-2; // beyond this a result is called wrong and not ranked

// Numbers and runs of bytes from the front to the back.
class Wire {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }
  get more() {
    return this.at < this.bytes.length;
  }
  number() {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.bytes[this.at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return Number(BigInt.asIntN(64, value));
    }
  }
  run(length) {
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at);
  }
}

// The fields of a message, as [field number, number or bytes].
function* fields(bytes) {
  const wire = new Wire(bytes);
  while (wire.more) {
    const key = wire.number();
    if ((key & 7) === 0) yield [key >> 3, wire.number()];
    else if ((key & 7) === 2) yield [key >> 3, wire.run(wire.number())];
    else throw new Error(`field of kind ${key & 7}`);
  }
}

const TYPES = { 1: ["float32", Float32Array], 2: ["uint8", Uint8Array], 6: ["int32", Int32Array], 7: ["int64", BigInt64Array] };

// A TensorProto with raw or packed data.
function readTensor(path) {
  const dims = [];
  let type = 1;
  let data = null;
  for (const [field, value] of fields(new Uint8Array(readFileSync(path)))) {
    if (field === 1 && typeof value === "number") dims.push(value);
    else if (field === 1) for (const wire = new Wire(value); wire.more; ) dims.push(wire.number());
    else if (field === 2) type = value;
    else if (field === 4 || field === 9) data = value;
  }
  const [name, Kind] = TYPES[type];
  return { name, dims, data: new Kind(data.slice().buffer) };
}

function stored(folder, what) {
  const tensors = [];
  for (let i = 0; existsSync(join(folder, `test_data_set_0/${what}_${i}.pb`)); i++)
    tensors.push(readTensor(join(folder, `test_data_set_0/${what}_${i}.pb`)));
  return tensors;
}

function difference(found, wanted) {
  let worst = 0;
  let largest = 0;
  for (let i = 0; i < wanted.length; i++) {
    largest = Math.max(largest, Math.abs(Number(wanted[i])));
    const error = Math.abs(Number(found[i]) - Number(wanted[i]));
    worst = Number.isNaN(error) ? Infinity : Math.max(worst, error);
  }
  return largest > 0 ? worst / largest : worst;
}

const KINDS = {
  webgpu: { executionProviders: ["webgpu"] },
  strict: { executionProviders: ["webgpu"], extra: { session: { disable_cpu_ep_fallback: "1" } } },
  cpu: { executionProviders: ["cpu"], intraOpNumThreads: 2 },
};

// One contestant in a process of its own, which prints one line of JSON.
async function contest(kind, folder) {
  const ort = await import("onnxruntime-node");
  const session = await ort.InferenceSession.create(join(folder, "model.onnx"), { ...KINDS[kind], logSeverityLevel: 4 });
  const feeds = {};
  stored(folder, "input").forEach((t, i) => (feeds[session.inputNames[i]] = new ort.Tensor(t.name, t.data, t.dims)));
  const wanted = stored(folder, "output");
  let best = Infinity;
  let error = 0;
  for (let i = 0; i <= REPEATS; i++) {
    const begin = performance.now();
    const results = await session.run(feeds);
    if (i > 0) best = Math.min(best, performance.now() - begin);
    wanted.forEach((t, o) => (error = Math.max(error, difference(results[session.outputNames[o]].data, t.data))));
  }
  console.log(JSON.stringify({ ms: best, error: String(error) }));
}

function peer(kind, folder) {
  const done = spawnSync(process.execPath, [fileURLToPath(import.meta.url), "--contest", kind, folder], { timeout: 300000 });
  if (done.status === 0) {
    const { ms, error } = JSON.parse(done.stdout.toString().trim().split("\n").at(-1));
    return { ms, error: Number(error) };
  }
  console.error(`${kind}, ${basename(folder)}: ${done.stderr.toString().match(/Error: .*/)?.[0] ?? "stopped"}`);
  return { refused: true };
}

const text = (r) => (r.refused ? "refuses" : `${r.ms.toFixed(1)} ms${r.error > WRONG ? " (wrong)" : ""}`);

if (process.argv[2] === "--contest") {
  await contest(process.argv[3], process.argv[4]);
  process.exit(0);
}
// With --cpu in front: gyrus on the processor beside the CPU provider, two threads each.
const onCpu = process.argv[2] === "--cpu";
const [program, ...folders] = process.argv.slice(onCpu ? 3 : 2);
const kinds = onCpu ? ["cpu"] : ["webgpu", "strict", "cpu"];
const ownOptions = onCpu ? ["--device", "cpu", "--threads", "2"] : [];
const heads = onCpu ? ["ort CPU"] : ["ort WebGPU, CPU fallback", "ort WebGPU alone", "ort CPU"];
console.log(`| model | gyrus | ${heads.join(" | ")} | largest differences |`);
console.log(`|---|---:|${"---:|".repeat(kinds.length)}---|`);
for (const folder of folders) {
  const ours = JSON.parse(execFileSync(program, ["--repeats", String(REPEATS), ...ownOptions, folder]).toString());
  const peers = kinds.map((kind) => peer(kind, folder));
  const errors = [ours, ...peers].map((r) => (r.refused ? "—" : r.error.toExponential(1))).join(", ");
  console.log(`| ${basename(folder)} | ${ours.ms.toFixed(1)} ms | ${peers.map(text).join(" | ")} | ${errors} |`);
}
