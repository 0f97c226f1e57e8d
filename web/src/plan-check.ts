// Proves without a device that a plan is consistent (after reading) and that it keeps given limits (before running).

import { GyrusError, type ErrorCode } from "./errors.js";
import { dtypeBytes, planFeatures } from "./plan.js";
import type { BufferRange, Dispatch, Plan, PlanPort, Step } from "./plan.js";
import type { PlanLimits } from "./types.js";

const uniformBuffersPerStage = 12; // the specification's default

function fail(code: ErrorCode, subject: string, message: string): never {
  throw new GyrusError(code, `[plan] ${subject}: ${message}`);
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

function checkWritable(plan: Plan, range: BufferRange, subject: string): void {
  const buffer = plan.buffers[range.buffer]!;
  if (buffer.kind === "params")
    invalid(subject, `parameter buffer '${buffer.label}' is filled once and not copied or cleared`);
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

function checkDispatch(plan: Plan, dispatch: Dispatch, subject: string): void {
  const kernel = plan.kernels[dispatch.kernel];
  if (!kernel) invalid(subject, `kernel ${dispatch.kernel} does not exist`);
  const [given, taken] = [dispatch.bindings.length, kernel.bindings.length];
  if (given !== taken) invalid(subject, `${given} bindings for kernel '${kernel.name}', which takes ${taken}`);
  dispatch.bindings.forEach((range, i) => {
    const binding = `${subject} binding ${i}`;
    checkRange(plan, range, binding);
    const params = plan.buffers[range.buffer]!.kind === "params";
    if (params !== (kernel.bindings[i] === "uniform"))
      invalid(binding, params ? "a parameter buffer bound as storage" : "a storage buffer bound as uniform");
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
    checkWritable(plan, range, subject);
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
    checkWritable(plan, range, subject);
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

/** Throws "invalid-input" where a plan contradicts itself. */
export function checkConsistent(plan: Plan): void {
  checkBuffers(plan);
  checkKernels(plan);
  plan.steps.forEach((step, i) => checkStep(plan, step, nameOf(step, i)));
  for (const ports of [plan.inputs, plan.outputs, plan.captures]) {
    const names = new Set<string>();
    for (const port of ports) {
      checkPort(plan, port);
      if (names.has(port.name)) invalid(`port '${port.name}'`, "is there twice");
      names.add(port.name);
    }
  }
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
