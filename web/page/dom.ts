// Small helpers over the document.

export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no element ${id}`);
  return found as T;
}

export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K, text = "", className = "",
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  if (className) made.className = className;
  return made;
}

export function swatch(colour: string): HTMLElement {
  const made = element("span", "", "swatch");
  made.style.backgroundColor = colour;
  made.setAttribute("aria-hidden", "true");
  return made;
}

// "188 × 256 × 190 voxels of 0.88 mm"
export function gridText(dims: number[], spacing: number[]): string {
  const sizes = spacing.map((size) => String(Number(size.toFixed(2))));
  return `${dims.join(" × ")} voxels of ${new Set(sizes).size === 1 ? sizes[0] : sizes.join(" × ")} mm`;
}

// As the command line writes sizes, which stand beside these.
export function bytesText(bytes: number): string {
  if (bytes < 1024) return `${bytes} bytes`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (bytes /= 1024; bytes >= 1024 && unit < units.length - 1; ++unit) bytes /= 1024;
  return `${bytes.toFixed(bytes < 10 ? 2 : bytes < 100 ? 1 : 0)} ${units[unit]}`;
}

export function secondsText(seconds: number): string {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}
