// What the compiler's tests share: the module, the command line beside it, models and scans.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { Compiler } from "../../../web/src/compiler.js";
import { GyrusError } from "../../../web/src/errors.js";
import { readSafetensors, writeSafetensors } from "../../../web/src/safetensors.js";
import { TrainingCompiler } from "../../../web/src/trainee.js";
import type { NamedBytes, PlanLimits } from "../../../web/src/types.js";
import { fromNumbers, toNumbers, weightsFile } from "./tensors.js";

// The bundle lies in build/web-tests.
export const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), "../..");

const MODULE = join(ROOT, "web/dist/wasm/gyrus.wasm");
const PROGRAM = process.env.GYRUS_PROGRAM ?? join(ROOT, "build/release/bin/gyrus");
const DATA = process.env.GYRUS_TEST_DATA ?? join(ROOT, "../shared/data");

export const DEFAULT_LIMITS: PlanLimits = {
  maxBufferSize: 268435456,
  maxStorageBufferBindingSize: 134217728,
  maxUniformBufferBindingSize: 65536,
  maxStorageBuffersPerShaderStage: 8,
  minStorageBufferOffsetAlignment: 256,
  minUniformBufferOffsetAlignment: 256,
  maxComputeWorkgroupsPerDimension: 65535,
  maxComputeInvocationsPerWorkgroup: 256,
  maxComputeWorkgroupSizeX: 256,
  maxComputeWorkgroupSizeY: 256,
  maxComputeWorkgroupSizeZ: 64,
  maxComputeWorkgroupStorageSize: 16384,
};

export function loadCompiler(): Promise<Compiler> {
  if (!existsSync(MODULE))
    throw new Error(`${MODULE} is not there: cmake --preset wasm && cmake --build --preset wasm`);
  return Compiler.load({ wasm: readFileSync(MODULE) });
}

export function loadTrainingCompiler(): Promise<TrainingCompiler> {
  return TrainingCompiler.load({ wasm: readFileSync(join(ROOT, "web/dist/wasm/gyrus-train.wasm")) });
}

// Runs the command line and returns what it prints.
export function native(args: string[]): string {
  return execFileSync(PROGRAM, args, { encoding: "utf8", env: { ...process.env, GYRUS_NO_CACHE: "1" }, stdio: "pipe" });
}
// Why tests against the command line are skipped, or false.
native.missing = existsSync(PROGRAM) ? false : `${PROGRAM} is not built`;

// What it prints where it fails; "" where it does not.
export function nativeError(args: string[]): string {
  const { status, stderr } = spawnSync(PROGRAM, args, { encoding: "utf8" });
  return status === 0 ? "" : stderr;
}

// Whether the command line has something to run networks on.
export const hasAdapter = { missing: native.missing || noAdapter() };

function noAdapter(): string | false {
  const { status, stdout } = spawnSync(PROGRAM, ["devices", "--json"], { encoding: "utf8" });
  return status === 0 && stdout.includes("{") ? false : "the command line finds no adapter";
}

// For assert.throws: a GyrusError of that code, in one line that matches.
export function isError(code: string, message: RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof GyrusError, String(error));
    assert.equal(error.code, code, error.message);
    assert.match(error.message, message);
    assert.ok(!error.message.includes("\n"), "more than one line");
    return true;
  };
}

const folders: string[] = [];
process.on("exit", () => folders.forEach((folder) => rmSync(folder, { recursive: true, force: true })));

export interface Temporary {
  path: string;
  write(name: string, content: string | Uint8Array): string;
}

// A folder that goes away at the end.
export function temporary(): Temporary {
  const path = mkdtempSync(join(tmpdir(), "gyrus-web-"));
  folders.push(path);
  return {
    path,
    write(name, content) {
      writeFileSync(join(path, name), content);
      return join(path, name);
    },
  };
}

let tiny: string | undefined;
// A model of two layers that makes three classes of intensities: below 0.25, to 0.6, above.
export function tinyModel(): string {
  if (tiny) return tiny;
  tiny = join(temporary().path, "model");
  mkdirSync(tiny);
  const layer = (i: number, o: number, k: number, padding: number) => ({
    in_channels: i,
    out_channels: o,
    kernel_size: k,
    padding,
    stride: 1,
    dilation: 1,
  });
  const layers = [layer(1, 2, 3, 1), layer(2, 3, 1, 0)];
  const list = { header: "test", bnorm: false, bias: true, dropout_p: 0, layers };
  writeFileSync(join(tiny, "model.json"), JSON.stringify(list));
  const centre = Array.from({ length: 54 }, (_, i) => (i === 13 ? 1 : 0));
  writeFileSync(
    join(tiny, "model.pth"),
    weightsFile({
      "model.0.weight": [[2, 1, 3, 3, 3], centre],
      "model.0.bias": [[2], [0, 0]],
      "model.2.weight": [[3, 2, 1, 1, 1], [0, 0, 10, 0, 20, 0]],
      "model.2.bias": [[3], [0, -2.5, -8.5]],
    }),
  );
  return tiny;
}

// The files of a model's folder.
export function folderOf(path: string): NamedBytes[] {
  return readdirSync(path)
    .filter((name) => statSync(join(path, name)).isFile())
    .map((name) => ({ name, bytes: readFileSync(join(path, name)) }));
}

// Of model5: with these weights × 300 its maps pass what halves hold.
export const loudLayers = ["model.0.weight", "model.2.weight", "model.4.weight"];

// The same files with the values of these tensors multiplied.
export function scaled(files: NamedBytes[], names: string[], factor: number): NamedBytes[] {
  return files.map(({ name, bytes }) => {
    if (!/\.(pth|safetensors)$/.test(name)) return { name, bytes };
    const tensors = readSafetensors(bytes);
    for (const tensor of names.map((each) => tensors[each]!))
      tensor.data = fromNumbers("f32", Array.from(toNumbers(tensor), (value) => value * factor));
    return { name, bytes: writeSafetensors(tensors) };
  });
}

// The models of the test data; none where it is absent.
export function sharedModels(): { name: string; folder: string }[] {
  const folder = join(DATA, "models");
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .sort()
    .map((name) => ({ name, folder: join(folder, name) }));
}

// A file of the test data, or undefined where it is absent.
export function shared(path: string): string | undefined {
  const full = join(DATA, path);
  return existsSync(full) ? full : undefined;
}

export interface ScanSpec {
  dims: [number, number, number];
  spacing: [number, number, number]; // mm
  tilt?: number; // radians about the first axis
  type?: "u8" | "i16"; // i16: with slope and intercept
  frames?: number;
}

// A NIfTI file: a ball in a ball with noise.
export function tinyScan({ dims, spacing, tilt = 0, type = "u8", frames = 1 }: ScanSpec): Uint8Array<ArrayBuffer> {
  const [nx, ny, nz] = dims;
  const size = type === "u8" ? 1 : 2;
  const out = new DataView(new ArrayBuffer(352 + nx * ny * nz * frames * size));
  const i16 = (at: number, ...values: number[]) => values.forEach((v, i) => out.setInt16(at + 2 * i, v, true));
  const f32 = (at: number, ...values: number[]) => values.forEach((v, i) => out.setFloat32(at + 4 * i, v, true));
  out.setInt32(0, 348, true);
  i16(40, frames > 1 ? 4 : 3, nx, ny, nz, frames, 1, 1, 1);
  i16(70, type === "u8" ? 2 : 4, 8 * size);
  f32(76, 1, ...spacing, 1, 1, 1, 1);
  f32(108, 352, type === "u8" ? 1 : 0.5, type === "u8" ? 0 : -3);
  out.setUint8(123, 2);
  i16(254, 1);
  const [sx, sy, sz] = spacing;
  const cos = Math.cos(tilt);
  const sin = Math.sin(tilt);
  f32(280, sx, 0, 0, (-sx * nx) / 2, 0, sy * cos, -sz * sin, (-sy * ny) / 2, 0, sy * sin, sz * cos, (-sz * nz) / 2);
  out.setUint32(344, 0x6e2b3100, false);
  let state = 1;
  for (let i = 0; i < nx * ny * nz * frames; ++i) {
    state = (state * 48271) % 2147483647;
    const at = [i % nx, Math.floor(i / nx) % ny, Math.floor(i / (nx * ny)) % nz];
    const r = Math.hypot(...at.map((c, axis) => (c - (dims[axis]! - 1) / 2) / dims[axis]!));
    const value = (r < 0.2 ? 220 : r < 0.4 ? 120 : 20) + (state % 20);
    if (type === "u8") out.setUint8(352 + i, value);
    else out.setInt16(352 + 2 * i, value * 5 - 100, true);
  }
  return new Uint8Array(out.buffer);
}
