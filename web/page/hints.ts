import { GyrusError, type Hint } from "../src/errors.js";
import { byId } from "./dom.js";

// What an error's hints are on a page: buttons that change a setting and run again or lead to a choice, else words.

export interface Action {
  label: string;
  act: () => void;
}

interface Remedy {
  label: string;
  setting?: [id: string, value: string]; // of a select, then run again
  check?: string; // a box, then run again
  choice?: string; // the element where a person goes on
}

const kRemedies: Partial<Record<Hint, Remedy>> = {
  "half-precision": { label: "Run with f16 storage", setting: ["precision", "f16"] },
  "single-precision": { label: "Run in f32", setting: ["precision", "f32"] },
  "allow-empty": { label: "Accept it", check: "allow-empty" },
  "smaller-model": { label: "Choose a smaller model", choice: "model" },
  "other-model": { label: "Choose another model", choice: "model" },
  "smaller-volume": { label: "Choose a smaller scan", choice: "pick-scan" },
};

// What no control of the page can do.
const kWords: Partial<Record<Hint, string>> = {
  "other-device": "another GPU, driver or browser may help",
};

/** The buttons of an error; `run` starts over with what they set. A setting that is already so is no remedy. */
export function actionsOf(error: unknown, run: () => void): Action[] {
  const hints = error instanceof GyrusError ? error.hints : [];
  return hints.flatMap((hint): Action[] => {
    const { label, setting, check, choice } = kRemedies[hint] ?? { label: "" };
    if (choice) return [{ label, act: () => byId(choice).focus() }];
    if (check) return [{ label, act: () => ((byId<HTMLInputElement>(check).checked = true), run()) }];
    if (!setting) return [];
    const select = byId<HTMLSelectElement>(setting[0]);
    if (select.value === setting[1]) return [];
    return [{ label, act: () => ((select.value = setting[1]), run()) }];
  });
}

/** The message with what hints say in words. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const words = error instanceof GyrusError ? error.hints.flatMap((hint) => kWords[hint] ?? []) : [];
  return [error.message, ...words].join("; ");
}
