import type {
  CpuOffer, DeviceReport, LabelEntry, ModelInfo, ModelSource, OpenScan, Segmenter, SegmentOptions, SegmentResult,
  SiteModel,
} from "../src/types.js";
import { GyrusError, isCancelled } from "../src/errors.js";
import { clearAlerts, clearNotices, noticeLine, showError } from "./alerts.js";
import { noGpuText } from "./cpu.js";
import { byId, bytesText, gridText, secondsText, swatch } from "./dom.js";
import { actionsOf, messageOf } from "./hints.js";
import { showPanel, type Facts } from "./panel.js";
import { ProgressView } from "./progress.js";
import { LabelTable } from "./table.js";
import type { Viewer } from "./viewer.js";

// What is open and what runs. One scan, one model, one run at a time; everything that fails says so in one line and
// leaves the page as it was before.

const kNoDevice = ["device", "unsupported"];

export class App {
  scanName = "";
  result: SegmentResult | null = null;
  private scan: OpenScan["info"] | null = null;
  private model: ModelInfo | null = null;
  siteModels: SiteModel[] = []; // to name one that the CPU can do
  private device: DeviceReport | null = null;
  private looking: Promise<void> = Promise.resolve(); // for the device
  private offer: CpuOffer | null = null; // where there is no device, but a scan and a model
  private offers = 0;
  private running: AbortController | null = null;
  private opening = 0; // calls under way that open something
  private scanNotices: string[] = [];
  private notices: string[] = []; // of the scan and of the last run
  private errors: string[] = [];
  private readonly progress = new ProgressView();
  private readonly table = new LabelTable();

  constructor(private readonly segmenter: Segmenter, readonly viewer: Viewer) {
    this.table.onAlone = (value) => void viewer.showAlone(value).catch((error) => this.fail(error));
    viewer.onPlace = (place) => {
      byId("place").textContent = `${place.mm.map((v) => v.toFixed(1)).join(", ")} mm` +
        (place.intensity === null ? "" : `   intensity ${Number(place.intensity.toPrecision(5))}`);
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

  // Where there is no GPU: what the CPU can do with scan and model. Again whenever one of them changes.
  async findOffer(): Promise<void> {
    const mine = ++this.offers;
    this.offer = null;
    this.refresh();
    await this.looking;
    this.refresh();
    if (this.device?.available !== false || !this.scan || !this.model) return;
    try {
      const offer = await this.segmenter.cpuOffer({ conform: byId<HTMLInputElement>("conform").checked });
      if (mine === this.offers) this.offer = offer;
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
    if (this.running) showError(new Error(`A segmentation is running; cancel it or wait for its end before ${what}.`));
    return !this.running;
  }

  // `read` gives name and bytes, and may itself fail.
  async openScan(read: () => Promise<{ name: string; bytes: ArrayBuffer; note?: string }>): Promise<void> {
    if (!this.free("opening another scan")) return;
    clearAlerts();
    await this.opened("Reading the scan…", "scan-info", async () => {
      const { name, bytes, note } = await read();
      byId("scan-info").textContent = `Reading ${name}…`;
      const { info, nifti } = await this.segmenter.openScan(name, bytes);
      this.scan = info;
      this.scanName = name;
      this.forgetResult();
      this.scanNotices = note ? [note, ...info.notices] : info.notices;
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

  async openModel(source: () => Promise<ModelSource>): Promise<boolean> {
    if (!this.free("opening another model")) return false;
    clearAlerts();
    const worked = await this.opened("Reading the model…", "model-info", async () => {
      this.model = await this.segmenter.openModel(await source());
      byId<HTMLInputElement>("largest").checked = this.model.largestComponent;
      byId<HTMLInputElement>("fill").checked = this.model.fillHoles;
      byId<HTMLInputElement>("allow-empty").checked = this.model.allowEmpty;
    });
    byId("model-info").textContent = this.model
      ? `${this.model.title || this.model.name}: ${this.model.layers.length} layers, ` +
        `${this.model.parameters.toLocaleString("en")} parameters` +
        (this.model.licence ? `, ${this.model.licence}` : "")
      : "";
    await this.findOffer();
    this.maybeRun();
    return worked;
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
    if (!this.canRun || this.running || this.result) return;
    byId("status").textContent = "Ready.";
    if (byId<HTMLInputElement>("at-once").checked) void this.run();
  }

  private get canRun(): boolean {
    if (!this.scan || !this.model) return false;
    return this.device?.available !== false || this.offer?.possible === true;
  }

  private options(signal: AbortSignal): SegmentOptions {
    const checked = (id: string) => byId<HTMLInputElement>(id).checked;
    const value = (id: string) => byId<HTMLSelectElement>(id).value;
    const normalize = value("normalize");
    return {
      ...(normalize ? { normalize } : {}), // else as the model wants
      precision: value("precision") as SegmentOptions["precision"],
      conform: checked("conform"), largestComponent: checked("largest"), fillHoles: checked("fill"),
      allowEmpty: checked("allow-empty"),
      cpu: this.device?.available === false, signal,
      onProgress: (stage, progress) => this.progress.show(stage, progress),
      onNotice: (notice) => {
        this.notices.push(notice);
        noticeLine(notice);
      },
    };
  }

  async run(): Promise<void> {
    if (!this.free("starting another") || !this.canRun) return;
    clearAlerts();
    this.running = new AbortController();
    this.forgetResult();
    this.showNotices(this.scanNotices);
    this.progress.begin();
    this.refresh();
    let last = "";
    try {
      const result = await this.segmenter.segment(this.options(this.running.signal));
      this.result = result; // the viewer tells at once what is under its crosshair
      await this.viewer.showLabels(result.nativeLabels, result.labels);
      this.table.show(result.report, result.labels);
      for (const notice of [...result.notices, ...result.report.warnings]) {
        if (!this.notices.includes(notice)) this.notices.push(notice);
        noticeLine(notice);
      }
      const { plan, seconds } = result;
      last = result.onCpu
        ? `Done on the CPU in ${secondsText(seconds.total)}, ${plan.precision}, ${bytesText(plan.peakBytes)}.`
        : `Done in ${secondsText(seconds.total)}, ${plan.precision}, ${bytesText(plan.peakBytes)} on the device.`;
    } catch (error) {
      last = isCancelled(error) ? "Cancelled." : "Failed; see the message above.";
      this.forgetResult();
      this.fail(error);
      if (error instanceof GyrusError && kNoDevice.includes(error.code)) void this.findDevice(); // is there one still?
    }
    this.running = null;
    this.progress.end(last);
    this.refresh();
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
    byId("model-info").textContent = "";
    this.refresh();
  }

  private forgetResult(): void {
    this.result = null;
    this.table.clear();
    void this.viewer.hide().catch(() => {});
  }

  private refresh(): void {
    const run = byId<HTMLButtonElement>("run");
    const onCpu = this.device?.available === false;
    run.disabled = !this.canRun || this.opening > 0 || this.busy;
    run.textContent = this.busy ? "Segmenting…" : onCpu && this.canRun ? "Segment on the CPU" : "Segment";
    byId("no-gpu").hidden = !onCpu || this.busy;
    if (this.device && onCpu)
      byId("no-gpu").textContent = noGpuText(this.device, this.offer, this.siteModels, this.voxels);
    byId("cancel").hidden = !this.busy;
    byId("results").hidden = !this.result;
    byId<HTMLInputElement>("opacity").disabled = !this.result;
    byId("run-section").setAttribute("aria-busy", String(this.busy));
    showPanel(this.facts);
  }
}
