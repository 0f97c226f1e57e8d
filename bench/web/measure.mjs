// Runs the contestants in turns, so that whatever else the machine does falls on all of them.

import { contestants } from "./contestants.mjs";
import { networks, size } from "./networks.mjs";

const tolerance = 1e-4; // of the largest value: f32 sums in other orders stay far below

function largestDifference(want, got) {
  let most = 0;
  want.forEach((value, i) => (most = Math.max(most, Math.abs(value - got[i]))));
  return most;
}

// Voxels whose best class differs, of those whose two best differ by more than `margin`.
function labelsDiffering(want, got, margin) {
  const voxels = size ** 3;
  const classes = want.length / voxels;
  let count = 0;
  for (let v = 0; v < voxels; ++v) {
    const order = (values) => Array.from({ length: classes }, (_, c) => c)
      .sort((a, b) => values[b * voxels + v] - values[a * voxels + v]);
    const [first, second] = order(want);
    if (want[first * voxels + v] - want[second * voxels + v] > margin && order(got)[0] !== first) ++count;
  }
  return count;
}

// Against the first of them.
function compare(results, names) {
  if (names.length === 0) return 0;
  const scale = results[names[0]].values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  for (const name of names) {
    const [want, got] = [results[names[0]].values, results[name].values];
    results[name].maxDifference = largestDifference(want, got);
    results[name].labelsDiffering = labelsDiffering(want, got, tolerance * scale);
    if (results[name].maxDifference < tolerance * scale) continue;
    results[name] = { error: `computes wrongly: differs by ${results[name].maxDifference.toPrecision(3)}` };
  }
  return scale;
}

async function timed(run) {
  const begin = performance.now();
  const values = await run();
  return { ms: performance.now() - begin, values };
}

async function measureNetwork(network, files, { rounds, warmUps, only, profile, log }) {
  const results = {};
  for (const [name, open] of Object.entries(contestants)) {
    if (only && !only.includes(name)) continue;
    try {
      const begin = performance.now();
      const { adapter, run, steps, finish = (values) => values } = await open(network, files);
      const first = await timed(run);
      const firstMs = performance.now() - begin;
      results[name] = { adapter, run, firstMs, ms: [], values: finish(first.values) };
      for (let i = 1; i < warmUps; ++i) await run();
      if (profile && steps) results[name].steps = await steps();
      log(`${network.title}: ${name} is ready, ${Math.round(firstMs)} ms to the first result`);
    } catch (error) {
      results[name] = { error: String(error?.message ?? error).split("\n")[0] };
      log(`${network.title}: ${name} does not run it: ${results[name].error}`);
    }
  }
  const running = () => Object.keys(results).filter((name) => results[name].run);
  const scale = compare(results, running());
  const names = running();
  for (let round = 0; round < rounds; ++round)
    for (let i = 0; i < names.length; ++i) {
      const name = names[(i + round) % names.length]; // nobody always follows the same one
      const { ms } = await timed(results[name].run);
      results[name].ms.push(ms);
      log(`${network.title}: round ${round + 1} of ${rounds}, ${name}: ${ms.toFixed(1)} ms`);
    }
  for (const name of names) {
    delete results[name].run;
    delete results[name].values;
  }
  return { title: network.title, scale, results };
}

export async function measure(files, options) {
  const measured = {};
  for (const name of options.networks ?? Object.keys(networks))
    measured[name] = await measureNetwork(networks[name], files, options);
  return measured;
}
