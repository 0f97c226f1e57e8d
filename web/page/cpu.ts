import type { CpuOffer, DeviceReport, ModelInfo, SiteModel } from "../src/types.js";
import { secondsText } from "./dom.js";

// What to say where there is no WebGPU.

const kBrowsers = "WebGPU is in Chrome and Edge 113 or later (Windows, macOS, ChromeOS, Android), Safari 26 or " +
  "later, and Firefox 141 or later on Windows.";
const kLook = "Scans can be looked at here all the same, and models run on the CPU.";

/** Beyond this a model takes minutes on a computer of some years. */
export const MOST_FLOPS = 1000e9;

export function noGpuText(device: DeviceReport, offer: CpuOffer | null, model: ModelInfo | null): string {
  const why = `${device.why.charAt(0).toUpperCase()}${device.why.slice(1)}. `;
  if (!offer) return `${why}${kBrowsers} ${kLook}`;
  const name = model?.title || model?.name || "This model";
  if (!offer.possible) return `${why}${name} needs a GPU: ${offer.why.replace(/^\[[^\]]*\] /, "it ")}.`;
  const time = `about ${roughly(offer.seconds)} on this machine`;
  if (offer.seconds <= offer.mostSeconds) return `${why}The CPU can run this model: ${gflop(offer.flops)} GFLOP, ${time}.`;
  return `${why}${name} needs ${gflop(offer.flops)} GFLOP for this scan, which takes the CPU ${time}.`;
}

// The smallest of the site's models, where it is quick on the CPU: a weight of four bytes is used once a voxel at most.
export function smallModel(models: SiteModel[], voxels: number): SiteModel | null {
  const flops = (model: SiteModel) => (2 * voxels * Math.max(0, ...model.files.map((file) => file.bytes))) / 4;
  const [least] = [...models].sort((a, b) => flops(a) - flops(b));
  return least && flops(least) <= MOST_FLOPS ? least : null;
}

function gflop(flops: number): string {
  const count = flops / 1e9;
  return count < 10 ? count.toFixed(1) : Math.round(count).toLocaleString("en");
}

export function roughly(seconds: number): string {
  if (seconds < 1) return "a second";
  return seconds < 10 ? `${Math.round(seconds)} s` : secondsText(seconds);
}
