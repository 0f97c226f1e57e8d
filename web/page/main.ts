import { WorkerSegmenter } from "../src/segmenter.js";
import { checkFileSize } from "../src/gzip.js";
import type { ModelSource, Segmenter, SiteModel } from "../src/types.js";
import { wireView } from "./adjust.js";
import { App } from "./app.js";
import { leaveDemo, openDemo, siteDemo } from "./demo.js";
import { byId, bytesText } from "./dom.js";
import { classify, droppedFiles, readScan } from "./files.js";
import { folderSource, showOpened, siteModels, siteSource, urlSource } from "./models.js";
import { diagnostics } from "./panel.js";
import { wireSaves } from "./saves.js";
import { smallModel } from "./cpu.js";
import { Viewer } from "./viewer.js";

// The page's start: every control to what it does.

const asked = new URLSearchParams(location.search); // ?model=NAME&scan=ADDRESS: a link that opens both; ?device=gpu

const worker = new WorkerSegmenter(() => new Worker(new URL("worker.js", document.baseURI), { type: "module" }));
const segmenter: Segmenter = worker;
const app = new App(segmenter, new Viewer(byId<HTMLCanvasElement>("canvas")), asked.get("device") === "gpu");
worker.onRestart = () => app.restarted();

function openFiles(list: () => Promise<File[]>): void {
  leaveDemo();
  if (!app.busy) byId("series-field").hidden = true;
  let series: [File, ...File[]] | null = null; // of DICOM, converted once
  void app.openScan(async () => {
    if (!series) {
      const picked = await classify(await list());
      if (picked.kind === "scan") return { name: picked.file.name, bytes: await readScan(picked.file) };
      const { convertDicom } = await import("./dicom.js");
      series = await convertDicom(picked.files);
      offerSeries(series);
    }
    const [file, ...others] = series;
    const note = others.length > 0 ? `The folder holds ${others.length + 1} series; the largest was opened.` : undefined;
    return { name: file.name, bytes: await readScan(file), note };
  });
}

// A scan that a link names: of this site, or of an https host that allows it.
function openAddress(address: string): void {
  void app.openScan(async () => {
    const url = new URL(address, document.baseURI);
    const answer = await fetch(url, { credentials: "omit" }).catch(() => null);
    if (!answer?.ok) throw new Error(`The scan at ${url.href} cannot be read (${answer?.status ?? "no answer, or not allowed"}).`);
    const name = decodeURIComponent(url.pathname.split("/").pop() || "scan");
    checkFileSize(name, Number(answer.headers.get("content-length") ?? 0));
    return { name, bytes: await answer.arrayBuffer() };
  });
}

// Which of several series of a DICOM folder; the largest is seldom the anatomical one.
function offerSeries(series: File[]): void {
  const select = byId<HTMLSelectElement>("series");
  byId("series-field").hidden = series.length < 2;
  select.replaceChildren(...series.map((file, i) =>
    new Option(`${file.name.replace(/\.nii(\.gz)?$/i, "")} (${bytesText(file.size)})`, String(i))));
  select.onchange = () => {
    const file = series[Number(select.value)]!;
    void app.openScan(async () => ({ name: file.name, bytes: await readScan(file) }));
  };
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
    // Here and not later: the items die with the event.
    const files = event.dataTransfer ? droppedFiles(event.dataTransfer) : Promise.resolve([]);
    void files.catch(() => []).then((list) =>
      list.some(({ name }) => name === "model.json") ? openModelFolder(list) : openFiles(() => files));
  });
}

let openModelFolder: (files: File[]) => void = () => {}; // one that was dropped

function wireModel(models: SiteModel[]): void {
  const select = byId<HTMLSelectElement>("model");
  const folder = byId<HTMLInputElement>("model-folder");
  const form = byId<HTMLFormElement>("url-form");
  let before = select.value;
  let opens = 0;
  // Opens it; the select goes back to the model before where that fails.
  const open = (source: () => Promise<ModelSource>, name: string | null) => {
    leaveDemo();
    const mine = ++opens;
    void app.openModel(source).then((worked) => {
      if (mine !== opens) return; // another was chosen meanwhile
      if (!worked) select.value = before;
      else if (name !== null) showOpened(name);
      if (worked) form.hidden = true;
      before = select.value;
    });
  };
  select.addEventListener("change", () => {
    const model = models.find((m) => `site:${m.name}` === select.value);
    const { value } = select;
    form.hidden = value !== "url";
    if (model) return open(async () => siteSource(model), null);
    select.value = before; // what is open, until there is another
    if (value === "folder") folder.click();
    else if (value === "url") byId("model-url").focus();
  });
  folder.addEventListener("change", () => {
    const files = [...(folder.files ?? [])];
    folder.value = "";
    if (files.length > 0) openModelFolder(files);
  });
  openModelFolder = (files) =>
    open(() => folderSource(files), files[0]?.webkitRelativePath.split("/")[0] || "a folder on this computer");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const address = byId<HTMLInputElement>("model-url").value;
    open(async () => urlSource(address), address);
  });
  const choose = (model: SiteModel) => {
    select.value = `site:${model.name}`;
    open(async () => siteSource(model), null);
  };
  app.onChoose = choose;
  app.showModels();
  const [first] = models;
  if (!first) return;
  // Without a GPU one that is quick on the CPU, where the site has one.
  const named = models.find((model) => model.name === asked.get("model"));
  void app.hasGpu().then((gpu) => choose(named ?? ((!gpu && smallModel(models, 256 ** 3)) || first)));
}

function wireRun(): void {
  byId("run").addEventListener("click", () => void app.run());
  byId("cancel").addEventListener("click", () => app.cancel());
  byId("conform").addEventListener("change", () => void app.findOffer());
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
  wireView(app.viewer, (error) => app.fail(error));
  wireRun();
  wireSaves(app, segmenter);
  void app.findDevice();
  const [models, demo] = await Promise.all([siteModels(), siteDemo()]);
  app.siteModels = models;
  wireModel(models);
  if (demo) {
    const button = byId("demo");
    button.hidden = false;
    button.addEventListener("click", () => void openDemo(app, demo));
  }
  app.viewer.preload();
  const scan = asked.get("scan");
  if (scan) openAddress(scan);
  keepForOffline();
}

// Not where this machine serves the page itself: it is there without a network anyhow, and another program that serves
// on the same port some day would be hidden behind the kept page. "?offline" keeps it all the same.
function keepForOffline(): void {
  const local = /^(localhost|127\..*|\[::1\])$/.test(location.hostname);
  if (!("serviceWorker" in navigator) || (local && !asked.has("offline"))) return;
  void navigator.serviceWorker.register("sw.js").catch(() => {});
}

// A result that was not saved is not lost without a question.
window.addEventListener("beforeunload", (event) => {
  if (!app.saved) event.preventDefault();
});

// For tests and the curious: what the page itself uses.
Object.assign(globalThis, { gyrus: { app, segmenter: worker } });
void start();
