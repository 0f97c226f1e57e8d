// What writes inside the browser, for text-chromium.test.ts.

import { requestDevice } from "../../../web/src/device.js";
import { storedModels } from "../../../web/src/model-store.js";
import { TextGenerator, type TextGeneratorOptions } from "../../../web/src/text-generator.js";
import { writeStory, type Written } from "./stories.js";

/** A story of a file from the data. */
export async function write(path: string, options: Pick<TextGeneratorOptions, "limits">): Promise<Written> {
  const open = await requestDevice();
  try {
    return await writeStory(`/data/${path}`, open, { ...options, wasm: "/gyrus-text.wasm", store: false });
  } finally {
    open.device.destroy();
  }
}

/** A few tokens of a file under an address, which the browser keeps; and what is kept then. */
export async function keep(path: string): Promise<{ text: string; stored: [number, number][] }> {
  const generator = await TextGenerator.load(path, { wasm: "/gyrus-text.wasm", context: 64, chunk: 16 });
  const { text } = await generator.generate("", { tokens: 8 });
  generator.destroy();
  return { text, stored: (await storedModels()).map(({ stored, size }) => [stored, size]) };
}
