import type { CpuOffer, DeviceReport, SiteModel } from "../src/types.js";
import { secondsText } from "./dom.js";

// What to say where there is no WebGPU.

const kBrowsers = "WebGPU is in Chrome and Edge 113 or later (Windows, macOS, ChromeOS, Android), Safari 26 or " +
  "later, and Firefox 141 or later on Windows.";
const kLook = "Scans can be looked at here all the same, and small models run on the CPU.";

export function noGpuText(
  device: DeviceReport, offer: CpuOffer | null, models: SiteModel[], voxels: number,
): string {
  const why = `${device.why.charAt(0).toUpperCase()}${device.why.slice(1)}. `;
  if (!offer) return `${why}${kBrowsers} ${kLook}`;
  const time = offer.seconds > 0 ? `, about ${roughly(offer.seconds)} on this machine` : "";
  if (offer.possible)
    return `${why}The CPU can run this model: ${gflop(offer.flops)} GFLOP${time}.`;
  const small = smallModel(models, voxels, offer.mostFlops);
  const instead = small ? `choose a small model, for instance ${small.title || small.name}` : "choose a smaller model";
  return `${why}${offer.why}${time}; ${instead}, or a browser with WebGPU.`;
}

// The smallest of the site's models, where it is one for the CPU: a weight of four bytes is used once a voxel at most.
export function smallModel(models: SiteModel[], voxels: number, mostFlops: number): SiteModel | null {
  const flops = (model: SiteModel) => (2 * voxels * Math.max(0, ...model.files.map((file) => file.bytes))) / 4;
  const [least] = [...models].sort((a, b) => flops(a) - flops(b));
  return least && flops(least) <= mostFlops ? least : null;
}

function gflop(flops: number): string {
  const count = flops / 1e9;
  return count < 10 ? count.toFixed(1) : Math.round(count).toLocaleString("en");
}

function roughly(seconds: number): string {
  if (seconds < 1) return "a second";
  return seconds < 10 ? `${Math.round(seconds)} s` : secondsText(seconds);
}
