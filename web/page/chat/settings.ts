// How answers are made: what the controls say, kept for the next visit.

import type { Sampling } from "../../src/text-generator.js";
import { byId } from "../dom.js";

const ids = ["temperature", "top-k", "top-p", "repetition", "tokens", "seed", "system"];
const key = "gyrus-chat-settings";

type Control = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;

const control = (id: string) => byId<Control>(id);

function showValues(): void {
  for (const output of document.querySelectorAll<HTMLOutputElement>("#sampling output")) {
    const input = control(output.htmlFor.value);
    const value = Number(input.value);
    output.textContent = input.id === "top-k" && value === 0 ? "all" : input.id === "top-k" ? input.value : value.toFixed(2);
  }
}

/** Brings back what was set before, and keeps what will be. */
export function watchSettings(): void {
  try {
    const kept = JSON.parse(localStorage.getItem(key) ?? "{}") as Record<string, string>;
    for (const id of ids) if (typeof kept[id] === "string") control(id).value = kept[id];
  } catch {
    // A browser that keeps nothing.
  }
  for (const id of ids)
    control(id).addEventListener("input", () => {
      showValues();
      try {
        localStorage.setItem(key, JSON.stringify(Object.fromEntries(ids.map((each) => [each, control(each).value]))));
      } catch {
        // Likewise.
      }
    });
  showValues();
}

export function readSettings(): Required<Pick<Sampling, "temperature" | "topK" | "topP" | "repetitionPenalty" | "seed">> & {
  tokens: number;
  system: string;
} {
  const number = (id: string) => Number(control(id).value);
  const seed = control("seed").value === "" ? Math.floor(Math.random() * 2 ** 32) : Math.trunc(number("seed"));
  return {
    temperature: number("temperature"), topK: number("top-k"), topP: number("top-p"), repetitionPenalty: number("repetition"),
    seed, tokens: number("tokens"), system: control("system").value,
  };
}
