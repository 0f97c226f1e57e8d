import { requestDevice } from "../src/device.js";
import { GraphBuilder, type NetworkGraph } from "../src/network-graph.js";
import { Trainer } from "../src/trainer.js";
import type { HostTensor } from "../src/types.js";
import { clearAlerts, showError } from "./alerts.js";
import { byId, bytesText } from "./dom.js";
import { showCurve, showGrey, showLabels, showMaps } from "./pictures.js";
import { CLASSES, drawSlice, EXTENT, meanDice, type Slice } from "./slices.js";

// The training page: a network of convolutions learns to label drawn slices, and a program of one slice shows what it has
// learnt so far.

const kChannels = 8;
const kDilations = [1, 2, 4, 8, 1];
const kPicturesMs = 250; // between pictures, while it trains
const kUnseen = 1_000_000; // seeds from here on are not trained with

// Convolutions that see ever farther, each with a norm; classes at the end.
function network(batch: number): NetworkGraph {
  const g = new GraphBuilder(7);
  let x = g.input("image", "f32", [batch, 1, EXTENT, EXTENT]);
  kDilations.forEach((d, i) => {
    const weight = g.random(`conv${i}.weight`, [kChannels, i === 0 ? 1 : kChannels, 3, 3]);
    x = g.op("conv", [x, weight], { dilation: [d, d], pads: [d, d, d, d] });
    x = g.op("group_norm", [x, g.ones(`norm${i}.weight`, [kChannels]), g.zeros(`norm${i}.bias`, [kChannels])], { groups: 4 });
    x = g.capture(`layer${i}`, g.op("gelu", [x]));
  });
  const head = [g.random("head.weight", [CLASSES.length, kChannels, 1, 1]), g.zeros("head.bias", [CLASSES.length])];
  const scores = g.op("conv", [x, ...head]);
  g.output("labels", g.op("argmax", [scores], { axis: 1 }));
  const truth = g.input("truth", "i32", [batch, EXTENT, EXTENT]);
  const losses = ["cross_entropy", "dice"].map((op) => g.op(op, [scores, truth]));
  g.output("loss", g.op("add", losses));
  return g.graph;
}

const floats = (shape: number[], data: Float32Array): HostTensor => ({ dtype: "f32", shape, data: new Uint8Array(data.buffer) });

class TrainingPage {
  #trainer: Trainer;
  #batch: number;
  #losses: number[] = [];
  #running = false;
  #turn: Promise<void> = Promise.resolve(); // training, pictures and resets, one after another
  #unseen: Slice;
  #unseenSeed = kUnseen;
  #shownAt = 0; // ms
  #spent = 0; // ms, in steps since the start

  constructor(trainer: Trainer, batch: number) {
    this.#trainer = trainer;
    this.#batch = batch;
    this.#unseen = drawSlice(this.#unseenSeed, this.#number("noise"));
    byId("start").addEventListener("click", () => (this.#running ? this.#pause() : this.#start()));
    byId("one").addEventListener("click", () => this.#inTurn(async () => {
      await this.#step();
      await this.#show();
    }));
    byId("reset").addEventListener("click", () => this.#reset());
    byId("other").addEventListener("click", () => this.#draw(++this.#unseenSeed));
    byId("noise").addEventListener("input", () => this.#draw(this.#unseenSeed));
    byId("rate").addEventListener("input", () => this.#settings());
    byId("layer").addEventListener("change", () => this.#inTurn(() => this.#show()));
    new ResizeObserver(() => showCurve(byId<HTMLCanvasElement>("curve"), this.#losses)).observe(byId("curve"));
    this.#settings();
  }

  /** What it shows before the first step. */
  begin(): Promise<void> {
    return this.#inTurn(async () => {
      await this.#show();
      const values = Object.values(await this.#trainer.parameters()).reduce((sum, { data }) => sum + data.length / 4, 0);
      byId("about-network").textContent = `${values} parameters; ${kDilations.length} layers of ${kChannels} channels; ` +
        `${bytesText(this.#trainer.allocatedBytes + this.#trainer.memory.bytes)} on the device.`;
      this.#say("Ready.");
      for (const id of ["start", "one", "reset", "other"]) byId<HTMLButtonElement>(id).disabled = false;
    });
  }

  #number(id: string): number {
    return Number(byId<HTMLInputElement>(id).value);
  }

  #settings(): void {
    const rate = 10 ** this.#number("rate");
    byId("rate-text").textContent = rate.toPrecision(2);
    byId("noise-text").textContent = this.#number("noise").toFixed(2);
    this.#trainer.setSchedule({ rate });
  }

  #say(text: string): void {
    byId("status").textContent = text;
  }

  #inTurn(body: () => Promise<void>): Promise<void> {
    const done = this.#turn.then(body).catch((error: unknown) => {
      this.#pause();
      showError(error);
    });
    this.#turn = done;
    return done;
  }

  #start(): void {
    clearAlerts();
    this.#running = true;
    byId("start").textContent = "Pause";
    this.#say("Training…");
    void this.#inTurn(() => this.#train());
  }

  // The step under way ends first.
  #pause(): void {
    this.#running = false;
    byId("start").textContent = "Go on";
    this.#turn = this.#turn.then(() => {
      if (this.#running) return;
      const begun = this.#losses.length > 0;
      byId("start").textContent = begun ? "Go on" : "Start";
      this.#say(begun ? "Paused." : "Ready.");
    });
  }

  #reset(): void {
    this.#running = false;
    void this.#inTurn(async () => {
      await this.#trainer.resetOptimizer();
      await this.#trainer.memory.reset(this.#trainer.names());
      this.#losses = [];
      this.#spent = 0;
      await this.#show();
    });
    this.#pause();
  }

  #draw(seed: number): void {
    this.#settings();
    this.#unseen = drawSlice(seed, this.#number("noise"));
    void this.#inTurn(() => this.#show());
  }

  async #train(): Promise<void> {
    while (this.#running) {
      await this.#step();
      if (performance.now() - this.#shownAt > kPicturesMs) await this.#show();
      await new Promise((done) => setTimeout(done)); // so that the page hears its buttons
    }
    await this.#show();
  }

  async #step(): Promise<void> {
    const [area, batch] = [EXTENT * EXTENT, this.#batch];
    const image = new Float32Array(batch * area);
    const truth = new Int32Array(batch * area);
    for (let i = 0; i < batch; ++i) {
      const slice = drawSlice(this.#losses.length * batch + i, this.#number("noise"));
      image.set(slice.image, i * area);
      truth.set(slice.labels, i * area);
    }
    const begin = performance.now();
    const { loss } = await this.#trainer.step({
      image: floats([batch, 1, EXTENT, EXTENT], image),
      truth: { dtype: "i32", shape: [batch, EXTENT, EXTENT], data: new Uint8Array(truth.buffer) },
    });
    this.#spent += performance.now() - begin;
    this.#losses.push(loss);
  }

  // One slice through the network as it is now.
  async #show(): Promise<void> {
    const layer = byId<HTMLSelectElement>("layer").value;
    const { image, labels } = this.#unseen;
    const canvas = (id: string) => byId<HTMLCanvasElement>(id);
    showGrey(canvas("image"), image);
    showLabels(canvas("truth"), labels);
    const inputs = { image: floats([1, 1, EXTENT, EXTENT], image) };
    const { outputs } = await this.#trainer.run(inputs, { captures: [layer] });
    const found = new Uint32Array(outputs.labels!.data.buffer);
    showLabels(canvas("prediction"), found);
    const rows = canvas("maps").clientWidth < 480 ? 2 : 1;
    showMaps(canvas("maps"), new Float32Array(outputs[layer]!.data.buffer), kChannels, rows);
    byId("maps-layer").textContent = String(Number(layer.slice(5)) + 1);
    this.#facts(meanDice(found, labels));
    this.#shownAt = performance.now();
  }

  #facts(dice: number): void {
    const steps = this.#losses.length;
    const last = this.#losses.at(-1);
    showCurve(byId<HTMLCanvasElement>("curve"), this.#losses);
    byId("curve").setAttribute("aria-label", last === undefined ? "Loss of each step: none yet"
      : `Loss of each step, from ${this.#losses[0]!.toFixed(3)} to ${last.toFixed(3)} in ${steps} steps`);
    byId("step").textContent = String(steps);
    byId("loss").textContent = last === undefined ? "–" : last.toFixed(4);
    byId("dice").textContent = `${dice.toFixed(3)} on the slice shown`;
    byId("speed").textContent = steps === 0 ? "–" : `${((1000 * steps) / this.#spent).toFixed(1)} steps a second`;
    byId("shown-at").textContent = steps === 0 ? "untrained" : `step ${steps}`;
    byId("curve-last").textContent = last === undefined ? "" : last.toFixed(4);
  }
}

kDilations.forEach((d, i) => byId<HTMLSelectElement>("layer").append(
  new Option(`${i + 1}: steps of ${d}`, `layer${i}`, i === 1, i === 1)));

try {
  const open = await requestDevice();
  byId("device-line").textContent = open.report.adapter + (open.report.software ? " (software)" : "");
  byId("status").textContent = "Compiling the network…";
  const batch = open.report.software ? 2 : 4; // slices a step
  const trainer = await Trainer.create(open, network(batch), { optimizer: { kind: "adam" } });
  await new TrainingPage(trainer, batch).begin();
} catch (error) {
  byId("device-line").textContent = "No GPU";
  byId("status").textContent = "Training needs WebGPU.";
  showError(error);
}
