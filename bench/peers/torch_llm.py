#!/usr/bin/env python3
"""The shapes of bench/llm.cpp in PyTorch in halves on a CUDA device, with random weights: tokens per second behind a text of
100 tokens (a cache of fixed size, the step as a CUDA graph), a prompt of 512 tokens, and what a copy and a product reach."""
import time

import torch

SHAPES = {"Llama-3.2-1B": (16, 2048, 32, 8, 8192, 128256), "Llama-3.1-8B": (32, 4096, 32, 8, 14336, 128256)}
CONTEXT, POSITION, PROMPT, TOKENS = 1024, 100, 512, 50


def weight(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.half) * 0.02


class Decoder:
    def __init__(self, layers, width, heads, kv_heads, hidden, vocabulary):
        self.heads, self.kv_heads, self.depth, self.width = heads, kv_heads, width // heads, width
        columns = (heads + 2 * kv_heads) * self.depth
        self.layers = [(weight(columns, width), weight(width, width), weight(2 * hidden, width), weight(width, hidden))
                       for _ in range(layers)]
        self.embedding, self.ones = weight(vocabulary, width), torch.ones(width, device="cuda", dtype=torch.half)
        shape = (layers, 2, kv_heads, CONTEXT, self.depth)
        self.cache = torch.zeros(*shape, device="cuda", dtype=torch.half)
        half = self.depth // 2
        angle = torch.arange(CONTEXT, device="cuda")[:, None] * 500000.0 ** (-torch.arange(half, device="cuda") / half)
        self.cos, self.sin = angle.cos().half(), angle.sin().half()

    def norm(self, x):
        return torch.nn.functional.rms_norm(x, (self.width,), self.ones)

    def turned(self, x, at):
        a, b = x.chunk(2, -1)
        c, s = self.cos[at], self.sin[at]
        return torch.cat((a * c - b * s, b * c + a * s), -1)

    def step(self, tokens, at, mask):
        x = self.embedding[tokens]
        for (qkv, out, up, down), cache in zip(self.layers, self.cache):
            parts = (self.norm(x) @ qkv.T).view(len(x), -1, self.depth).transpose(0, 1)
            q = self.turned(parts[:self.heads], at)
            cache[0].index_copy_(1, at, self.turned(parts[self.heads:self.heads + self.kv_heads], at))
            cache[1].index_copy_(1, at, parts[self.heads + self.kv_heads:])
            seen = torch.nn.functional.scaled_dot_product_attention(
                q[None], cache[0][None], cache[1][None], attn_mask=mask, enable_gqa=True)[0]
            x = x + seen.transpose(0, 1).reshape(len(x), -1) @ out.T
            gate, value = (self.norm(x) @ up.T).chunk(2, -1)
            x = x + (torch.nn.functional.silu(gate) * value) @ down.T
        return (self.norm(x[-1:]) @ self.embedding.T).argmax(-1)


def seconds(run, repeats):
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / repeats


def captured(run):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def main():
    torch.backends.cuda.matmul.allow_tf32 = False
    source = torch.empty(1 << 28, device="cuda", dtype=torch.uint8)
    target = torch.empty_like(source)
    copy = 2 * source.numel() / seconds(lambda: target.copy_(source), 20)
    a = torch.randn(4096, 4096, device="cuda")
    product = 2 * 4096**3 / seconds(lambda: a @ a, 10)
    print(f"{torch.cuda.get_device_name()}: copies {copy / 1e9:.1f} GB/s, multiplies {product / 1e12:.2f} TFLOP/s in f32")
    for name, shape in SHAPES.items():
        with torch.inference_mode():
            decoder = Decoder(*shape)
            place = torch.tensor([POSITION], device="cuda")
            token = torch.tensor([7], device="cuda")
            mask = (torch.arange(CONTEXT, device="cuda") <= POSITION)[None, None, None]
            one = seconds(captured(lambda: decoder.step(token, place, mask)), TOKENS)
            eager = seconds(lambda: decoder.step(token, place, mask), TOKENS)
            rows = torch.arange(PROMPT, device="cuda")
            seen = (torch.arange(CONTEXT, device="cuda") <= rows[:, None])[None, None]
            prompt = seconds(lambda: decoder.step(rows, rows, seen), 5)
        size = sum(w.numel() for layer in decoder.layers for w in layer) * 2 + decoder.embedding.numel() * 2
        print(f"{name:14} f16   {size / 1e6:8.1f} MB  decode {1 / one:8.1f} tokens/s (graph; {1 / eager:.1f} without) "
              f"{100 * size / one / copy:5.1f} % of the copy rate; prompt {PROMPT / prompt:8.1f} tokens/s")
        del decoder


if __name__ == "__main__":
    main()
