import { byId } from "./dom.js";
import type { Contrast, Cut, View, Viewer } from "./viewer.js";

// The controls of the view: planes, labels filled or as outlines, contrast, the cut through the 3-D picture. Sliders are
// for the mouse, fingers and the keyboard alike; some keys do the same on the picture.

const kSteps: Record<string, [number, number, number]> = {
  ArrowLeft: [-1, 0, 0], ArrowRight: [1, 0, 0], ArrowUp: [0, 1, 0], ArrowDown: [0, -1, 0],
  PageUp: [0, 0, 1], PageDown: [0, 0, -1],
};

// A part of the range that the scan's values usually have.
const kKeyStep = 0.05;
const kContrastKeys: Record<string, [level: number, window: number]> = {
  "[": [-1, 0], "]": [1, 0], "-": [0, -1], "+": [0, 1], "=": [0, 1], // "+" needs no shift then
};

export function wireView(viewer: Viewer, fail: (error: unknown) => void): void {
  const wire = (id: string, kind: "input" | "change" | "click", act: () => Promise<void>) =>
    byId(id).addEventListener(kind, () => void act().catch(fail));
  const checked = (id: string) => byId<HTMLInputElement>(id).checked;
  const slider = (id: string) => Number(byId<HTMLInputElement>(id).value) / 100;
  byId("views").addEventListener("change", (event) =>
    void viewer.setView((event.target as HTMLInputElement).value as View).catch(fail));
  wire("opacity", "input", () => viewer.setOpacity(slider("opacity")));
  wire("outlines", "change", () => viewer.setOutlines(checked("outlines")));
  for (const id of ["level", "window"])
    wire(id, "input", () => viewer.setContrast({ level: slider("level"), window: slider("window") }));
  wire("contrast-reset", "click", () => viewer.setContrast(null));
  const cut = () => {
    const side = byId<HTMLSelectElement>("cut").value as Cut | "";
    for (const id of ["cut-depth", "cut-labels"]) byId<HTMLInputElement>(id).disabled = side === "";
    return viewer.setCut(side === "" ? null : side, slider("cut-depth"), checked("cut-labels"));
  };
  wire("cut", "change", cut);
  wire("cut-depth", "input", cut);
  wire("cut-labels", "change", cut);
  wire("crosshair", "change", () => viewer.showCrosshair(checked("crosshair")));
  wire("radiological", "change", () => viewer.setRadiological(checked("radiological")));
  viewer.onContrast = showContrast;
  wireKeys(viewer, fail);
  // Out of the way again.
  byId("stage").addEventListener("pointerdown", () => (byId<HTMLDetailsElement>("adjust").open = false));
  byId("adjust").addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    byId<HTMLDetailsElement>("adjust").open = false;
    byId("adjust").querySelector("summary")!.focus();
  });
}

// Also where the mouse set it.
function showContrast({ level, window, low, high }: Contrast & { low: number; high: number }): void {
  const number = (value: number) => String(Number(value.toPrecision(3)));
  byId<HTMLInputElement>("level").value = String(Math.round(100 * level));
  byId<HTMLInputElement>("window").value = String(Math.round(100 * window));
  byId("contrast-text").textContent = `${number(low)} is black, ${number(high)} is white`;
}

function wireKeys(viewer: Viewer, fail: (error: unknown) => void): void {
  const canvas = byId("canvas");
  const quiet = (event: KeyboardEvent) => event.stopImmediatePropagation(); // the viewer has meanings of its own for some
  canvas.addEventListener("keyup", quiet, { capture: true });
  canvas.addEventListener("keydown", (event) => {
    quiet(event);
    if (event.ctrlKey || event.metaKey || event.altKey) return; // the browser's own
    const step = kSteps[event.key];
    const [level, window] = kContrastKeys[event.key] ?? [0, 0];
    if (step) void viewer.step(...step).catch(fail);
    else if (event.key === "0") void viewer.setContrast(null).catch(fail);
    else if (level || window) void viewer.changeContrast(level * kKeyStep, window * kKeyStep).catch(fail);
    else return;
    event.preventDefault();
  }, { capture: true });
}
