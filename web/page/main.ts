import { WorkerSegmenter } from "../src/segmenter.js";
import type { Segmenter, SiteModel } from "../src/types.js";
import { App } from "./app.js";
import { openDemo, siteDemo } from "./demo.js";
import { byId } from "./dom.js";
import { classify, droppedFiles } from "./files.js";
import { folderSource, siteModels, siteSource, urlSource } from "./models.js";
import { diagnostics } from "./panel.js";
import { wireSaves } from "./saves.js";
import { Viewer, type View } from "./viewer.js";

// The page's start: every control to what it does.

const worker = new WorkerSegmenter(() => new Worker(new URL("worker.js", document.baseURI), { type: "module" }));
const segmenter: Segmenter = worker;
const app = new App(segmenter, new Viewer(byId<HTMLCanvasElement>("canvas")));
worker.onRestart = () => app.restarted();

function openFiles(list: () => Promise<File[]>): void {
  void app.openScan(async () => {
    const picked = await classify(await list());
    if (picked.kind === "scan") return { name: picked.file.name, bytes: await picked.file.arrayBuffer() };
    const { convertDicom } = await import("./dicom.js");
    const { file, others } = await convertDicom(picked.files);
    const note = others > 0 ? `The folder holds ${others + 1} series; the largest was opened.` : undefined;
    return { name: file.name, bytes: await file.arrayBuffer(), note };
  });
}

function wireScan(): void {
  const file = byId<HTMLInputElement>("scan-file");
  const folder = byId<HTMLInputElement>("dicom-folder");
  for (const id of ["pick-scan", "pick-here"]) byId(id).addEventListener("click", () => file.click());
  byId("pick-dicom").addEventListener("click", () => folder.click());
  for (const input of [file, folder])
    input.addEventListener("change", () => {
      const files = [...(input.files ?? [])];
      input.value = ""; // the same file may be picked again
      if (files.length > 0) openFiles(async () => files);
    });
  let depth = 0;
  const dragging = (step: number) => {
    depth = step === 0 ? 0 : Math.max(0, depth + step);
    document.body.classList.toggle("dragging", depth > 0);
  };
  window.addEventListener("dragenter", () => dragging(1));
  window.addEventListener("dragleave", () => dragging(-1));
  window.addEventListener("dragover", (event) => event.preventDefault());
  window.addEventListener("drop", (event) => {
    event.preventDefault();
    dragging(0);
    const files = event.dataTransfer ? droppedFiles(event.dataTransfer) : Promise.resolve([]); // items die with the event
    openFiles(() => files);
  });
}

function wireModel(models: SiteModel[]): void {
  const select = byId<HTMLSelectElement>("model");
  const folder = byId<HTMLInputElement>("model-folder");
  const form = byId<HTMLFormElement>("url-form");
  select.addEventListener("change", () => {
    const model = models.find((m) => `site:${m.name}` === select.value);
    form.hidden = select.value !== "url";
    if (model) void app.openModel(async () => siteSource(model));
    else if (select.value === "folder") folder.click();
    else byId("model-url").focus();
  });
  folder.addEventListener("change", () => {
    const files = [...(folder.files ?? [])];
    folder.value = "";
    if (files.length > 0) void app.openModel(() => folderSource(files));
  });
  folder.addEventListener("cancel", () => (select.value = ""));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void app.openModel(async () => urlSource(byId<HTMLInputElement>("model-url").value));
  });
}

function wireView(): void {
  byId("views").addEventListener("change", (event) =>
    void app.viewer.setView((event.target as HTMLInputElement).value as View).catch((error) => app.fail(error)));
  const opacity = byId<HTMLInputElement>("opacity");
  opacity.addEventListener("input", () => void app.viewer.setOpacity(Number(opacity.value) / 100));
}

function wireRun(): void {
  byId("run").addEventListener("click", () => void app.run());
  byId("cancel").addEventListener("click", () => app.cancel());
  const copy = byId<HTMLButtonElement>("copy");
  copy.addEventListener("click", () => {
    const said = (text: string) => {
      copy.textContent = text;
      setTimeout(() => (copy.textContent = "Copy diagnostics"), 2000);
    };
    navigator.clipboard.writeText(diagnostics(app.facts)).then(() => said("Copied"), () => said("Copying was refused"));
  });
}

async function start(): Promise<void> {
  wireScan();
  wireView();
  wireRun();
  wireSaves(app, segmenter);
  void app.findDevice();
  const [models, demo] = await Promise.all([siteModels(), siteDemo()]);
  wireModel(models);
  if (demo) {
    const button = byId("demo");
    button.hidden = false;
    button.addEventListener("click", () => void openDemo(app, demo));
  }
  const first = models[0];
  if (first) {
    byId<HTMLSelectElement>("model").value = `site:${first.name}`;
    void app.openModel(async () => siteSource(first));
  }
  app.viewer.preload();
  if ("serviceWorker" in navigator && isSecureContext) void navigator.serviceWorker.register("sw.js").catch(() => {});
}

// For tests and the curious: what the page itself uses.
Object.assign(globalThis, { gyrus: { app, segmenter: worker } });
void start();
