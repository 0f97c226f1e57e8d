import { checkFileSize } from "../src/gzip.js";
import type { ModelSource, NamedBytes, SiteModel } from "../src/types.js";
import { bytesText, byId, element } from "./dom.js";

// Where models come from: the site's list, a folder on this computer, an address.

// What the importer looks at (docs/models.md); the rest of a folder is not read.
const kModelFile = /(\.(json|pth|pt|ckpt|bin|safetensors)|^[^.]+)$/i;

// The site's list, also put into the select; empty where the site has none.
export async function siteModels(): Promise<SiteModel[]> {
  const models = await readList();
  const group = byId("site-models");
  for (const model of models) {
    const option = element("option", model.title || model.name);
    option.title = `${model.classes} classes, ${bytesText(model.bytes)}`;
    option.value = `site:${model.name}`;
    group.append(option);
  }
  group.hidden = models.length === 0;
  return models;
}

async function readList(): Promise<SiteModel[]> {
  try {
    const answer = await fetch("models/index.json", { cache: "no-cache" });
    if (!answer.ok) return [];
    const list = (await answer.json()) as { models?: SiteModel[] };
    return (list.models ?? []).filter((model) => typeof model.name === "string" && Array.isArray(model.files));
  } catch {
    return []; // a site without models still takes folders and addresses
  }
}

// A model from elsewhere as the select's choice, so that "elsewhere" can be chosen again.
export function showOpened(name: string): void {
  const select = byId<HTMLSelectElement>("model");
  let option = [...select.options].find((o) => o.value === "opened");
  if (!option) {
    option = new Option("", "opened");
    select.append(option);
  }
  option.textContent = name;
  select.value = "opened";
}

export function siteSource(model: SiteModel): ModelSource {
  const url = new URL(`models/${model.path}`, document.baseURI).href;
  return { kind: "url", url, files: model.files.map((file) => file.name) };
}

export function urlSource(text: string): ModelSource {
  let url: URL;
  try {
    url = new URL(text, document.baseURI);
  } catch {
    throw new Error(`"${text}" is no address; give one such as https://example.org/models/mindgrab/`);
  }
  if (url.protocol !== "https:" && url.origin !== location.origin)
    throw new Error(`${url.href} is not https; models are read from https addresses or this site.`);
  return { kind: "url", url: url.href };
}

// The files of a model in a folder that was picked; folders inside it are left alone.
export async function folderSource(files: File[]): Promise<ModelSource> {
  const path = (file: File) => (file.webkitRelativePath || file.name).split("/");
  const name = files[0] ? (path(files[0]).length > 1 ? path(files[0])[0] : "model") ?? "model" : "model";
  const wanted = files.filter((file) => path(file).length <= 2 && kModelFile.test(file.name));
  if (wanted.length === 0)
    throw new Error(`The folder ${name} holds no model: expected model.json with its weights beside it.`);
  const total = wanted.reduce((sum, file) => sum + file.size, 0);
  checkFileSize(`the folder ${name}`, total);
  const read: NamedBytes[] = [];
  for (const file of wanted) read.push({ name: file.name, bytes: new Uint8Array(await file.arrayBuffer()) });
  return { kind: "files", name, files: read };
}
