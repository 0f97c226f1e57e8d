// Proves without a device that a plan is consistent (after reading) and that it keeps given limits (before running).

import { GyrusError, type ErrorCode } from "./errors.js";
import { dtypeBytes, planFeatures } from "./plan.js";
import type { BindingKind, BufferKind, BufferRange, Dispatch, Plan, PlanArgument, PlanPort, Step } from "./plan.js";
import type { DType, PlanLimits } from "./types.js";

const uniformBuffersPerStage = 12; // the specification's default
const reportBytes = 16;

// What an argument's type can hold.
const argumentRanges: Partial<Record<DType, [number, number]>> = {
  f32: [-3.4028234663852886e38, 3.4028234663852886e38],
  i32: [-(2 ** 31), 2 ** 31 - 1],
  u32: [0, 2 ** 32 - 1],
};

function fail(code: ErrorCode, subject: string, message: string): never {
  throw new GyrusError(code, `[${subject}] ${message}`);
}

function invalid(subject: string, message: string): never {
  fail("invalid-input", subject, message);
}

function nameOf(step: Step, index: number): string {
  return step.op === "dispatch" ? `step ${index} '${step.label}'` : `step ${index} (${step.op})`;
}

function checkRange(plan: Plan, range: BufferRange, subject: string): void {
  const buffer = plan.buffers[range.buffer];
  if (!buffer) invalid(subject, `buffer ${range.buffer} does not exist`);
  if (range.offset % 4 !== 0 || range.size % 4 !== 0)
    invalid(subject, `offset ${range.offset} and size ${range.size} must be multiples of 4 bytes`);
  if (range.size === 0) invalid(subject, `an empty range of buffer '${buffer.label}'`);
  if (range.offset + range.size > buffer.size)
    invalid(subject, `offset ${range.offset} and size ${range.size} pass the end of buffer '${buffer.label}' of ` +
      `${buffer.size} bytes`);
}

// Parameters are only bound; arguments are read in any way, but written by the caller alone.
function checkCopied(plan: Plan, range: BufferRange, written: boolean, subject: string): void {
  const buffer = plan.buffers[range.buffer]!;
  if (buffer.kind === "params")
    invalid(subject, `parameter buffer '${buffer.label}' is filled once and not copied or cleared`);
  if (written && buffer.kind === "arguments")
    invalid(subject, `argument buffer '${buffer.label}' is written by the caller alone`);
}

function checkBuffers(plan: Plan): void {
  let total = 0;
  plan.buffers.forEach((buffer, i) => {
    const subject = `buffer ${i} '${buffer.label}'`;
    if (buffer.size === 0 || buffer.size % 4 !== 0)
      invalid(subject, `size ${buffer.size} is not a positive multiple of 4 bytes`);
    total += buffer.size;
    if (!Number.isSafeInteger(total)) invalid(subject, "the sizes of all buffers overflow");
    if (buffer.kind !== "weights" && buffer.kind !== "params") return;
    if (buffer.dataOffset + buffer.size > plan.weights.byteLength)
      invalid(subject, `its data, ${buffer.size} bytes at ${buffer.dataOffset}, pass the end of the weights of ` +
        `${plan.weights.byteLength} bytes`);
  });
}

function checkKernels(plan: Plan): void {
  plan.kernels.forEach((kernel, i) => {
    const subject = `kernel ${i} '${kernel.name}'`;
    if (kernel.workgroupSize.includes(0)) invalid(subject, "a workgroup size of 0");
    if (kernel.entry === "") invalid(subject, "no entry point");
  });
}

function overlap(a: BufferRange, b: BufferRange): boolean {
  return a.buffer === b.buffer && a.offset < b.offset + b.size && b.offset < a.offset + a.size;
}

// A buffer that a dispatch may write must not be bound in another way, nor the same bytes twice.
function checkAliases(plan: Plan, dispatch: Dispatch, subject: string): void {
  const kinds = plan.kernels[dispatch.kernel]!.bindings;
  dispatch.bindings.forEach((a, i) => {
    if (kinds[i] !== "write") return;
    dispatch.bindings.forEach((b, j) => {
      if (i === j || a.buffer !== b.buffer || (kinds[j] === "write" && !overlap(a, b))) return;
      const { label } = plan.buffers[a.buffer]!;
      invalid(subject, `bindings ${i} and ${j} share buffer '${label}', which the first may write`);
    });
  });
}

function checkBinding(buffer: BufferKind, binding: BindingKind, subject: string): void {
  const uniform = binding === "uniform";
  if (buffer === "arguments") {
    if (binding === "write") invalid(subject, "the buffer of arguments bound to be written");
  } else if ((buffer === "params") !== uniform) {
    invalid(subject, uniform ? "a storage buffer bound as uniform" : "a parameter buffer bound as storage");
  }
}

function checkDispatch(plan: Plan, dispatch: Dispatch, subject: string): void {
  const kernel = plan.kernels[dispatch.kernel];
  if (!kernel) invalid(subject, `kernel ${dispatch.kernel} does not exist`);
  const [given, taken] = [dispatch.bindings.length, kernel.bindings.length];
  if (given !== taken) invalid(subject, `${given} bindings for kernel '${kernel.name}', which takes ${taken}`);
  dispatch.bindings.forEach((range, i) => {
    const binding = `${subject} binding ${i}`;
    checkRange(plan, range, binding);
    checkBinding(plan.buffers[range.buffer]!.kind, kernel.bindings[i]!, binding);
  });
  if (dispatch.groups.includes(0)) invalid(subject, "a group count of 0");
  if (dispatch.flops < 0 || dispatch.bytes < 0) invalid(subject, "a cost below 0");
  checkAliases(plan, dispatch, subject);
}

function checkStep(plan: Plan, step: Step, subject: string): void {
  if (step.op === "dispatch") return checkDispatch(plan, step, subject);
  const ranges = step.op === "copy" ? [step.from, step.to] : [step.range];
  for (const range of ranges) {
    checkRange(plan, range, subject);
    checkCopied(plan, range, !(step.op === "copy" && range === step.from), subject);
  }
  if (step.op === "clear") return;
  if (step.from.size !== step.to.size) invalid(subject, `copies ${step.from.size} bytes to ${step.to.size}`);
  if (step.from.buffer === step.to.buffer)
    invalid(subject, `copies within buffer '${plan.buffers[step.from.buffer]!.label}', which WebGPU does not do`);
}

function checkPort(plan: Plan, port: PlanPort): void {
  const subject = `port '${port.name}'`;
  const exact = port.shape.reduce((product, extent) => product * extent, dtypeBytes[port.dtype]);
  if (!Number.isSafeInteger(exact)) invalid(subject, `shape [${port.shape.join(", ")}] is too large`);
  const bytes = Math.ceil(exact / 4) * 4;
  for (const { hostOffset, range } of port.pieces) {
    checkRange(plan, range, subject);
    checkCopied(plan, range, false, subject);
    if (hostOffset + range.size > bytes)
      invalid(subject, `a piece of ${range.size} bytes at ${hostOffset} passes the tensor's ${bytes}`);
  }
  let covered = 0;
  for (const { hostOffset, range } of [...port.pieces].sort((a, b) => a.hostOffset - b.hostOffset)) {
    if (hostOffset > covered) break;
    covered = Math.max(covered, hostOffset + range.size);
  }
  if (covered !== bytes) invalid(subject, `its pieces leave out byte ${covered} of ${bytes}`);
}

function checkNames(items: { name: string }[], what: string): void {
  const names = new Set<string>();
  for (const { name } of items) {
    if (names.has(name)) invalid(`${what} '${name}'`, "is there twice");
    names.add(name);
  }
}

function checkPorts(plan: Plan): void {
  for (const ports of [plan.inputs, plan.outputs, plan.captures]) {
    for (const port of ports) checkPort(plan, port);
  }
  checkNames(plan.inputs, "port");
  checkNames([...plan.outputs, ...plan.captures], "port");
  for (const { name, pieces } of plan.inputs)
    if (pieces.some(({ range }) => ["state", "arguments"].includes(plan.buffers[range.buffer]!.kind)))
      invalid(`port '${name}'`, "an input lies in the buffer of a state or of arguments");
}

// The pieces of states are all state buffers, each once and whole, in the order of the bytes they hold.
function checkStates(plan: Plan): void {
  const owned = new Set<number>();
  for (const state of plan.states) {
    checkPort(plan, state);
    const subject = `state '${state.name}'`;
    let bytes = 0;
    for (const { hostOffset, range } of state.pieces) {
      const { kind, label, size } = plan.buffers[range.buffer]!;
      if (kind !== "state") invalid(subject, `buffer '${label}' is none for state`);
      if (range.offset !== 0 || range.size !== size || hostOffset !== bytes)
        invalid(subject, "its pieces are not whole buffers one after another");
      if (owned.has(range.buffer)) invalid(subject, `buffer '${label}' holds two pieces`);
      owned.add(range.buffer);
      bytes += range.size;
    }
    if (state.start !== null && state.start + bytes > plan.weights.byteLength)
      invalid(subject, `its start, ${bytes} bytes at ${state.start}, passes the end of the weights of ` +
        `${plan.weights.byteLength} bytes`);
  }
  checkNames(plan.states, "state");
  plan.buffers.forEach(({ kind, label }, i) => {
    if (kind === "state" && !owned.has(i)) invalid(`buffer ${i} '${label}'`, "belongs to no state");
  });
}

function checkArgument({ name, dtype, least, most, offset }: PlanArgument, size: number): void {
  const subject = `argument '${name}'`;
  if (offset % 4 !== 0 || offset + 4 > size)
    invalid(subject, `offset ${offset} is no place in the argument buffer of ${size} bytes`);
  const held = argumentRanges[dtype];
  if (!held) invalid(subject, `has the type ${dtype}; arguments are f32, i32 or u32`);
  if (!(held[0] <= least && least <= most && most <= held[1]))
    invalid(subject, `the range from ${least} to ${most} is empty or passes that of ${dtype}`);
}

function checkArguments(plan: Plan): void {
  const [buffer, second] = plan.buffers.filter(({ kind }) => kind === "arguments");
  if (second) invalid(`buffer '${second.label}'`, "is a second buffer of arguments");
  const offsets = new Set<number>();
  for (const argument of plan.arguments) {
    checkArgument(argument, buffer?.size ?? 0);
    if (offsets.has(argument.offset)) invalid(`argument '${argument.name}'`, "lies where another one lies");
    offsets.add(argument.offset);
  }
  checkNames(plan.arguments, "argument");
}

function checkReport(plan: Plan): void {
  const { buffers, report, reports } = plan;
  if ((report !== null) === (reports.length === 0))
    invalid("report", report ? "a range without a list of reports" : "a list of reports without a range");
  if (!report) return;
  checkRange(plan, report, "report");
  if (report.size !== reportBytes || buffers[report.buffer]!.kind !== "storage")
    invalid("report", `is not ${reportBytes} bytes of a storage buffer`);
}

/** Throws "invalid-input" where a plan contradicts itself. */
export function checkConsistent(plan: Plan): void {
  checkBuffers(plan);
  checkKernels(plan);
  plan.steps.forEach((step, i) => checkStep(plan, step, nameOf(step, i)));
  checkPorts(plan);
  checkStates(plan);
  checkArguments(plan);
  checkReport(plan);
}

function checkMost(subject: string, what: string, found: number, limit: number): void {
  if (found > limit) fail("over-limits", subject, `${what} is ${found}, the limit is ${limit}; plan for this device`);
}

function checkDispatchLimits(plan: Plan, dispatch: Dispatch, subject: string, limits: PlanLimits): void {
  for (const groups of dispatch.groups)
    checkMost(subject, "group count", groups, limits.maxComputeWorkgroupsPerDimension);
  const kinds = plan.kernels[dispatch.kernel]!.bindings;
  dispatch.bindings.forEach((range, i) => {
    const uniform = kinds[i] === "uniform";
    const most = uniform ? limits.maxUniformBufferBindingSize : limits.maxStorageBufferBindingSize;
    const alignment = uniform ? limits.minUniformBufferOffsetAlignment : limits.minStorageBufferOffsetAlignment;
    checkMost(`${subject} binding ${i}`, "size", range.size, most);
    if (alignment === 0 || range.offset % alignment === 0) return;
    const message = `offset ${range.offset} is no multiple of ${alignment}; plan for this device`;
    fail("over-limits", `${subject} binding ${i}`, message);
  });
}

/** Throws "over-limits" where a plan does not keep `limits` or needs a feature that is not among `features`. */
export function checkLimits(plan: Plan, limits: PlanLimits, features: ReadonlySet<string>): void {
  const missing = planFeatures.find((feature) => plan.features[feature] && !features.has(feature));
  if (missing) fail("over-limits", "features", `the device was opened without ${missing}; plan for this device`);
  plan.buffers.forEach(({ label, size }, i) =>
    checkMost(`buffer ${i} '${label}'`, "size", size, limits.maxBufferSize));
  for (const kernel of plan.kernels) {
    const subject = `kernel '${kernel.name}'`;
    const [x, y, z] = kernel.workgroupSize;
    checkMost(subject, "workgroup size x", x, limits.maxComputeWorkgroupSizeX);
    checkMost(subject, "workgroup size y", y, limits.maxComputeWorkgroupSizeY);
    checkMost(subject, "workgroup size z", z, limits.maxComputeWorkgroupSizeZ);
    checkMost(subject, "invocations per workgroup", x * y * z, limits.maxComputeInvocationsPerWorkgroup);
    checkMost(subject, "workgroup storage", kernel.workgroupBytes, limits.maxComputeWorkgroupStorageSize);
    const uniforms = kernel.bindings.filter((kind) => kind === "uniform").length;
    checkMost(subject, "number of uniform buffers", uniforms, uniformBuffersPerStage);
    checkMost(subject, "number of storage buffers", kernel.bindings.length - uniforms,
      limits.maxStorageBuffersPerShaderStage);
  }
  plan.steps.forEach((step, i) => {
    if (step.op === "dispatch") checkDispatchLimits(plan, step, nameOf(step, i), limits);
  });
}
