// Devices that fail when a test says so, in Node and in the page's worker.

export interface Faults {
  refusals: number; // so many loads of a plan to come find no memory
  lose(): void; // the device that was opened last is destroyed, as if the driver had failed
}

/** Changes WebGPU's classes where it is called. Stands alone: its text also goes into the page's worker. */
export function installFaults(): Faults {
  const { createBuffer, pushErrorScope, popErrorScope } = GPUDevice.prototype;
  const { requestDevice } = GPUAdapter.prototype;
  const { destroy } = GPUBuffer.prototype;
  const scopes: GPUErrorFilter[] = [];
  let device: GPUDevice | null = null;
  let refused = false; // the buffer in the innermost scope
  let failing = false; // this load is, until it frees what it has
  const faults: Faults = { refusals: 0, lose: () => device?.destroy() };
  GPUAdapter.prototype.requestDevice = async function (descriptor) {
    return (device = await requestDevice.call(this, descriptor));
  };
  GPUDevice.prototype.createBuffer = function (descriptor) {
    if (faults.refusals > 0 && !failing) {
      --faults.refusals;
      refused = failing = true;
    }
    return createBuffer.call(this, descriptor);
  };
  GPUBuffer.prototype.destroy = function () {
    failing = false;
    return destroy.call(this);
  };
  GPUDevice.prototype.pushErrorScope = function (filter) {
    scopes.push(filter);
    return pushErrorScope.call(this, filter);
  };
  GPUDevice.prototype.popErrorScope = async function () {
    const mine = scopes.pop() === "out-of-memory" && refused;
    if (mine) refused = false;
    const found = await popErrorScope.call(this);
    return mine ? ({ message: "refused for a test" } as GPUError) : found;
  };
  return faults;
}

const channel = "gyrus-faults";

/** Put before the worker's script: takes orders from the page, of the form { lose: true } or { refusals: 2 }. */
export function faultScript(): string {
  const listen = `new BroadcastChannel("${channel}").onmessage = ({ data, target }) => {
    if (data.done) return;
    if (data.lose) faults.lose(); else faults.refusals = data.refusals;
    target.postMessage({ done: true });
  }`;
  return `{ const faults = (${installFaults.toString()})(); ${listen} }`;
}

/** What the page is to evaluate with such an order. */
export function orderFault(order: { lose?: boolean; refusals?: number; channel: string }): Promise<void> {
  return new Promise((resolve) => {
    const way = new BroadcastChannel(order.channel);
    way.onmessage = () => {
      way.close();
      resolve();
    };
    way.postMessage(order);
  });
}

export const faultChannel = channel;
