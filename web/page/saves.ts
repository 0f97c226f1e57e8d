import type { Segmenter } from "../src/types.js";
import type { App } from "./app.js";
import { download, gzip, stem } from "./save.js";

// The save buttons: each makes one file, named after the scan and the model that made the result.

const kResults = ["native", "conformed", "brain"]; // what one would not want to lose

export function wireSaves(app: App, segmenter: Segmenter): void {
  const save: Record<string, (name: string) => Promise<void>> = {
    native: async (name) => download(await gzip(need(app).nativeLabels), `${name}_labels.nii.gz`),
    conformed: async (name) => download(await gzip(need(app).conformedLabels), `${name}_labels_conformed.nii.gz`),
    brain: async (name) => download(await gzip(await segmenter.brain()), `${name}_brain.nii.gz`),
    json: async (name) =>
      download(new Blob([need(app).report.json], { type: "application/json" }), `${name}_report.json`),
    csv: async (name) => download(new Blob([need(app).report.csv], { type: "text/csv" }), `${name}_report.csv`),
    picture: async (name) => download(await app.viewer.picture(), `${name}.png`),
    scene: (name) => app.viewer.saveScene(`${name}.nvd`),
  };
  for (const button of document.querySelectorAll<HTMLButtonElement>("button[data-save]")) {
    button.addEventListener("click", () => {
      button.disabled = true;
      (save[button.dataset.save ?? ""] as (name: string) => Promise<void>)(nameOf(app))
        .then(() => (app.saved ||= kResults.includes(button.dataset.save ?? "")))
        .catch((error) => app.fail(error))
        .finally(() => (button.disabled = false));
    });
  }
}

function nameOf(app: App): string {
  const model = app.result?.model.name.replace(/[^\w.-]+/g, "_");
  return model ? `${stem(app.scanName)}_${model}` : stem(app.scanName);
}

function need(app: App) {
  if (!app.result) throw new Error("There is no result to save yet.");
  return app.result;
}
