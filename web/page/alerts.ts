import { byId, element } from "./dom.js";
import { messageOf, type Action } from "./hints.js";

// Messages that want attention: one line each, until dismissed or followed by something that worked.

const kMost = 3; // shown at a time, the newest last

function alertLine(text: string, actions: Action[]): void {
  const region = byId("alerts");
  for (const old of [...region.children]) if (old.firstChild?.textContent === text) old.remove();
  const line = element("div", "", "alert");
  line.append(element("span", text));
  for (const { label, act } of [...actions, { label: "Dismiss", act: () => {} }]) {
    const button = element("button", label);
    button.type = "button";
    button.addEventListener("click", () => (line.remove(), act()));
    line.append(button);
  }
  region.append(line);
  while (region.children.length > kMost) region.firstElementChild?.remove();
}

// All of them, or those that begin with this.
export function clearAlerts(start = ""): void {
  for (const line of [...byId("alerts").children]) if (line.textContent?.startsWith(start)) line.remove();
}

// An error as a person should read it, and what they can do about it.
export function showError(error: unknown, actions: Action[] = []): void {
  alertLine(messageOf(error), actions);
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
