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

/** Lets the `nth` buffer from now on, counted from 1, be refused as if the driver had no memory. */
export function refuseMemory(device: GPUDevice, nth: number): void {
  const open: GPUErrorFilter[] = [];
  let created = 0;
  let refused = false;
  const push = device.pushErrorScope.bind(device);
  const pop = device.popErrorScope.bind(device);
  const create = device.createBuffer.bind(device);
  device.createBuffer = (descriptor) => {
    refused = ++created === nth;
    return create(descriptor);
  };
  device.pushErrorScope = (filter) => {
    open.push(filter);
    return push(filter);
  };
  device.popErrorScope = async () => {
    const mine = open.pop() === "out-of-memory" && refused;
    if (mine) refused = false;
    const found = await pop();
    return mine ? ({ message: "refused for a test" } as GPUError) : found;
  };
}
