// What writes stories inside the browser and under Node, for text*.test.ts.

import type { OpenDevice } from "../../../web/src/device.js";
import { TextGenerator, type TextGeneratorOptions } from "../../../web/src/text-generator.js";
import type { TextSource } from "../../../web/src/byte-source.js";

export interface Written {
  text: string;
  finish: string;
  created: Record<string, number>; // pipelines, buffers, bind groups and query sets after the first token
  up: number; // bytes of a token, in the mean: a step is under way before the token of the last one is there
  down: number;
}

const makers = ["createBuffer", "createBindGroup", "createComputePipeline", "createComputePipelineAsync", "createQuerySet",
  "createShaderModule"] as const;

/** Writes a story of 200 steps and counts what the device is asked for. */
export async function writeStory(model: TextSource, open: OpenDevice, options: TextGeneratorOptions): Promise<Written> {
  const generator = await TextGenerator.load(model, { device: open, context: 256, chunk: 32, ...options });
  const { device } = open;
  const created: Record<string, number> = {};
  let [up, down] = [0, 0];
  const undo: (() => void)[] = [];
  const wrap = (on: object, name: string, note: (args: unknown[]) => void) => {
    const had = Object.getOwnPropertyDescriptor(on, name);
    const before = (on as Record<string, (...args: unknown[]) => unknown>)[name]!;
    Object.defineProperty(on, name, { configurable: true, writable: true, value(this: unknown, ...args: unknown[]) {
      note(args);
      return before.apply(this, args);
    } });
    undo.push(() => {
      if (had) Object.defineProperty(on, name, had);
      else delete (on as Record<string, unknown>)[name];
    });
  };
  const watch = () => {
    for (const name of makers) wrap(device, name, () => (created[name] = (created[name] ?? 0) + 1));
    wrap(device.queue, "writeBuffer", (args) => {
      const data = args[2] as Uint8Array;
      up += (args[4] as number | undefined) ?? data.byteLength;
    });
    wrap(GPUBuffer.prototype, "getMappedRange", (args) => (down += args[1] as number));
  };
  let tokens = 0;
  try {
    const { text, finish } = await generator.generate("", { tokens: 200, onToken: () => {
      // The first token compiles nothing, but makes what is read back through.
      if (++tokens === 1) watch();
    } });
    return { text, finish, created, up: up / (tokens - 1), down: down / (tokens - 1) };
  } finally {
    undo.forEach((each) => each());
    generator.destroy();
  }
}
