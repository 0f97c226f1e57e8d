// Pipelines from kernels, compiled side by side by the driver's own threads and kept for later plans on the device.

import { scopeError, type DeviceState, type Pipeline } from "./device-state.js";
import { GyrusError } from "./errors.js";
import { oneLine, type BindingKind, type Plan, type PlanKernel } from "./plan.js";

const bindingTypes: Record<BindingKind, GPUBufferBindingType> = {
  read: "read-only-storage",
  write: "storage",
  uniform: "uniform",
};

function createLayout(device: GPUDevice, kernel: PlanKernel): GPUBindGroupLayout {
  const entries = kernel.bindings.map((kind, binding) => ({
    binding,
    visibility: GPUShaderStage.COMPUTE,
    buffer: { type: bindingTypes[kind] },
  }));
  return device.createBindGroupLayout({ label: kernel.name, entries });
}

// "line 12: unresolved value 'foo': let x = foo;" for the first error that the compiler found; empty without one.
async function compileError(state: DeviceState, module: GPUShaderModule, kernel: PlanKernel): Promise<string> {
  const info = await state.guard(module.getCompilationInfo());
  const first = info.messages.find((message) => message.type === "error");
  if (!first) return "";
  const text = kernel.wgsl.split("\n")[first.lineNum - 1];
  return `line ${first.lineNum}: ${oneLine(first.message)}` + (text === undefined ? "" : `: ${oneLine(text)}`);
}

async function compile(state: DeviceState, kernel: PlanKernel): Promise<Pipeline> {
  const { device } = state;
  const { value, error } = state.scoped(() => {
    const layout = createLayout(device, kernel);
    const module = device.createShaderModule({ label: kernel.name, code: kernel.wgsl });
    const pipelineLayout = device.createPipelineLayout({ label: kernel.name, bindGroupLayouts: [layout] });
    const compute = { module, entryPoint: kernel.entry };
    const pipeline = device.createComputePipelineAsync({ label: kernel.name, layout: pipelineLayout, compute });
    pipeline.catch(() => {}); // heard below, after the scope
    return { layout, module, pipeline };
  });
  const found = await error;
  const message = found ? await compileError(state, value.module, kernel) : "";
  if (message) throw new GyrusError("device", `[${kernel.name}] the kernel does not compile: ${message}`);
  if (found) throw scopeError(found, `compiling kernel '${kernel.name}'`);
  try {
    return { layout: value.layout, pipeline: await state.guard(value.pipeline) };
  } catch (failure) {
    if (failure instanceof GyrusError) throw failure;
    const reason = (await compileError(state, value.module, kernel)) || oneLine((failure as Error).message);
    throw new GyrusError("device", `[${kernel.name}] the pipeline cannot be built: ${reason}`);
  }
}

/** Pipelines for those of the plan's kernels that a step uses, by the kernel's index. */
export async function buildPipelines(
  state: DeviceState,
  plan: Plan,
  onCompiled: (done: number, total: number) => void,
): Promise<Map<number, Pipeline>> {
  const used = new Set(plan.steps.flatMap((step) => (step.op === "dispatch" ? [step.kernel] : [])));
  let done = 0;
  const builds = [...used].map(async (index): Promise<[number, Pipeline]> => {
    const kernel = plan.kernels[index]!;
    const key = [kernel.entry, kernel.bindings.join(), kernel.wgsl].join("\n");
    let build = state.pipelines.get(key);
    if (!build) state.pipelines.set(key, (build = compile(state, kernel)));
    build.catch(() => state.pipelines.delete(key));
    const pipeline = await build;
    onCompiled(++done, used.size);
    return [index, pipeline];
  });
  await Promise.allSettled(builds); // none is left to report after the others failed
  return new Map(await Promise.all(builds));
}
