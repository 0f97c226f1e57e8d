import type { LabelEntry } from "../src/types.js";

// Colours of labels that can be told from a scan.

const kSpare = ["#38bdf8", "#facc15", "#4ade80", "#e879f9"]; // for labels whose own is that of a bright scan

export const channels = (colour: string) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

// White or light grey on a scan, which is white and grey, cannot be told from it: such labels get the colour that is
// farthest from those of the others.
export function visible(labels: LabelEntry[]): LabelEntry[] {
  const isGrey = ({ colour, value }: LabelEntry) => {
    const rgb = channels(colour);
    return value !== 0 && Math.max(...rgb) - Math.min(...rgb) < 24 && Math.min(...rgb) > 150;
  };
  const taken = labels.filter((entry) => entry.value !== 0 && !isGrey(entry)).map(({ colour }) => channels(colour));
  const room = (colour: string) =>
    Math.min(Infinity, ...taken.map((other) => Math.hypot(...channels(colour).map((v, i) => v - other[i]!))));
  return labels.map((entry) => {
    if (!isGrey(entry)) return entry;
    const colour = [...kSpare].sort((a, b) => room(b) - room(a))[0]!;
    taken.push(channels(colour));
    return { ...entry, colour };
  });
}
