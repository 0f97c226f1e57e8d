// The chat page: a model is opened and shown with what it takes, then loaded, then one talks with it.

import type { TextSource } from "../../src/byte-source.js";
import { isSoftware, requestDevice, type OpenDevice } from "../../src/device.js";
import { isCancelled } from "../../src/errors.js";
import { forgetModel, storedModels } from "../../src/model-store.js";
import { planTextModel, TextGenerator, type Generated } from "../../src/text-generator.js";
import { TextCompiler, type CacheFormat } from "../../src/text-model.js";
import { clearAlerts, showError } from "../alerts.js";
import { byId, bytesText, element } from "../dom.js";
import { Conversation } from "./conversation.js";
import { readSettings, watchSettings } from "./settings.js";

const contexts = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072];

class ChatPage {
  #open: OpenDevice;
  #compiler: TextCompiler;
  #source: TextSource | null = null;
  #generator: TextGenerator | null = null;
  #conversation = new Conversation();
  #busy: AbortController | null = null; // of loading or answering
  #turn: Promise<void> = Promise.resolve();

  constructor(open: OpenDevice, compiler: TextCompiler) {
    this.#open = open;
    this.#compiler = compiler;
    this.#listenToSources();
    byId("load").addEventListener("click", () => this.#inTurn(() => this.#load()));
    byId("cancel").addEventListener("click", () => this.#busy?.abort());
    byId("other").addEventListener("click", () => this.#inTurn(() => this.#close()));
    for (const id of ["context", "cache"]) byId(id).addEventListener("change", () => this.#inTurn(() => this.#describe()));
    byId("stop").addEventListener("click", () => this.#busy?.abort());
    byId("new").addEventListener("click", () => {
      this.#busy?.abort();
      void this.#inTurn(async () => this.#clear());
    });
    byId("retry").addEventListener("click", () => this.#inTurn(async () => {
      if (this.#conversation.withoutAnswer()) await this.#answer();
    }));
    byId("copy").addEventListener("click", () => this.#inTurn(() => navigator.clipboard.writeText(this.#conversation.text())));
    byId("composer").addEventListener("submit", (event) => (event.preventDefault(), this.#send()));
    byId("question").addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.#send();
    });
    void this.#showStored();
  }

  // The page does one thing at a time, and shows what went wrong.
  #inTurn(body: () => Promise<unknown>): Promise<void> {
    const done = this.#turn.then(async () => {
      clearAlerts();
      await body();
    }).catch((error: unknown) => {
      if (!isCancelled(error)) showError(error);
    });
    this.#turn = done;
    return done;
  }

  #listenToSources(): void {
    const file = byId<HTMLInputElement>("file");
    byId("pick").addEventListener("click", () => file.click());
    file.addEventListener("change", () => {
      const chosen = file.files?.[0];
      file.value = "";
      if (chosen) this.#choose(chosen);
    });
    byId("address-form").addEventListener("submit", (event) => {
      event.preventDefault();
      const address = byId<HTMLInputElement>("address").value.trim();
      if (address) this.#choose(address);
    });
    const dragging = (on: boolean) => (event: DragEvent) => {
      event.preventDefault();
      document.body.classList.toggle("dragging", on);
    };
    document.addEventListener("dragover", dragging(true));
    document.addEventListener("dragleave", dragging(false));
    document.addEventListener("drop", (event) => {
      dragging(false)(event);
      const dropped = event.dataTransfer?.files[0];
      if (dropped) this.#choose(dropped);
    });
  }

  #choose(source: TextSource): void {
    this.#busy?.abort();
    void this.#inTurn(async () => {
      await this.#close();
      this.#source = source;
      byId("context").replaceChildren();
      this.#say("Reading the head of the file…");
      await this.#describe().catch(async (error: unknown) => {
        await this.#close();
        throw error;
      });
    });
  }

  #options() {
    const context = Number(byId<HTMLSelectElement>("context").value);
    const cache = byId<HTMLSelectElement>("cache").value as CacheFormat;
    return { cache, ...(context > 0 ? { context } : {}), compiler: this.#compiler };
  }

  // What the model is and what it takes, before it is loaded.
  async #describe(): Promise<void> {
    if (!this.#source || this.#generator) return;
    const software = isSoftware(this.#open.device.adapterInfo);
    const { info, options, memory } =
      await planTextModel(this.#source, this.#open.limits, { ...this.#options(), software });
    byId("model-section").hidden = false;
    byId("start").hidden = true;
    byId("messages").hidden = false;
    byId("model-name").textContent = info.name || (this.#source instanceof File ? this.#source.name : String(this.#source));
    const size = info.parameters >= 1e9 ? `${(info.parameters / 1e9).toFixed(2)} billion` : info.parameters >= 1e6
      ? `${(info.parameters / 1e6).toFixed(1)} million` : info.parameters.toLocaleString("en");
    const formats = Object.keys(info.formats).sort((a, b) => info.formats[b]! - info.formats[a]!);
    byId("model-about").textContent = `${info.architecture}, ${size} parameters in ${formats.join(", ")}; ${info.layers} layers, ` +
      `${info.width} wide, ${info.vocabulary} tokens; trained for texts of ${info.context}.`;
    byId("memory-context").textContent = options.context.toLocaleString("en");
    for (const part of ["weights", "cache", "scratch"] as const) byId(`memory-${part}`).textContent = bytesText(memory[part]);
    byId("memory-total").textContent = bytesText(memory.weights + memory.cache + memory.scratch);
    this.#offerContexts(info.context, options.context);
    byId("load").hidden = byId("before").hidden = false;
    byId("load").focus();
    this.#say("Nothing is on the GPU yet.");
    this.#conversation.note("Load the model to begin.");
  }

  #offerContexts(most: number, chosen: number): void {
    const select = byId<HTMLSelectElement>("context");
    const offered = [...new Set([...contexts.filter((each) => each <= most), chosen])].sort((a, b) => a - b);
    select.replaceChildren(...offered.map((each) => {
      const option = element("option", `${each.toLocaleString("en")} tokens`);
      option.value = String(each);
      option.selected = each === chosen;
      return option;
    }));
  }

  async #load(): Promise<void> {
    const progress = byId<HTMLProgressElement>("progress");
    const busy = (this.#busy = new AbortController());
    const loading = (on: boolean) => {
      progress.hidden = byId("cancel").hidden = !on;
      byId("load").hidden = byId("other").hidden = on;
      for (const id of ["context", "cache"]) byId<HTMLSelectElement>(id).disabled = on;
    };
    loading(true);
    this.#say("Compiling kernels…");
    const begin = performance.now();
    try {
      this.#generator = await TextGenerator.load(this.#source!, {
        ...this.#options(), device: this.#open, signal: busy.signal, onProgress: (loaded, total) => {
          progress.value = loaded / total;
          this.#say(`${bytesText(loaded)} of ${bytesText(total)} on the GPU`);
        },
      });
    } catch (error) {
      this.#say("Nothing is on the GPU.");
      throw error;
    } finally {
      loading(false);
      this.#busy = null;
    }
    byId("load").hidden = byId("before").hidden = true;
    byId("composer").hidden = byId("chat-section").hidden = false;
    this.#say(`Loaded in ${((performance.now() - begin) / 1000).toFixed(1)} s.`);
    const talks = this.#generator.chatTemplate !== "";
    byId("system").hidden = byId("system-label").hidden = !talks;
    byId<HTMLTextAreaElement>("question").placeholder = talks ? "Write to the model" : "Begin a text";
    this.#clear();
    byId("question").focus();
    void this.#showStored();
  }

  async #close(): Promise<void> {
    this.#generator?.destroy();
    this.#generator = this.#source = null;
    for (const id of ["model-section", "chat-section", "composer", "messages"]) byId(id).hidden = true;
    byId("start").hidden = false;
    this.#conversation.clear();
    await this.#showStored();
  }

  #clear(): void {
    this.#conversation.clear();
    this.#conversation.note(this.#generator?.chatTemplate ? "Ask something."
      : "This model has no chat template: it goes on with the text that you begin.");
    for (const id of ["speed", "first", "used"]) byId(id).textContent = "–";
    this.#enable();
  }

  #enable(): void {
    for (const id of ["retry", "copy"]) byId<HTMLButtonElement>(id).disabled = this.#conversation.empty;
  }

  #say(text: string): void {
    byId("status").textContent = text;
  }

  #send(): void {
    const question = byId<HTMLTextAreaElement>("question");
    const text = question.value;
    if (!this.#generator || this.#busy || text.trim() === "") return;
    question.value = "";
    void this.#inTurn(async () => {
      this.#conversation.ask(text);
      await this.#answer();
    });
  }

  #prompt(generator: TextGenerator): number[] {
    const { system } = readSettings();
    if (!generator.chatTemplate) return generator.tokenize(this.#conversation.whole());
    const told = system.trim() ? [{ role: "system", content: system }] : [];
    return generator.chat([...told, ...this.#conversation.messages]).tokens;
  }

  async #answer(): Promise<void> {
    const generator = this.#generator!;
    const { tokens, system: _, ...sampling } = readSettings();
    const busy = (this.#busy = new AbortController());
    byId("send").hidden = true;
    byId("stop").hidden = false;
    try {
      const prompt = this.#prompt(generator);
      const room = generator.options.context - prompt.length;
      const answer = this.#conversation.answer();
      let [count, first] = [0, 0];
      const made = await generator.generate(prompt, {
        ...sampling, tokens: Math.min(tokens, Math.max(room, 1)), shift: false, signal: busy.signal,
        onToken: ({ text }) => {
          answer.add(text);
          const now = performance.now();
          if (count++ === 0) first = now;
          else byId("speed").textContent = speedText(count - 1, (now - first) / 1000);
          this.#showUsed(prompt.length + count);
        },
      });
      answer.end(ending(made, tokens));
      this.#facts(made);
    } catch (error) {
      // A question that cannot be answered is forgotten, so that the conversation can go on.
      byId<HTMLTextAreaElement>("question").value = this.#conversation.forgetQuestion();
      throw error;
    } finally {
      this.#busy = null;
      byId("send").hidden = false;
      byId("stop").hidden = true;
      this.#enable();
      byId("question").focus();
    }
  }

  #showUsed(tokens: number): void {
    byId("used").textContent = `${tokens.toLocaleString("en")} of ${this.#generator!.options.context.toLocaleString("en")} tokens`;
  }

  #facts({ tokens, promptTokens, reusedTokens, promptSeconds, generateSeconds }: Generated): void {
    if (tokens.length > 1) byId("speed").textContent = speedText(tokens.length - 1, generateSeconds);
    const reused = reusedTokens > 0 ? `, ${reusedTokens} of them known` : "";
    byId("first").textContent = `after ${promptSeconds.toFixed(2)} s (${promptTokens} tokens read${reused})`;
  }

  async #showStored(): Promise<void> {
    const models = await storedModels().catch(() => []);
    byId("stored").hidden = models.length === 0;
    byId("stored-list").replaceChildren(...models.map(({ url, name, size, stored }) => {
      const line = element("li");
      const open = element("button", "", "card");
      const part = stored < size ? `${bytesText(stored)} of ${bytesText(size)} so far` : bytesText(size);
      open.append(element("strong", name), element("span", `${part} · ${new URL(url).host}`));
      open.addEventListener("click", () => this.#choose(url));
      const forget = element("button", "Delete");
      forget.setAttribute("aria-label", `Delete ${name}`);
      forget.addEventListener("click", () => this.#inTurn(async () => {
        await forgetModel(url);
        await this.#showStored();
      }));
      for (const button of [open, forget]) button.type = "button";
      line.append(open, forget);
      return line;
    }));
  }
}

const speedText = (tokens: number, seconds: number) => `${(tokens / Math.max(seconds, 1e-3)).toFixed(1)} tokens a second`;

// What is to be said of an answer's end; mostly nothing.
function ending({ finish }: Generated, tokens: number): string {
  if (finish === "cancelled") return "Stopped.";
  return finish === "length" ? `Cut after ${tokens} tokens, or where the context was full.` : "";
}

watchSettings();
try {
  const open = await requestDevice();
  byId("device-line").textContent = open.report.adapter + (open.report.software ? " (software)" : "");
  new ChatPage(open, await TextCompiler.load({ wasm: new URL("gyrus-text.wasm", document.baseURI) }));
  document.body.dataset.ready = "true";
} catch (error) {
  byId("device-line").textContent = "No GPU";
  for (const id of ["pick", "address"]) byId<HTMLButtonElement>(id).disabled = true;
  showError(error);
}
if (location.protocol !== "file:") void navigator.serviceWorker?.register("sw.js").catch(() => {});
