import type {
  CpuOffer, DeviceReport, Download, LabelEntry, ModelInfo, ModelSource, OpenScan, Segmenter, SegmentOptions, SegmentResult,
  SiteModel,
} from "../src/types.js";
import { GyrusError, isCancelled } from "../src/errors.js";
import { clearAlerts, clearNotices, noticeLine, showError } from "./alerts.js";
import { endDownload, showDownload, showModel, showModels } from "./cards.js";
import { visible } from "./colours.js";
import { noGpuText, roughly, smallModel } from "./cpu.js";
import { byId, gridText, secondsText, swatch } from "./dom.js";
import { actionsOf, messageOf } from "./hints.js";
import { showPanel, type Facts } from "./panel.js";
import { ProgressView } from "./progress.js";
import { oddScan } from "./scan-notes.js";
import { guessSeconds, noteSpeed } from "./speed.js";
import { LabelTable } from "./table.js";
import type { Viewer } from "./viewer.js";

// What is open and what runs. One scan, one model, one run at a time; everything that fails says so in one line and
// leaves the page as it was before.

const kNoDevice = ["device", "unsupported"];
const kRunning = "A segmentation is running";
const kWhileIdle = ["pick-scan", "pick-dicom", "pick-here", "demo", "model", "series", "volume"]; // controls

// "L 0.8  A 5.9  S 6.0 mm"
function placeText(mm: [number, number, number]): string {
  return `${mm.map((v, axis) => `${["RL", "AP", "SI"][axis]![v < 0 ? 1 : 0]} ${Math.abs(v).toFixed(1)}`).join("  ")} mm`;
}

// So long on the CPU that a person is asked first.
function isLong({ seconds, mostSeconds }: CpuOffer): boolean {
  return seconds > mostSeconds;
}

export class App {
  scanName = "";
  result: SegmentResult | null = null;
  private scan: OpenScan["info"] | null = null;
  private model: ModelInfo | null = null;
  siteModels: SiteModel[] = [];
  onChoose: (model: SiteModel) => void = () => {}; // one of these
  private modelBytes: number | undefined; // of its files
  private reading: AbortController | null = null; // a model
  saved = true; // the result, or there is none
  private device: DeviceReport | null = null;
  private looking: Promise<void> = Promise.resolve(); // for the device
  private offer: CpuOffer | null = null; // where there is no device or a CPU stands in for one, but a scan and a model
  private offers = 0;
  private running: AbortController | null = null;
  private opening = 0; // calls under way that open something
  private scanNotices: string[] = [];
  private notices: string[] = []; // of the scan and of the last run
  private errors: string[] = [];
  private readonly progress = new ProgressView();
  private readonly table = new LabelTable();

  /** `stays`: on the GPU also where a CPU stands in for it. */
  constructor(private readonly segmenter: Segmenter, readonly viewer: Viewer, private readonly stays = false) {
    this.table.onAlone = (value, centre) => {
      const shown = viewer.showAlone(value).then(() => (centre ? viewer.goTo(centre) : undefined));
      void shown.catch((error) => this.fail(error));
    };
    viewer.onPlace = (place) => {
      byId("place").textContent = placeText(place.mm) +
        (place.intensity === null ? "" : ` · intensity ${Number(place.intensity.toPrecision(5))}`);
      this.showUnder(this.result?.labels.find((label) => label.value === place.label && label.value !== 0));
    };
  }

  // The label under the crosshair; touched only when it changes, since it is read out.
  private showUnder(entry: LabelEntry | undefined): void {
    const under = byId("under");
    if (under.textContent === (entry?.name ?? "")) return;
    under.replaceChildren(...(entry ? [swatch(entry.colour), entry.name] : []));
  }

  get facts(): Facts {
    const { device, scan, model, result, notices, errors } = this;
    return { device, scan, model, result, notices, errors };
  }

  get busy(): boolean {
    return this.running !== null;
  }

  /** Whether the page has a GPU; settles when that is known. */
  async hasGpu(): Promise<boolean> {
    await this.looking;
    return this.device?.available !== false;
  }

  findDevice(): Promise<void> {
    const look = async () => {
      try {
        this.device = await this.segmenter.device();
      } catch (error) {
        this.fail(error);
      }
    };
    this.looking = look();
    return this.findOffer();
  }

  // Where there is no GPU, or a CPU stands in for one: what the CPU itself can do with scan and model. Again whenever one
  // of them changes.
  async findOffer(): Promise<void> {
    const mine = ++this.offers;
    this.offer = null;
    this.refresh();
    await this.looking;
    this.refresh();
    if ((this.device?.available !== false && !this.device?.software) || !this.scan || !this.model) return;
    try {
      const offer = await this.segmenter.cpuOffer({ conform: byId<HTMLInputElement>("conform").checked });
      if (mine === this.offers) this.offer = offer;
      this.showModels();
    } catch (error) {
      this.fail(error);
    }
    this.refresh();
  }

  // The voxels that the network sees.
  private get voxels(): number {
    const [x, y, z] = this.scan && !byId<HTMLInputElement>("conform").checked ? this.scan.dims : [256, 256, 256];
    return x * y * z;
  }

  fail(error: unknown): void {
    if (isCancelled(error)) return;
    this.errors.push(messageOf(error));
    showError(error, actionsOf(error, () => void this.run()));
  }

  // Refuses with a message while a run is under way.
  private free(what: string): boolean {
    if (this.running) showError(new Error(`${kRunning}; cancel it or wait for its end before ${what}.`));
    return !this.running;
  }

  // `read` gives name and bytes, and may itself fail.
  async openScan(
    read: () => Promise<{ name: string; bytes: ArrayBuffer; note?: string }>, volume?: number,
  ): Promise<void> {
    if (!this.free("opening another scan")) return;
    clearAlerts();
    await this.opened("Reading the scan…", "scan-info", async () => {
      const { name, bytes, note } = await read();
      byId("scan-info").textContent = `Reading ${name}…`;
      const opened = await this.segmenter.openScan(name, bytes, volume === undefined ? {} : { volume });
      const { info, nifti } = opened;
      this.offerVolumes(opened, (other) => void this.openScan(read, other));
      this.scan = info;
      this.scanName = name;
      this.forgetResult();
      this.scanNotices = [...(note ? [note] : []), ...info.notices, ...oddScan(info)];
      this.showNotices(this.scanNotices);
      byId("drop-hint").hidden = true;
      await this.viewer.showScan(name, nifti);
    });
    const { scan } = this;
    byId("scan-info").textContent = scan
      ? `${this.scanName}: ${gridText(scan.dims, scan.spacing)}`
      : "None yet.";
    await this.findOffer();
    this.maybeRun();
  }

  // Of a 4-D file: which volume.
  private offerVolumes({ volume, volumes }: OpenScan, open: (volume: number) => void): void {
    const input = byId<HTMLInputElement>("volume");
    byId("volume-field").hidden = volumes < 2;
    input.max = String(volumes);
    input.value = String(volume + 1);
    input.onchange = () => open(Math.min(volumes, Math.max(1, Math.round(Number(input.value) || 1))) - 1);
  }

  /** Opens a model; one that is still being read is given up. */
  async openModel(source: () => Promise<ModelSource>): Promise<boolean> {
    if (!this.free("opening another model")) return false;
    clearAlerts();
    this.reading?.abort();
    const reading = (this.reading = new AbortController());
    const worked = await this.opened("Reading the model…", "model-info", async () => {
      let loaded = 0;
      const from = await source();
      const onDownload = (download: Download) => {
        ({ loaded } = download);
        if (this.reading === reading) showDownload(download);
      };
      this.model = await this.segmenter.openModel(from, { signal: reading.signal, onDownload });
      this.modelBytes = from.kind === "files" ? from.files.reduce((sum, { bytes }) => sum + bytes.length, 0) : loaded || undefined;
      byId<HTMLInputElement>("largest").checked = this.model.largestComponent;
      byId<HTMLInputElement>("fill").checked = this.model.fillHoles;
      byId<HTMLInputElement>("allow-empty").checked = this.model.allowEmpty;
    });
    if (this.reading !== reading) return worked; // another one is read now, and shows itself
    this.reading = null;
    endDownload();
    this.showModels();
    await this.findOffer();
    this.maybeRun();
    return worked;
  }

  // What runs the network, as far as its speed goes.
  private get runsOn(): string {
    return this.onCpu ? "CPU" : this.device?.adapter ?? "";
  }

  // Without a GPU, and where a CPU only stands in for one: its own kernels are faster.
  private get onCpu(): boolean {
    if (!this.device?.available) return this.device !== null;
    return this.device.software && !this.stays && this.offer?.possible !== false;
  }

  /** The open model and the site's, with what they would take here. */
  showModels(): void {
    const seconds = (parameters: number) => guessSeconds(this.runsOn, parameters, this.voxels);
    const { model, offer } = this;
    if (!this.reading) {
      const onCpu = this.onCpu && offer?.possible ? offer.seconds : null;
      showModel(model, this.modelBytes, onCpu ?? (model ? seconds(model.parameters) : null));
    }
    byId("some-need-gpu").hidden = this.device?.available !== false;
    showModels(this.siteModels, model?.name ?? null, seconds, (chosen) => this.onChoose(chosen));
  }

  private async opened(line: string, place: string, work: () => Promise<void>): Promise<boolean> {
    this.opening++;
    byId(place).textContent = line;
    this.refresh();
    try {
      await work();
      return true;
    } catch (error) {
      this.fail(error);
      return false;
    } finally {
      this.opening--;
      this.refresh();
    }
  }

  private maybeRun(): void {
    if (this.running || this.result) return;
    const missing = [...(this.scan ? [] : ["Open a scan"]), ...(this.model ? [] : ["choose a model"])].join(", ");
    byId("status").textContent = missing ? `${missing.charAt(0).toUpperCase()}${missing.slice(1)}, then segment.`
      : this.canRun ? "Ready." : "";
    if (!this.canRun) return;
    if (byId<HTMLInputElement>("at-once").checked) void this.run();
  }

  private get canRun(): boolean {
    if (!this.scan || !this.model) return false;
    if (!this.onCpu) return true;
    return this.offer?.possible === true && (this.device?.available === true || !isLong(this.offer));
  }

  private options(signal: AbortSignal, cpu: boolean): SegmentOptions {
    const checked = (id: string) => byId<HTMLInputElement>(id).checked;
    const value = (id: string) => byId<HTMLSelectElement>(id).value;
    const normalize = value("normalize");
    return {
      ...(normalize ? { normalize } : {}), // else as the model wants
      precision: value("precision") as SegmentOptions["precision"],
      conform: checked("conform"), largestComponent: checked("largest"), fillHoles: checked("fill"),
      allowEmpty: checked("allow-empty"),
      cpu, signal,
      onProgress: (stage, progress) => this.progress.show(stage, progress),
      onNotice: (notice) => {
        this.notices.push(notice);
        noticeLine(notice);
      },
    };
  }

  // On the CPU where there is no GPU but in name, or where a person asked for it.
  async run(onCpu = this.onCpu): Promise<void> {
    if (!this.free("starting another") || (!this.canRun && !(onCpu && this.offer?.possible))) return;
    clearAlerts();
    this.running = new AbortController();
    this.forgetResult();
    this.showNotices(this.scanNotices);
    this.progress.begin();
    this.refresh();
    if (document.activeElement === document.body) byId("cancel").focus({ preventScroll: true });
    let last = "";
    try {
      const result = await this.segmenter.segment(this.options(this.running.signal, onCpu));
      this.result = { ...result, labels: visible(result.labels) };
      noteSpeed(result.onCpu ? "CPU" : result.device.adapter, result.model.parameters, this.voxels, result.seconds.run);
      this.showModels();
      this.saved = false;
      // The viewer tells at once what is under its crosshair.
      await this.viewer.showLabels(result.nativeLabels, this.result.labels);
      this.table.show(result.report, this.result.labels);
      byId("made-by").textContent = `${result.model.title || result.model.name}, ${this.scanName}`;
      for (const notice of [...result.notices, ...result.report.warnings]) {
        if (!this.notices.includes(notice)) this.notices.push(notice);
        noticeLine(notice);
      }
      last = `Done ${result.onCpu ? "on the CPU " : ""}in ${secondsText(result.seconds.total)}.`; // the panel has the rest
    } catch (error) {
      last = isCancelled(error) ? "Cancelled." : "Failed; see the message above.";
      this.forgetResult();
      this.fail(error);
      if (error instanceof GyrusError && kNoDevice.includes(error.code)) void this.findDevice(); // is there one still?
    }
    this.running = null;
    clearAlerts(kRunning);
    this.progress.end(last);
    this.refresh();
    if (document.activeElement === document.body) byId("run").focus({ preventScroll: true }); // Cancel is gone
  }

  cancel(): void {
    this.running?.abort();
    byId("step").textContent = "Cancelling…";
  }

  private showNotices(lines: string[]): void {
    clearNotices();
    this.notices = [...lines];
    lines.forEach(noticeLine);
  }

  // After the worker died: what it held is gone.
  restarted(): void {
    this.scan = this.model = null;
    byId("scan-info").textContent = "None open.";
    byId<HTMLSelectElement>("model").value = "";
    this.showModels();
    this.refresh();
  }

  // What the CPU offers, as buttons: another model where this one cannot run there, a long run, or one instead of a slow GPU.
  private refreshCpu(noGpu: boolean): void {
    const { offer } = this;
    const small = noGpu && offer && (!offer.possible || isLong(offer))
      ? smallModel(this.siteModels, this.voxels) : null;
    const other = small && small.name !== this.model?.name ? small : null;
    const again = offer?.possible && (noGpu ? isLong(offer) : !this.onCpu);
    byId("small-model").hidden = !other;
    if (other) {
      byId("small-model").textContent = `Use ${other.title || other.name}`;
      byId("small-model").onclick = () => this.onChoose(other);
    }
    byId("on-cpu").hidden = !again;
    if (offer && again)
      byId("on-cpu").textContent = `Run on the CPU ${noGpu ? "anyway" : "instead"}, about ${roughly(offer.seconds)}`;
    byId("on-cpu").onclick = () => void this.run(true);
    byId("cpu-actions").hidden = this.busy || (!other && !again);
  }

  private forgetResult(): void {
    this.result = null;
    this.saved = true;
    this.table.clear();
    void this.viewer.hide().catch(() => {});
  }

  private refresh(): void {
    const run = byId<HTMLButtonElement>("run");
    const noGpu = this.device?.available === false;
    for (const id of kWhileIdle) byId<HTMLButtonElement>(id).disabled = this.busy;
    run.disabled = !this.canRun || this.opening > 0 || this.busy;
    run.textContent = this.busy ? "Segmenting…" : this.onCpu && this.canRun ? "Segment on the CPU" : "Segment";
    byId("no-gpu").hidden = !noGpu || this.busy;
    if (this.device && noGpu) byId("no-gpu").textContent = noGpuText(this.device, this.offer, this.model);
    this.refreshCpu(noGpu);
    byId("cancel").hidden = !this.busy;
    byId("viewer").classList.toggle("empty", !this.scan);
    byId("controls").classList.toggle("has-scan", this.scan !== null && !this.result);
    byId("results").hidden = !this.result;
    for (const id of ["opacity", "outlines"]) byId<HTMLInputElement>(id).disabled = !this.result;
    byId("run-section").setAttribute("aria-busy", String(this.busy));
    showPanel(this.facts);
  }
}
