// What trains inside the browser, for trainer-chromium.test.ts.

import { requestDevice } from "../../../web/src/device.js";
import { Trainer } from "../../../web/src/trainer.js";
import { goldenNet, isFree, largestError, nmse, smallMeshnet } from "./training-nets.js";

const read = async (path: string) => new Uint8Array(await (await fetch(`/data/${path}`)).arrayBuffer());

export interface Trained {
  adapter: string;
  losses: number[];
  wanted: number[];
  gradient: number; // the worst error of step 0: NMSE of the small MeshNet, else over the largest value
  parameters: number; // the worst error of the last parameters, over the largest value
}

/** Trains "small", by Adam, or a golden network for so many steps. */
export async function train(name: string, most: number): Promise<Trained> {
  const open = await requestDevice();
  const small = name === "small";
  const net = small ? await smallMeshnet(read, "adam") : await goldenNet(read, name);
  const trainer = await Trainer.create(open, net.graph, { ...net.options, wasm: "/gyrus-train.wasm" });
  const wanted = net.losses.slice(0, most);
  const losses: number[] = [];
  let gradient = 0;
  for (const [t] of wanted.entries()) {
    const captures = t === 0 ? Object.keys(net.gradients).map((each) => `gradient/${each}`) : [];
    const step = await trainer.step(net.inputs, { captures });
    losses.push(step.loss);
    for (const [each, want] of t === 0 ? Object.entries(net.gradients) : []) {
      const found = step.outputs[`gradient/${each}`]!;
      if (!small || !isFree(each)) gradient = Math.max(gradient, small ? nmse(found, want) : largestError(found, want));
    }
  }
  const final = await trainer.parameters();
  const errors = Object.entries(net.final).filter(([each]) => !small || !isFree(each))
    .map(([each, want]) => largestError(final[each]!, want));
  trainer.destroy();
  open.device.destroy();
  return { adapter: open.report.adapter, losses, wanted, gradient, parameters: Math.max(...errors) };
}
