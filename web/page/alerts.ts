import { byId, element } from "./dom.js";

// Messages that want attention: one line each, until dismissed or followed by something that worked.

const kMost = 3; // shown at a time, the newest last

export function alertLine(text: string): void {
  const region = byId("alerts");
  for (const old of [...region.children]) if (old.firstChild?.textContent === text) old.remove();
  const line = element("div", "", "alert");
  line.append(element("span", text));
  const close = element("button", "Dismiss");
  close.type = "button";
  close.addEventListener("click", () => line.remove());
  line.append(close);
  region.append(line);
  while (region.children.length > kMost) region.firstElementChild?.remove();
}

export function clearAlerts(): void {
  byId("alerts").replaceChildren();
}

// An error as a person should read it: "cancelled" is no error to them.
export function showError(error: unknown): void {
  alertLine(error instanceof Error ? error.message : String(error));
}

export function noticeLine(line: string): void {
  const text = line.charAt(0).toUpperCase() + line.slice(1);
  const list = byId("notices");
  for (const old of list.children) if (old.textContent === text) return;
  list.append(element("li", text));
}

export function clearNotices(): void {
  byId("notices").replaceChildren();
}
