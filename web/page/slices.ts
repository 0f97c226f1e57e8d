// Drawn slices of heads with their labels, each from a seed: what the training page learns from.

export const EXTENT = 64;
export const CLASSES = ["outside", "fluid", "grey matter", "white matter"];

export interface Slice {
  image: Float32Array; // EXTENT², about 0 to 1
  labels: Int32Array; // of CLASSES
}

/** Even numbers in [0, 1) from a seed (mulberry32). */
export function randomNumbers(seed: number): () => number {
  let state = (seed * 0x9e3779b1) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const intensities = { air: 0.03, scalp: 0.8, skull: 0.12, fluid: 0.28, grey: 0.52, white: 0.76 };

/** A slice: scalp, skull, fluid, a folded cortex, white matter with two ventricles; shading and noise over all. */
export function drawSlice(seed: number, noise: number): Slice {
  const random = randomNumbers(seed);
  const between = (low: number, high: number) => low + (high - low) * random();
  const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const [cx, cy] = [between(0.46, 0.54), between(0.46, 0.54)];
  const [rx, ry, turn] = [between(0.33, 0.4), between(0.38, 0.45), between(-0.3, 0.3)];
  const folds = Array.from({ length: 4 }, (_, i) => ({ count: 5 + 4 * i + Math.floor(3 * random()), phase: 7 * random(), depth: between(0.01, 0.03) }));
  const cortex = between(0.12, 0.17);
  const [apart, tall] = [between(0.12, 0.2), between(0.16, 0.3)];
  const shade = [between(-0.35, 0.35), between(-0.35, 0.35)] as const;
  const image = new Float32Array(EXTENT * EXTENT);
  const labels = new Int32Array(EXTENT * EXTENT);
  for (let i = 0; i < image.length; ++i) {
    const [dx, dy] = [((i % EXTENT) + 0.5) / EXTENT - cx, (Math.floor(i / EXTENT) + 0.5) / EXTENT - cy];
    const x = (dx * Math.cos(turn) + dy * Math.sin(turn)) / rx;
    const y = (dy * Math.cos(turn) - dx * Math.sin(turn)) / ry;
    const [r, angle] = [Math.hypot(x, y), Math.atan2(y, x)];
    const fold = folds.reduce((sum, { count, phase, depth }) => sum + depth * Math.sin(count * angle + phase), 0);
    const ventricle = Math.hypot((Math.abs(x) - apart) / 0.1, (y + 0.05) / tall) < 1;
    let [value, label] = [intensities.air, 0];
    if (r < 0.74 + fold - cortex + 1.5 * fold) [value, label] = ventricle ? [intensities.fluid, 1] : [intensities.white, 3];
    else if (r < 0.78 + fold) [value, label] = [intensities.grey, 2];
    else if (r < 0.86) [value, label] = [intensities.fluid, 1];
    else if (r < 0.93) value = intensities.skull;
    else if (r < 1.05) value = intensities.scalp;
    image[i] = value * (1 + shade[0] * dx * 2 + shade[1] * dy * 2) + noise * normal();
    labels[i] = label;
  }
  return { image, labels };
}

/** Dice of each class but the first, averaged over those that are in one of the two. */
export function meanDice(found: ArrayLike<number>, truth: ArrayLike<number>): number {
  const scores: number[] = [];
  for (let label = 1; label < CLASSES.length; ++label) {
    let [both, sum] = [0, 0];
    for (let i = 0; i < truth.length; ++i) {
      const [a, b] = [found[i] === label, truth[i] === label];
      both += Number(a && b);
      sum += Number(a) + Number(b);
    }
    if (sum > 0) scores.push((2 * both) / sum);
  }
  return scores.reduce((total, score) => total + score, 0) / Math.max(scores.length, 1);
}
