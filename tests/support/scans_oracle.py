#!/usr/bin/env python3
"""RWKV-7's recurrence and the gates of mixtures of experts in float64, with gradients by central differences.

scans_oracle.py > tests/data/scans.json. Written from the formulas in the papers of RWKV-7 and DeepSeek V2 and V3, apart
from gyrus. Each case has attrs, inputs, outputs, upstream (by output) and grads (by input) of sum(upstream * output);
tensors are [shape, numbers].
"""
import json
import math
import random
import struct


def f32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def size(shape):
    n = 1
    for extent in shape:
        n *= extent
    return n


def drawn(rng, shape, lo, hi):
    return [shape, [f32(rng.uniform(lo, hi)) for _ in range(size(shape))]]


def rwkv7(attrs, x):
    batch, steps, heads, keys = x["r"][0]
    values = x["v"][0][3]
    y = [0.0] * (batch * steps * heads * values)
    last = []
    for b in range(batch):
        for h in range(heads):
            at = ((b * heads) + h) * values * keys
            if "start" in x:
                s = [x["start"][1][at + i * keys : at + (i + 1) * keys] for i in range(values)]
            else:
                s = [[0.0] * keys for _ in range(values)]
            for t in range(steps):
                row = (b * steps + t) * heads + h
                r, w, k, a, d = (x[n][1][row * keys : (row + 1) * keys] for n in ("r", "w", "k", "a", "b"))
                v = x["v"][1][row * values : (row + 1) * values]
                for i in range(values):
                    sa = math.fsum(s[i][j] * a[j] for j in range(keys))
                    s[i] = [s[i][j] * w[j] + sa * d[j] + v[i] * k[j] for j in range(keys)]
                    y[row * values + i] = math.fsum(s[i][j] * r[j] for j in range(keys))
            for i in range(values):
                last += s[i]
    return {"y": [x["v"][0], y], "last": [[batch, heads, values, keys], last]}


def gate(attrs, x):
    rows, experts = x["logits"][0]
    size_of_group = experts // attrs["groups"]
    weights, chosen = [], []
    for m in range(rows):
        logits = x["logits"][1][m * experts : (m + 1) * experts]
        if attrs["score"] == "softmax":
            most = max(logits)
            total = math.fsum(math.exp(v - most) for v in logits)
            scores = [math.exp(v - most) / total for v in logits]
        else:
            scores = [1 / (1 + math.exp(-v)) for v in logits]
        bias = x["bias"][1] if "bias" in x else [0.0] * experts
        choice = [s + b for s, b in zip(scores, bias)]
        groups = [sorted(choice[g * size_of_group : (g + 1) * size_of_group], reverse=True) for g in range(attrs["groups"])]
        ranked = [g[0] if attrs["group_score"] == "largest" else g[0] + g[1] for g in groups]
        best = sorted(range(attrs["groups"]), key=lambda g: -ranked[g])[: attrs["top_groups"]]
        open_to = [e for e in range(experts) if e // size_of_group in best]
        top = sorted(open_to, key=lambda e: -choice[e])[: attrs["top_k"]]
        w = [scores[e] for e in top]
        if attrs["renormalize"]:
            total = math.fsum(w) + 1e-20
            w = [v / total for v in w]
        weights += [v * attrs["scale"] for v in w]
        chosen += top
    shape = [rows, attrs["top_k"]]
    return {"weights": [shape, weights], "experts": [shape, chosen]}


def gradients(run, attrs, inputs, upstream, h=1e-4):
    def value():
        out = run(attrs, inputs)
        return math.fsum(u * v for name, up in upstream.items() for u, v in zip(up[1], out[name][1]))

    found = {}
    for name, (shape, numbers) in inputs.items():
        slopes = []
        for i, x in enumerate(numbers):
            at = {}
            for step in (-2, -1, 1, 2):
                numbers[i] = x + step * h
                at[step] = value()
            numbers[i] = x
            slopes.append((8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * h))
        found[name] = [shape, slopes]
    return found


def case(rng, name, run, attrs, inputs):
    outputs = run(attrs, inputs)
    upstream = {n: drawn(rng, t[0], -1, 1) for n, t in outputs.items() if n != "experts"}
    return {"name": name, "op": run.__name__, "attrs": attrs, "inputs": inputs, "outputs": outputs,
            "upstream": upstream, "grads": gradients(run, attrs, inputs, upstream)}


def rwkv7_inputs(rng, batch, steps, heads, keys, values, start):
    x = [batch, steps, heads, keys]
    inputs = {"r": drawn(rng, x, -1, 1), "w": drawn(rng, x, 0.5, 1), "k": drawn(rng, x, -1, 1),
              "v": drawn(rng, [batch, steps, heads, values], -1, 1), "a": drawn(rng, x, -0.7, 0.7),
              "b": drawn(rng, x, -0.7, 0.7)}
    if start:
        inputs["start"] = drawn(rng, [batch, heads, values, keys], -1, 1)
    return inputs


def main():
    rng = random.Random(7)
    v2 = dict(top_k=3, groups=4, top_groups=2, score="softmax", group_score="largest", renormalize=False, scale=2.5)
    v3 = dict(top_k=4, groups=4, top_groups=2, score="sigmoid", group_score="sum", renormalize=True, scale=2.5)
    plain = dict(top_k=2, groups=1, top_groups=1, score="softmax", group_score="largest", renormalize=True, scale=1.0)
    cases = [
        case(rng, "rwkv7.state", rwkv7, {}, rwkv7_inputs(rng, 2, 4, 2, 3, 4, True)),
        case(rng, "rwkv7.long", rwkv7, {}, rwkv7_inputs(rng, 1, 67, 1, 4, 3, False)),
        case(rng, "rwkv7.step", rwkv7, {}, rwkv7_inputs(rng, 2, 1, 3, 5, 5, True)),
        case(rng, "gate.plain", gate, plain, {"logits": drawn(rng, [5, 7], -3, 3)}),
        case(rng, "gate.v2", gate, v2, {"logits": drawn(rng, [6, 16], -3, 3)}),
        case(rng, "gate.v3", gate, v3, {"logits": drawn(rng, [6, 16], -3, 3), "bias": drawn(rng, [16], -0.2, 0.2)}),
    ]
    print(json.dumps({"cases": cases}, indent=None, separators=(",", ":")))


main()
