// Small pictures and a curve, drawn on canvases.

import { EXTENT } from "./slices.js";

const colours = [[0, 0, 0], [64, 160, 230], [232, 150, 60], [240, 226, 170]] as const; // of CLASSES

function context(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
  return canvas.getContext("2d")!;
}

/** A grey picture of values from 0 to 1. */
export function showGrey(canvas: HTMLCanvasElement, values: ArrayLike<number>): void {
  const to = context(canvas, EXTENT, EXTENT);
  const pixels = to.createImageData(EXTENT, EXTENT);
  for (let i = 0; i < values.length; ++i) pixels.data.set([255 * values[i]!, 255 * values[i]!, 255 * values[i]!, 255], 4 * i);
  to.putImageData(pixels, 0, 0);
}

export function showLabels(canvas: HTMLCanvasElement, labels: ArrayLike<number>): void {
  const to = context(canvas, EXTENT, EXTENT);
  const pixels = to.createImageData(EXTENT, EXTENT);
  for (let i = 0; i < labels.length; ++i) pixels.data.set([...colours[labels[i]!]!, 255], 4 * i);
  to.putImageData(pixels, 0, 0);
}

/** Channels of a layer side by side, each from its least to its greatest value; in `rows` rows. */
export function showMaps(canvas: HTMLCanvasElement, maps: Float32Array, channels: number, rows: number): void {
  const columns = channels / rows;
  const gap = 2;
  const to = context(canvas, columns * (EXTENT + gap) - gap, rows * (EXTENT + gap) - gap);
  to.clearRect(0, 0, canvas.width, canvas.height);
  for (let c = 0; c < channels; ++c) {
    const map = maps.subarray(c * EXTENT * EXTENT, (c + 1) * EXTENT * EXTENT);
    const [low, high] = map.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity] as [number, number]);
    const pixels = to.createImageData(EXTENT, EXTENT);
    map.forEach((value, i) => pixels.data.set(shade((value - low) / Math.max(high - low, 1e-6)), 4 * i));
    to.putImageData(pixels, (c % columns) * (EXTENT + gap), Math.floor(c / columns) * (EXTENT + gap));
  }
}

// From black over teal to light yellow.
function shade(t: number): [number, number, number, number] {
  return [255 * t ** 1.8, 255 * t, 70 + 110 * t * (1 - 0.4 * t), 255];
}

const mean = 10; // steps of the running mean

/** Losses over steps, on a logarithmic axis. */
export function showCurve(canvas: HTMLCanvasElement, losses: number[]): void {
  const scale = globalThis.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const to = context(canvas, Math.round(width * scale), Math.round(height * scale));
  to.setTransform(scale, 0, 0, scale, 0, 0);
  to.clearRect(0, 0, width, height);
  const [left, right, top, bottom] = [44, 10, 10, 22];
  const all = losses.length > 0 ? losses : [1];
  const [least, most] = all.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [0.1, 2] as [number, number]);
  const y = (loss: number) => top + (height - top - bottom) * (1 - Math.log(loss / least) / Math.log(most / least));
  const last = Math.max(50, losses.length);
  const x = (step: number) => left + ((width - left - right) * step) / last;
  to.font = "12px system-ui, sans-serif";
  to.fillStyle = "#b4c2c4";
  to.strokeStyle = "#2b363b";
  to.lineWidth = 1;
  to.textBaseline = "middle";
  for (const tick of [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10]) {
    if (tick < least * 0.999 || tick > most * 1.001) continue;
    line(to, [[left, y(tick)], [width - right, y(tick)]]);
    to.textAlign = "right";
    to.fillText(String(tick), left - 7, y(tick));
  }
  to.textBaseline = "alphabetic";
  const every = niceStep(last / 5);
  for (let step = 0; step <= last; step += every) {
    to.textAlign = step === 0 ? "left" : "center";
    if (x(step) < width - 24) to.fillText(String(step), x(step), height - 6);
  }
  to.strokeStyle = "#4a7178";
  line(to, losses.map((loss, i) => [x(i + 1), y(loss)]));
  let sum = 0;
  const smooth = losses.map((loss, i) => {
    sum += loss - (i >= mean ? losses[i - mean]! : 0);
    return [x(i + 1), y(sum / Math.min(i + 1, mean))] as [number, number];
  });
  to.strokeStyle = "#f2b84b";
  to.lineWidth = 2;
  line(to, smooth);
}

function niceStep(about: number): number {
  const power = 10 ** Math.floor(Math.log10(about));
  return Math.max(1, [1, 2, 5, 10].find((n) => n * power >= about)! * power);
}

function line(to: CanvasRenderingContext2D, points: [number, number][]): void {
  to.beginPath();
  points.forEach(([x, y], i) => (i === 0 ? to.moveTo(x, y) : to.lineTo(x, y)));
  to.stroke();
}
