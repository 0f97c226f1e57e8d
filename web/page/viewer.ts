import type { Niivue, NVImage } from "@niivue/niivue";
import type { LabelEntry } from "../src/types.js";

// NiiVue behind the few things that the page wants of it. The library is a chunk of its own, loaded when first needed.

export type View = "multi" | "axial" | "coronal" | "sagittal" | "render";

export interface Place {
  mm: [number, number, number];
  intensity: number | null;
  label: number | null;
}

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
  private ready: Promise<Niivue> | null = null;
  private overlay: NVImage | null = null;
  private labels: LabelEntry[] = [];
  private opacity = 0.6;
  private view: View = "multi";
  private alone: number | null = null;

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
    new ResizeObserver(() => this.fitCrosshair(viewer)).observe(this.canvas);
    this.fitCrosshair(viewer);
    return viewer;
  }

  // The crosshair is drawn in parts of the scan's width: as many as make it two pixels wide, or more, on this canvas.
  private fitCrosshair(viewer: Niivue): void {
    const side = Math.min(this.canvas.clientWidth, this.canvas.clientHeight) / (this.view === "multi" ? 2 : 1);
    if (side <= 0) return;
    const width = Math.max(kCrosshairPercent, (100 * kCrosshairPixels) / side);
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

  // Label colours; with one label alone the others are clear.
  private paint(): void {
    if (!this.overlay) return;
    const channel = (at: number) => this.labels.map((l) => parseInt(l.colour.slice(at, at + 2), 16));
    this.overlay.setColormapLabel({
      R: channel(1), G: channel(3), B: channel(5),
      A: this.labels.map((l) => (l.value !== 0 && (this.alone === null || this.alone === l.value) ? 255 : 0)),
      I: this.labels.map((l) => l.value), labels: this.labels.map((l) => l.name),
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
    if (!this.overlay) return;
    const viewer = await this.open();
    const index = viewer.volumes.indexOf(this.overlay);
    if (index > 0) viewer.setOpacity(index, opacity);
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
