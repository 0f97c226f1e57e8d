// What is decided for a person, by the C++ code of the command line (src/engine/policy.h): which plan is tried after a
// failure, how much memory is likely to be there, which results are none.

import type { Failure } from "./errors.js";
import type { Attempt, BrowserFacts, MemoryBudget, PlanLimits } from "./types.js";
import type { Wasm } from "./wasm.js";

export class Policy {
  #wasm: Wasm;

  constructor(wasm: Wasm) {
    this.#wasm = wasm;
  }

  /** A guess at the memory of a device with these limits, which WebGPU does not tell; for a plan's request. */
  likelyMemory(limits: PlanLimits, facts: BrowserFacts): MemoryBudget {
    this.#wasm.check("gyrus_policy_memory", JSON.stringify({ limits, ...facts }));
    return JSON.parse(this.#wasm.text()) as MemoryBudget;
  }

  /** What to try after a failure, and what to say about it; null where only giving up is left. */
  next(failed: Attempt, failure: Failure | "non-finite"): (Attempt & { notice: string }) | null {
    this.#wasm.check("gyrus_policy_next", JSON.stringify(failed), failure);
    const text = this.#wasm.text();
    return text === "" ? null : (JSON.parse(text) as Attempt & { notice: string });
  }

  /** Throws where every label is 0: a device that computes nothing gives zeros without an error. */
  refuseEmpty(labels: Uint8Array, model: string, onCpu: boolean): void {
    this.#wasm.check("gyrus_policy_labels", labels, model, onCpu ? 1 : 0);
  }
}
