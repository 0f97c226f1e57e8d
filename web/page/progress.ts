import type { Progress } from "../src/types.js";
import { byId, secondsText } from "./dom.js";

// The bar with its two lines, and a live region that speaks now and then rather than at every step.

const kTitle = document.title;
const kSayEvery = 0.25; // of the whole
const kTrusted = 0.03; // below, the time left is a guess from too little

export class ProgressView {
  private readonly bar = byId<HTMLProgressElement>("bar");
  private said = 0;
  private stage = "";

  begin(): void {
    byId("progress").hidden = false;
    this.said = 0;
    this.stage = "";
    this.bar.removeAttribute("value");
    byId("step").textContent = "Preparing…";
    byId("left").textContent = "";
    byId("status").textContent = "Segmentation started.";
  }

  show(stage: string, progress: Progress): void {
    if (progress.fraction > 0) this.bar.value = progress.fraction;
    else this.bar.removeAttribute("value");
    const count = progress.steps > 0 ? ` ${progress.step} of ${progress.steps}` : "…";
    byId("step").textContent = `${stage}${count}${progress.label ? `: ${progress.label}` : ""}`;
    const guess = progress.secondsLeft === null || progress.fraction < kTrusted;
    const left = guess ? "" : `, about ${secondsText(progress.secondsLeft ?? 0)} left`;
    byId("left").textContent = progress.fraction > 0 ? `${Math.floor(progress.fraction * 100)} %${left}` : "";
    document.title = progress.fraction > 0 ? `${Math.floor(progress.fraction * 100)} % · ${kTitle}` : kTitle;
    if (stage !== this.stage || progress.fraction >= this.said + kSayEvery) {
      this.stage = stage;
      this.said = Math.floor(progress.fraction / kSayEvery) * kSayEvery;
      byId("status").textContent =
        progress.fraction > 0 ? `${Math.floor(progress.fraction * 100)} percent done.` : `${stage}.`;
    }
  }

  end(line: string): void {
    byId("progress").hidden = true;
    document.title = kTitle;
    byId("status").textContent = line;
  }
}
