// Under Node, where WebGPU comes from npm's webgpu and the driver from VK_ICD_FILENAMES:
//   node BUNDLE WEBGPU_MODULE GYRUS_WASM ONNXRUNTIME_WASM OPTIONS   (JSON on the last line)

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [module, gyrus, onnxruntime, options] = process.argv.slice(2);
const { create, globals } = await import(pathToFileURL(module).href);
Object.assign(globalThis, globals);
globalThis.gpu = create([]); // referenced for as long as the process lives
const navigator = { gpu: globalThis.gpu, userAgent: "Node" };
Object.defineProperty(globalThis, "navigator", { value: navigator, configurable: true });
// onnxruntime-web uploads from shared memory, which the binding for Node does not take; a copy takes 1 or 2 ms.
const { writeBuffer } = GPUQueue.prototype;
GPUQueue.prototype.writeBuffer = function (buffer, at, data, ...range) {
  const shared = ArrayBuffer.isView(data) && data.buffer instanceof SharedArrayBuffer;
  return writeBuffer.call(this, buffer, at, shared ? data.slice() : data, ...range);
};
globalThis.window = globalThis; // tfjs looks for WebGPU only where there is a window
const { measure } = await import("./measure.mjs");
const files = { gyrus: readFileSync(gyrus), onnxruntime: readFileSync(onnxruntime) };
const measured = await measure(files, { ...JSON.parse(options), log: (line) => console.error(line) });
console.log(JSON.stringify(measured));
process.exit(0);
