import type { Niivue, NVImage } from "@niivue/niivue";
import type { LabelEntry } from "../src/types.js";
import { channels } from "./colours.js";
import { outlineShader } from "./outline.js";

// NiiVue behind the few things that the page wants of it. The library is a chunk of its own, loaded when first needed.

export type View = "multi" | "axial" | "coronal" | "sagittal" | "render";

export interface Place {
  mm: [number, number, number];
  intensity: number | null;
  label: number | null;
}

/** Both in parts of the range that the scan's values usually have: 0.5 and 1 show all of it. */
export interface Contrast {
  level: number; // the middle of what is shown between black and white
  window: number; // its width
}

/** The side from which the 3-D picture is cut open, by the scan's own directions. */
export type Cut = "left" | "right" | "front" | "back" | "top" | "bottom";

const kCuts: Record<Cut, [azimuth: number, elevation: number]> = {
  left: [270, 0], right: [90, 0], front: [180, 0], back: [0, 0], top: [0, 90], bottom: [0, -90],
};
const kNoCut = 2; // a depth outside of the volume
const kLinePixels = 1.5; // of outlines
const kLeastWindow = 0.02;

// What onLocationChange says, as far as it is used here.
interface Location {
  mm: ArrayLike<number>;
  values: { value: number }[];
}

const kCrosshairPercent = 0.35; // of the scan's width, at least
const kCrosshairPixels = 2; // likewise

const library = () => import("./niivue.js");

// The library computes gradients of every scan for a kind of 3-D lighting that is off by default: two textures of the
// scan's size times four bytes, half a thousand slices drawn and as many questions that wait for the GPU. Here the
// textures have one voxel and nothing is drawn into them: seconds less to the first picture where a CPU stands in for
// the GPU, and memory that a phone does not have.
function withoutGradients(viewer: Niivue): void {
  const { gl } = viewer;
  const blur = viewer.blurShader; // the first step of the gradients
  if (!blur) return;
  const quiet: Partial<WebGL2RenderingContext> = { drawArrays: () => {}, framebufferTextureLayer: () => {} };
  const use = blur.use.bind(blur);
  blur.use = (context) => {
    use(context);
    Object.assign(gl, quiet);
  };
  gl.checkFramebufferStatus = () => gl.FRAMEBUFFER_COMPLETE;
  const texture = viewer.rgbaTex.bind(viewer);
  viewer.rgbaTex = (id, unit, dims, init) =>
    texture(id, unit, (unit === gl.TEXTURE6 || unit === gl.TEXTURE8) && (dims[1] ?? 0) > 2 ? [3, 1, 1, 1] : dims, init);
  const refresh = viewer.refreshLayers.bind(viewer);
  viewer.refreshLayers = (image, layer) => {
    try {
      refresh(image, layer);
    } finally {
      for (const name of Object.keys(quiet)) delete (gl as unknown as Record<string, unknown>)[name];
    }
  };
}

export class Viewer {
  onPlace: (place: Place) => void = () => {};
  onContrast: (contrast: Contrast & { low: number; high: number }) => void = () => {};
  private ready: Promise<Niivue> | null = null;
  private overlay: NVImage | null = null;
  private labels: LabelEntry[] = [];
  private opacity = 0.6;
  private view: View = "multi";
  private alone: number | null = null;
  private outlines = false;
  private crosshair = true;

  constructor(private readonly canvas: HTMLCanvasElement) {}

  // Begins to load the library, so that the first scan does not wait for it.
  preload(): void {
    void this.open().catch(() => {}); // said when a scan is to be shown
  }

  private open(): Promise<Niivue> {
    this.ready ??= this.make().catch((error: unknown) => {
      this.ready = null; // the next scan tries again
      throw new Error(`The viewer cannot start (${error instanceof Error ? error.message : error}); it needs WebGL 2.`);
    });
    return this.ready;
  }

  private async make(): Promise<Niivue> {
    const { MULTIPLANAR_TYPE, Niivue, SHOW_RENDER } = await library();
    const viewer = new Niivue({
      loadingText: "", dragAndDropEnabled: false, isResizeCanvas: true, show3Dcrosshair: true, logLevel: "error",
      backColor: [0, 0, 0, 1], crosshairColor: [0.95, 0.72, 0.29, 0.9], crosshairWidth: 0.35,
      crosshairWidthUnit: "percent", crosshairGap: 3, multiplanarShowRender: SHOW_RENDER.ALWAYS,
      multiplanarLayout: MULTIPLANAR_TYPE.GRID, sagittalNoseLeft: true, isColorbar: false,
      isCornerOrientationText: true, // not under the crosshair
      viewModeHotKey: "", clipPlaneHotKey: "", cycleClipPlaneHotKey: "", // the page's own controls show what is set
    } as ConstructorParameters<typeof Niivue>[0]);
    await viewer.attachToCanvas(this.canvas, false);
    withoutGradients(viewer);
    viewer.onLocationChange = (location) => this.moved(location as Location);
    viewer.onIntensityChange = () => this.contrastChanged(viewer);
    viewer.overlayOutlineWidth = 0;
    viewer.setClipPlaneColor([0, 0, 0, 0]); // a cut shows what is inside, not a plane
    new ResizeObserver(() => this.fitCrosshair(viewer)).observe(this.canvas);
    this.fitCrosshair(viewer);
    return viewer;
  }

  // The crosshair is drawn in parts of the scan's width: as many as make it two pixels wide, or more, on this canvas.
  private fitCrosshair(viewer: Niivue): void {
    const side = Math.min(this.canvas.clientWidth, this.canvas.clientHeight) / (this.view === "multi" ? 2 : 1);
    if (side <= 0) return;
    const width = this.crosshair ? Math.max(kCrosshairPercent, (100 * kCrosshairPixels) / side) : 0;
    if (viewer.opts.crosshairWidth === width) return;
    viewer.opts.crosshairWidth = width;
    viewer.crosshairs3D = null; // made anew when it is drawn
    if (viewer.volumes.length > 0) viewer.drawScene();
  }

  private moved(location: Location): void {
    const [x = 0, y = 0, z = 0] = Array.from(location.mm);
    const label = this.overlay ? location.values[1]?.value : undefined;
    this.onPlace({
      mm: [x, y, z], intensity: location.values[0]?.value ?? null,
      label: label === undefined ? null : Math.round(label),
    });
  }

  // Shows a scan alone; `nifti` is an uncompressed NIfTI file.
  async showScan(name: string, nifti: Uint8Array): Promise<void> {
    const viewer = await this.open();
    const image = await this.image(name, nifti, "gray", 1);
    for (const old of [...viewer.volumes]) viewer.removeVolume(old);
    this.overlay = null;
    this.alone = null;
    const { SHOW_RENDER } = await library();
    viewer.opts.multiplanarShowRender = SHOW_RENDER.NEVER; // the planes at once, the slower 3-D view after them
    viewer.addVolume(image);
    viewer.createOnLocationChange();
    this.contrastChanged(viewer);
    const later = () => {
      viewer.opts.multiplanarShowRender = SHOW_RENDER.ALWAYS;
      viewer.drawScene();
    };
    requestAnimationFrame(() => setTimeout(later, 0));
  }

  async showLabels(nifti: Uint8Array, labels: LabelEntry[]): Promise<void> {
    const viewer = await this.open();
    const image = await this.image("labels.nii", nifti, "gray", this.opacity);
    this.hideLabels(viewer);
    this.labels = labels;
    this.overlay = image;
    this.alone = null;
    this.paint();
    viewer.addVolume(image);
    viewer.createOnLocationChange();
  }

  async hide(): Promise<void> {
    if (this.overlay) this.hideLabels(await this.open());
  }

  private hideLabels(viewer: Niivue): void {
    if (this.overlay) viewer.removeVolume(this.overlay);
    this.overlay = null;
  }

  private async image(name: string, nifti: Uint8Array, colormap: string, opacity: number): Promise<NVImage> {
    const { NVImage } = await library();
    const whole = nifti.byteOffset === 0 && nifti.byteLength === nifti.buffer.byteLength;
    const buffer = (whole ? nifti.buffer : nifti.slice().buffer) as ArrayBuffer;
    const plain = name.replace(/\.(nii|mgh|mgz|gz)/gi, "") + ".nii"; // read as what it now is
    const image = await (NVImage.new as (b: ArrayBuffer, n: string, c: string, o: number) => Promise<NVImage>)(
      buffer, plain, colormap, opacity);
    image.colorbarVisible = false;
    return image;
  }

  // Label colours; with one label alone the others are clear, for outlines black.
  private paint(): void {
    if (!this.overlay) return;
    const shown = ({ value }: LabelEntry) => value !== 0 && (this.alone === null || this.alone === value);
    const channel = (i: number) => this.labels.map((entry) =>
      this.outlines ? (shown(entry) ? Math.max(1, channels(entry.colour)[i]!) : 0) : channels(entry.colour)[i]!);
    this.overlay.setColormapLabel({
      R: channel(0), G: channel(1), B: channel(2), A: this.labels.map((entry) => (shown(entry) ? 255 : 0)),
      I: this.labels.map((entry) => entry.value), labels: this.labels.map((entry) => entry.name),
    });
  }

  async showAlone(value: number | null): Promise<void> {
    const viewer = await this.open();
    this.alone = value;
    this.paint();
    viewer.updateGLVolume();
  }

  async setOpacity(opacity: number): Promise<void> {
    this.opacity = opacity;
    const viewer = await this.open();
    if (this.outlines) viewer.overlayAlphaShader = opacity;
    const index = this.overlay ? viewer.volumes.indexOf(this.overlay) : 0;
    if (index > 0) viewer.setOpacity(index, opacity);
  }

  /** Labels as lines around them in the planes, instead of filled. */
  async setOutlines(on: boolean): Promise<void> {
    const viewer = await this.open();
    this.outlines = on;
    viewer.overlayOutlineWidth = on ? kLinePixels : 0;
    viewer.overlayAlphaShader = on ? this.opacity : 1;
    this.paint();
    viewer.setCustomSliceShader(on ? outlineShader : "");
  }

  /** Between which values the scan goes from black to white; null as it was first. */
  async setContrast(contrast: Contrast | null): Promise<void> {
    const viewer = await this.open();
    const scan = viewer.volumes[0];
    if (!scan) return;
    const { level, window } = contrast ?? { level: 0.5, window: 1 };
    const [least, span] = usual(scan);
    const width = Math.max(window, kLeastWindow);
    scan.cal_min = least + span * (level - width / 2);
    scan.cal_max = least + span * (level + width / 2);
    this.contrastChanged(viewer);
    viewer.updateGLVolume();
  }

  /** The same, from what it is now. */
  async changeContrast(level: number, window: number): Promise<void> {
    const scan = (await this.open()).volumes[0];
    if (!scan) return;
    const now = contrastOf(scan);
    await this.setContrast({ level: now.level + level, window: Math.max(kLeastWindow, now.window + window) });
  }

  private contrastChanged(viewer: Niivue): void {
    const scan = viewer.volumes[0];
    if (scan) this.onContrast({ ...contrastOf(scan), low: scan.cal_min ?? 0, high: scan.cal_max ?? 0 });
  }

  /** Cuts the 3-D picture open from a side, to a depth from 0 (nothing) to 1 (everything), labels too or the scan alone;
   *  null closes it. */
  async setCut(side: Cut | null, depth: number, labels: boolean): Promise<void> {
    const viewer = await this.open();
    viewer.opts.isClipAllVolumes = labels;
    viewer.setClipPlane(side === null ? [kNoCut, 0, 0] : [0.5 - depth, ...kCuts[side]]);
  }

  async setView(view: View): Promise<void> {
    const viewer = await this.open();
    this.view = view;
    const types = {
      multi: viewer.sliceTypeMultiplanar, axial: viewer.sliceTypeAxial, coronal: viewer.sliceTypeCoronal,
      sagittal: viewer.sliceTypeSagittal, render: viewer.sliceTypeRender,
    };
    viewer.setSliceType(types[view]);
    this.fitCrosshair(viewer);
  }

  async showCrosshair(shown: boolean): Promise<void> {
    const viewer = await this.open();
    this.crosshair = shown;
    viewer.opts.show3Dcrosshair = shown;
    this.fitCrosshair(viewer);
  }

  /** Left on the right, as radiologists look at slices. */
  async setRadiological(on: boolean): Promise<void> {
    (await this.open()).setRadiologicalConvention(on);
  }

  // One voxel to the right, front and top (or back, with -1).
  async step(x: number, y: number, z: number): Promise<void> {
    const viewer = await this.open();
    if (viewer.volumes.length > 0) viewer.moveCrosshairInVox(x, y, z);
  }

  // The crosshair to a place in mm.
  async goTo(mm: [number, number, number]): Promise<void> {
    const viewer = await this.open();
    if (viewer.volumes.length === 0) return;
    viewer.scene.crosshairPos = viewer.mm2frac(mm);
    viewer.createOnLocationChange();
    viewer.drawScene();
  }

  async picture(): Promise<Blob> {
    const viewer = await this.open();
    viewer.drawScene(); // in the same task: the drawing buffer is not kept
    const blob = await new Promise<Blob | null>((resolve) => this.canvas.toBlob(resolve, "image/png"));
    if (!blob) throw new Error("The picture cannot be made.");
    return blob;
  }

  async saveScene(name: string): Promise<void> {
    const viewer = await this.open();
    await viewer.saveDocument(name, true);
  }
}

// Where the scan's values usually lie: the least, and how far they reach.
function usual(scan: NVImage): [least: number, span: number] {
  const [least, most] = [scan.robust_min ?? 0, scan.robust_max ?? 1];
  return [least, most > least ? most - least : 1];
}

function contrastOf(scan: NVImage): Contrast {
  const [least, span] = usual(scan);
  const [low, high] = [scan.cal_min ?? least, scan.cal_max ?? least + span];
  return { level: ((low + high) / 2 - least) / span, window: (high - low) / span };
}
