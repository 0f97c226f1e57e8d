// Watches what an executor does to a device, and injects failures.

/** Counts the buffers that were created and not destroyed, and finds them by label. */
export function watchBuffers(device: GPUDevice) {
  const live = new Set<GPUBuffer>();
  const create = device.createBuffer.bind(device);
  device.createBuffer = (descriptor) => {
    const buffer = create(descriptor);
    const destroy = buffer.destroy.bind(buffer);
    buffer.destroy = () => {
      live.delete(buffer);
      return destroy();
    };
    live.add(buffer);
    return buffer;
  };
  return {
    get live() {
      return live.size;
    },
    find: (label: string) => [...live].find((buffer) => buffer.label === label),
  };
}

/** Lets the `nth` out-of-memory scope report an error, as if the driver had refused. */
export function refuseMemory(device: GPUDevice, nth: number): void {
  const open: GPUErrorFilter[] = [];
  let popped = 0;
  const push = device.pushErrorScope.bind(device);
  const pop = device.popErrorScope.bind(device);
  device.pushErrorScope = (filter) => {
    open.push(filter);
    return push(filter);
  };
  device.popErrorScope = async () => {
    const refused = open.pop() === "out-of-memory" && ++popped === nth;
    const found = await pop();
    return refused ? ({ message: "refused for a test" } as GPUError) : found;
  };
}
