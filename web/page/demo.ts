import type { ModelSource } from "../src/types.js";
import type { App } from "./app.js";
import { byId } from "./dom.js";
import { showOpened } from "./models.js";

// The example: a synthetic head and a small network for it, where the site has them (demo/index.json).

export interface Demo {
  scan: string;
  files: string[]; // of the model
}

const kFolder = "demo/";
let inDemo = false;

// Whatever is opened next is to be conformed again.
export function leaveDemo(): void {
  if (inDemo) byId<HTMLInputElement>("conform").checked = true;
  inDemo = false;
}

export async function siteDemo(): Promise<Demo | null> {
  try {
    const answer = await fetch(`${kFolder}index.json`, { cache: "no-cache" });
    const demo = answer.ok ? ((await answer.json()) as Demo) : null;
    return demo?.scan ? demo : null;
  } catch {
    return null;
  }
}

export async function openDemo(app: App, demo: Demo): Promise<void> {
  const url = new URL(kFolder, document.baseURI).href;
  const source: ModelSource = { kind: "url", url, files: demo.files };
  if (!(await app.openModel(async () => source))) return;
  showOpened("The example’s network");
  byId<HTMLInputElement>("conform").checked = false; // the network is made for the phantom's own grid
  inDemo = true;
  await app.openScan(async () => {
    const answer = await fetch(url + demo.scan);
    if (!answer.ok) throw new Error(`The example cannot be read (${answer.status} ${answer.statusText}).`);
    return { name: demo.scan, bytes: await answer.arrayBuffer() };
  });
  await app.run();
}
