// What the pages of exported folders have in common: elements, what is said to a person, controls that wait meanwhile.

import { GyrusError } from "./gyrus.js";

export const byId = (id) => document.getElementById(id);

/** Throws what a person did wrong. */
export function fail(message) {
  throw new GyrusError("invalid-input", message);
}

export function say(status, error = "") {
  byId("status").textContent = status;
  byId("error").textContent = error;
}

/** Does one thing at a time: says what, or what went wrong. The controls wait for it, and until `isReady`. */
export const attempts = (controls, isReady) => async (doing, work) => {
  const busy = (yes) => {
    for (const id of controls) byId(id).disabled = yes || !isReady();
    byId("stop").hidden = !yes || !isReady();
  };
  say(doing);
  busy(true);
  try {
    await work();
  } catch (error) {
    say("", error.message ?? String(error));
    if (!isReady()) byId("about").textContent = "";
    if (!(error instanceof GyrusError)) console.error(error);
  } finally {
    busy(false);
  }
};
