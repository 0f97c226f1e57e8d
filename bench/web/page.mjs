// In the browser: the module's functions, for run.mjs to call.

import { measure } from "./measure.mjs";

async function bytes(path) {
  return new Uint8Array(await (await fetch(path)).arrayBuffer());
}

globalThis.bench = async (options) => {
  const files = { gyrus: await bytes("/gyrus.wasm"), onnxruntime: await bytes("/onnxruntime.wasm") };
  return measure(files, { ...options, log: (line) => console.log(line) });
};
