import type { Download, ModelInfo, SiteModel } from "../src/types.js";
import { roughly } from "./cpu.js";
import { byId, bytesText, element } from "./dom.js";

// Models as cards: what one finds, what it takes, how large it is, how long it will need, whom to cite.

const kNamed = 6; // labels that are named before the rest is counted

/** What both a list's entry and an open model say of themselves. */
interface Described {
  title: string;
  name: string;
  description?: string;
  citation?: string;
  licence: string;
  labels: string[];
  parameters?: number;
  channels?: number;
  layers?: number;
  bytes?: number;
  seconds: number | null; // a guess
}

// "white matter, grey matter"; "thalamus, caudate … and 98 more"
export function labelsText(names: string[]): string {
  const rest = names.length - kNamed;
  return rest < 2 ? names.join(", ") : `${names.slice(0, kNamed).join(", ")} … and ${rest} more`;
}

export function timeText(seconds: number | null): string {
  if (seconds === null) return "known after a first run here";
  return `about ${seconds < 90 ? roughly(seconds) : `${Math.round(seconds / 60)} min`} here`;
}

function facts(model: Described): [string, string][] {
  const count = (n: number, what: string) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
  const size = [
    ...(model.bytes ? [bytesText(model.bytes)] : []),
    ...(model.layers ? [count(model.layers, "layer")] : []),
    ...(model.parameters ? [count(model.parameters, "parameter")] : []),
  ];
  const rows: [string, string][] = [];
  if (model.labels.length > 0) rows.push(["Finds", labelsText(model.labels)]);
  if (model.channels) rows.push(["Takes", model.channels === 1 ? "one scan" : count(model.channels, "scan")]);
  rows.push(["Size", size.join(", ")], ["Time", timeText(model.seconds)]);
  if (model.licence) rows.push(["Licence", model.licence]);
  if (model.citation) rows.push(["Cite", model.citation]);
  return rows.filter(([, value]) => value !== "");
}

function fill(card: HTMLElement, model: Described): void {
  const list = element("dl");
  for (const [name, value] of facts(model)) {
    const text = element("dd", value);
    if (name === "Finds") text.title = model.labels.join(", ");
    list.append(element("dt", name), text);
  }
  card.replaceChildren(element("strong", model.title || model.name),
    ...(model.description ? [element("p", model.description)] : []), list);
}

/** The model that is open; none clears it. */
export function showModel(model: ModelInfo | null, bytes: number | undefined, seconds: number | null): void {
  const card = byId("model-info");
  card.replaceChildren();
  card.classList.toggle("card", model !== null);
  if (!model) return;
  const labels = model.labels.filter(({ value }) => value !== 0).map(({ name }) => name);
  fill(card, { ...model, labels, channels: model.inputChannels, layers: model.layers.length, seconds,
    ...(bytes === undefined ? {} : { bytes }) });
}

/** What has come of a model that is being read. */
export function showDownload({ loaded, total }: Download): void {
  const bar = byId<HTMLProgressElement>("model-bar");
  bar.hidden = false;
  if (total) bar.value = loaded / total;
  else bar.removeAttribute("value");
  byId("model-info").textContent = `Reading the model… ${bytesText(loaded)}${total ? ` of ${bytesText(total)}` : ""}`;
}

export function endDownload(): void {
  byId("model-bar").hidden = true;
}

/** All of the site's models to choose from; `seconds` guesses. */
export function showModels(
  models: SiteModel[], chosen: string | null, seconds: (parameters: number) => number | null, choose: (model: SiteModel) => void,
): void {
  byId("all-models").hidden = models.length < 2;
  byId("all-models-title").textContent = `Compare the ${models.length} models of this site`;
  byId("model-cards").replaceChildren(...models.map((model) => {
    const item = element("li");
    const card = element("button", "", "card");
    card.type = "button";
    card.setAttribute("aria-pressed", String(model.name === chosen));
    const { labels = [], parameters } = model;
    const guess = parameters ? seconds(parameters) : null;
    fill(card, { ...model, labels, seconds: guess, licence: "", citation: "" }); // said of the one that is open
    card.addEventListener("click", () => choose(model));
    item.append(card);
    return item;
  }));
}
