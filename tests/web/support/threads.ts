// Threads of the module for the processor under Node, whose workers are not those of pages.

import { join } from "node:path";
import { Worker as NodeWorker } from "node:worker_threads";
import { build } from "esbuild";
import type { MakeThread } from "../../../web/src/cpu-threads.js";
import { ROOT } from "./compiler.js";

const script = `
  import { parentPort } from "node:worker_threads";
  import { threadOf } from "./cpu-engine.js";
  import { becomeThread } from "./cpu-threads.js";
  const scope = { postMessage: (message) => parentPort.postMessage(message), onmessage: null };
  parentPort.on("message", (data) => ("thread" in data ? void becomeThread(data, scope, threadOf) : scope.onmessage({ data })));
`;

/** What makes such threads. */
export async function nodeThreads(): Promise<MakeThread> {
  const { outputFiles } = await build({
    stdin: { contents: script, resolveDir: join(ROOT, "web/src"), loader: "js" },
    bundle: true, platform: "node", format: "cjs", write: false, logLevel: "error",
    logOverride: { "empty-import-meta": "silent" },
  });
  const code = outputFiles[0]!.text;
  return () => {
    const worker = new NodeWorker(code, { eval: true });
    worker.unref();
    const thread = {
      onmessage: null as ((event: { data: unknown }) => void) | null,
      postMessage: (message: unknown) => worker.postMessage(message),
      terminate: () => void worker.terminate(),
    };
    worker.on("message", (data) => thread.onmessage?.({ data }));
    return thread as unknown as Worker;
  };
}
