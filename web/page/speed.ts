// How fast this machine was with the last network, kept for the next visit: what a model will take is guessed from it.
// A weight is used about once a voxel.

const kKey = "gyrus-speed";

function known(): Record<string, number> {
  try {
    return JSON.parse(localStorage.getItem(kKey) ?? "{}") as Record<string, number>;
  } catch {
    return {}; // nothing is kept, or something else wrote it
  }
}

/** A network of so many parameters took this long on a device. */
export function noteSpeed(device: string, parameters: number, voxels: number, seconds: number): void {
  try {
    localStorage.setItem(kKey, JSON.stringify({ ...known(), [device]: (parameters * voxels) / Math.max(seconds, 1e-3) }));
  } catch {
    // private windows; then there is no guess
  }
}

/** Seconds, or null where the device has not run any network yet. */
export function guessSeconds(device: string, parameters: number, voxels: number): number | null {
  const speed = known()[device];
  return typeof speed === "number" && speed > 0 ? (parameters * voxels) / speed : null;
}
