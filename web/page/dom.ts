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

export function bytesText(bytes: number): string {
  const units = ["bytes", "KiB", "MiB", "GiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) (bytes /= 1024), ++unit;
  return `${unit === 0 || bytes >= 100 ? Math.round(bytes) : bytes.toFixed(1)} ${units[unit]}`;
}

export function secondsText(seconds: number): string {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}
