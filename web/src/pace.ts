// Predicts how long a device takes for a step, so that a submission can be kept short. Starts from a guess and follows
// what is measured: up at once, down by degrees, since too long a submission is the worse error.

import type { Step } from "./plan.js";

const shortest = 2e-3; // seconds; what takes less says nothing about the pace
const stepOverhead = 5e-6; // seconds; keeps thousands of empty steps from forming one submission

function cost(step: Step): { flops: number; bytes: number } {
  if (step.op === "dispatch") return step;
  return { flops: 0, bytes: step.op === "copy" ? 2 * step.from.size : step.range.size };
}

export class Pace {
  #flopsPerSecond: number;
  #bytesPerSecond: number;
  #scale = 1; // measured over predicted
  #lastDone = 0; // ms

  constructor(software: boolean) {
    this.#flopsPerSecond = software ? 3e9 : 2e11;
    this.#bytesPerSecond = software ? 3e9 : 3e10;
  }

  /** Seconds that a step is expected to take. */
  seconds(step: Step): number {
    const { flops, bytes } = cost(step);
    return stepOverhead + this.#scale * Math.max(flops / this.#flopsPerSecond, bytes / this.#bytesPerSecond);
  }

  /** Seconds that one took which was submitted at a time and is done at another, in ms: it waited for those before it, of
   *  other runs too. */
  taken(submitted: number, done: number): number {
    const begun = Math.max(submitted, this.#lastDone);
    this.#lastDone = Math.max(this.#lastDone, done);
    return Math.max(0, done - begun) / 1000;
  }

  /** A submission predicted to take `predicted` seconds took `measured`. */
  observe(predicted: number, measured: number): void {
    // Of a short submission one measures the way to the device and back, and how busy the host is.
    if (predicted === 0 || (predicted < shortest && measured < 10 * shortest)) return;
    const ratio = measured / predicted;
    this.#scale *= ratio > 1 ? Math.min(ratio, 16) : 0.5 + 0.5 * ratio;
    this.#scale = Math.min(Math.max(this.#scale, 1e-4), 1e4);
  }
}
