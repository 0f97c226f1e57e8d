// The networks to measure, as lists of layers with weights [O, C, k, k, k], and their inputs [C, size³].

export const size = 64;

// Numbers in [-1, 1) that depend on the seed alone (xorshift32).
function numbers(seed, count) {
  let state = seed;
  return Float32Array.from({ length: count }, () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state / 2 ** 31;
  });
}

function layer(seed, channels, outputs, k, dilation, relu) {
  const taps = channels * k ** 3;
  const scale = Math.sqrt(6 / taps); // keeps the spread of the values through ReLU
  const weight = numbers(seed, outputs * taps).map((value) => value * scale);
  return { channels, outputs, k, dilation, relu, weight, bias: numbers(seed + 1, outputs).map((value) => value * 0.1) };
}

const dilations = [1, 2, 4, 8, 16, 8, 4, 2, 1];

export const networks = {
  conv: { title: "conv 5→5, 3×3×3", layers: [layer(101, 5, 5, 3, 1, false)] },
  meshnet: {
    title: "MeshNet, 5 channels, 10 layers",
    layers: [
      ...dilations.map((dilation, i) => layer(201 + 2 * i, i === 0 ? 1 : 5, 5, 3, dilation, true)),
      layer(301, 5, 3, 1, 1, false),
    ],
  },
};

// Between 0 and 1, as normalised scans are.
export function input({ layers }) {
  return numbers(7, layers[0].channels * size ** 3).map((value) => (value + 1) / 2);
}

export function flops({ layers }) {
  return layers.reduce((sum, { channels, outputs, k }) => sum + 2 * channels * outputs * k ** 3 * size ** 3, 0);
}
