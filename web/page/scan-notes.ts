import type { VolumeInfo } from "../src/types.js";

// What a person would want to know of a scan before the network has run.

export function oddScan({ dims, range }: Pick<VolumeInfo, "dims" | "range">): string[] {
  if (!range) return ["no voxel of the scan has a finite value"];
  const odd: string[] = [];
  if (range[0] === range[1]) odd.push(`all voxels of the scan have the value ${range[0]}: there is nothing to segment`);
  if (range[0] <= -500) odd.push("values reach far below zero, as in CT; the models here are for MRI");
  if (Math.min(...dims) < 16) odd.push(`the scan has only ${dims.join(" × ")} voxels`);
  return odd;
}
