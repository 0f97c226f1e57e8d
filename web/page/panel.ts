import type { DeviceReport, ModelInfo, SegmentResult, VolumeInfo } from "../src/types.js";
import { bytesText, byId, element, gridText, secondsText } from "./dom.js";

// "Device and plan": what runs where and why, also as text to copy. No voxel and no file name of the scan goes into it.

export interface Facts {
  device: DeviceReport | null;
  scan: VolumeInfo | null;
  model: ModelInfo | null;
  result: SegmentResult | null;
  notices: string[];
  errors: string[];
}

const kByteLimits = /Size$/;
const kUseful = ["shader-f16", "subgroups", "timestamp-query"];

function rows(facts: Facts): [string, string][] {
  const { device, scan, model, result } = facts;
  const out: [string, string][] = [];
  if (device) {
    const useful = kUseful.filter((feature) => device.features.includes(feature));
    out.push(["Device", device.available ? device.adapter + (device.software ? " (software)" : "") : device.why]);
    if (device.available) out.push(["Features", useful.join(", ") || "none of use"]);
  }
  if (scan) out.push(["Scan", `${gridText(scan.dims, scan.spacing)}, ${scan.type}`]);
  const described = ({ name, classes, layers, parameters }: ModelInfo) =>
    `${name}, ${classes} classes, ${layers.length} layers, ${parameters.toLocaleString("en")} parameters`;
  if (result && model && model.weightsSha256 !== result.model.weightsSha256) out.push(["Chosen", described(model)]);
  const shown = result?.model ?? model; // a result is of the model that made it, whatever is chosen now
  if (shown) out.push(["Model", described(shown)]);
  if (shown?.citation) out.push(["Cite", shown.citation]);
  if (!result && model) out.push(["Intensities", model.normalize]);
  if (result) {
    const { plan, provenance: { options, ...made }, seconds } = result;
    out.push(["Weights", `SHA-256 ${made.weights_sha256.slice(0, 12)}…`]);
    out.push(["Intensities", options.normalize ?? ""]);
    out.push(["Settings", `conform ${options.conform}, parts ${options.components}, fill holes ${options.fill_holes}` +
      (options.volume ? `, volume ${options.volume}` : "")]);
    out.push(["Made", `${made.date}, gyrus ${made.gyrus}`]);
    out.push(["Runs on", result.onCpu ? "the CPU" : "the GPU"]);
    out.push(["Precision", `${plan.precision}: ${plan.why}`]);
    out.push(["Plan memory", bytesText(plan.peakBytes)]);
    const parts = result.onCpu ? `${plan.steps} layers` : `${plan.steps} steps, ${plan.kernels} kernels`;
    out.push(["Plan", `${parts}, ${(plan.flops / 1e9).toFixed(1)} GFLOP`]);
    const gpu = seconds.gpu === null ? "" : ` (GPU ${secondsText(seconds.gpu)})`;
    out.push(["Time", `compile ${secondsText(seconds.compile)}, run ${secondsText(seconds.run)}${gpu}, ` +
      `in all ${secondsText(seconds.total)}`]);
  }
  for (const notice of facts.notices) out.push(["Notice", notice]);
  return out;
}

function fill(list: HTMLElement, entries: [string, string][]): void {
  list.replaceChildren();
  for (const [name, value] of entries) list.append(element("dt", name), element("dd", value));
}

export function showPanel(facts: Facts): void {
  fill(byId("facts"), rows(facts));
  const limits = Object.entries(facts.device?.limits ?? {});
  fill(byId("limits"), limits.map(([name, value]) =>
    [name, kByteLimits.test(name) && value >= 65536 ? bytesText(value) : value.toLocaleString("en")]));
  const line = byId("device-line");
  if (!facts.device) return;
  line.textContent = facts.device.available
    ? `GPU: ${facts.device.adapter}${facts.device.software ? " (software, slow)" : ""}`
    : "No GPU for this page: models run on the CPU";
}

export function diagnostics(facts: Facts): string {
  const lines = ["gyrus, in the browser", `Browser: ${navigator.userAgent}`, `Secure context: ${isSecureContext}`];
  for (const [name, value] of rows(facts)) lines.push(`${name}: ${value}`);
  lines.push(`All features: ${facts.device?.features.join(", ") ?? ""}`);
  for (const [name, value] of Object.entries(facts.device?.limits ?? {})) lines.push(`  ${name} ${value}`);
  for (const error of facts.errors) lines.push(`Error: ${error}`);
  return lines.join("\n") + "\n";
}
