// The messages of a conversation, as data and on the page.

import type { ChatMessage } from "../../src/text-model.js";
import { byId, element } from "../dom.js";

/** An answer in the making. */
export interface Answer {
  add(text: string): void;
  /** With a word on how it ended, where there is one. */
  end(note: string): void;
}

export class Conversation {
  messages: ChatMessage[] = [];

  get empty(): boolean {
    return this.messages.length === 0;
  }

  clear(): void {
    this.messages = [];
    byId("messages").replaceChildren();
  }

  /** A line between the messages; it replaces one before it. */
  note(text: string): void {
    const list = byId("messages");
    if (list.lastElementChild?.className === "note") list.lastElementChild.remove();
    this.#append(element("li", text, "note"));
  }

  ask(text: string): void {
    const list = byId("messages");
    if (this.empty) list.replaceChildren();
    this.messages.push({ role: "user", content: text });
    this.#append(element("li", text, "user"));
  }

  answer(): Answer {
    const message: ChatMessage = { role: "assistant", content: "" };
    const line = this.#append(element("li", "", "assistant making"));
    this.messages.push(message);
    return {
      add: (text) => {
        message.content += text;
        line.append(text);
        this.#follow();
      },
      end: (note) => {
        line.className = "assistant";
        if (note) this.#append(element("li", note, "note"));
      },
    };
  }

  /** Takes the last answer away; false where there is none to make again. */
  withoutAnswer(): boolean {
    while (this.messages.at(-1)?.role === "assistant") this.messages.pop();
    const list = byId("messages");
    while (list.lastElementChild && list.lastElementChild.className !== "user") list.lastElementChild.remove();
    return !this.empty;
  }

  /** Takes the last question away, with what there is of its answer. */
  forgetQuestion(): string {
    this.withoutAnswer();
    byId("messages").lastElementChild?.remove();
    return this.messages.pop()?.content ?? "";
  }

  /** As one text, for models that only go on with texts. */
  whole(): string {
    return this.messages.map(({ content }) => content).join("");
  }

  /** To be read elsewhere. */
  text(): string {
    return this.messages.map(({ role, content }) => `${role}: ${content}`).join("\n\n");
  }

  #append(line: HTMLLIElement): HTMLLIElement {
    byId("messages").append(line);
    line.scrollIntoView({ block: "end" });
    return line;
  }

  // Stays at the end while the reader is there.
  #follow(): void {
    const list = byId("messages");
    if (list.scrollHeight - list.scrollTop - list.clientHeight < 80) list.scrollTop = list.scrollHeight;
  }
}
