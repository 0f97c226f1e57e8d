"""The cases of bench/cpu.cpp in PyTorch: takes names from its input, one a line, answers each with a line of seconds.
Its first argument is the number of threads. bench/cpu.py runs it, in turns with gyrus."""
import re
import sys
import time

import torch


def conv(name):
    numbers = [int(n) for n in re.findall(r"\d+", name)]
    fan_in, fan_out, extents, kernel, dilation = numbers[0], numbers[1], numbers[2:5], numbers[5:8], numbers[8]
    flat = kernel[0] == 1 and extents[0] == 1
    make = torch.nn.Conv2d if flat else torch.nn.Conv3d
    kernel, extents = (kernel[1:], extents[1:]) if flat else (kernel, extents)
    steps = [dilation if k > 1 else 1 for k in kernel]
    layer = make(fan_in, fan_out, kernel, padding=[k // 2 * d for k, d in zip(kernel, steps)], dilation=steps)
    x = torch.randn(1, fan_in, *extents)
    return lambda: layer(x)


def matmul(name):
    m, n, k = (int(number) for number in re.findall(r"\d+", name)[:3])
    a, b = torch.randn(m, k), torch.randn(k, n)
    return lambda: a @ b


class Block(torch.nn.Module):
    """As the encoder of bench/encoder.h: normalised first, heads of 64."""

    def __init__(self, width):
        super().__init__()
        self.heads = width // 64
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        parts = self.qkv(self.norm1(x)).chunk(3, -1)
        q, k, v = (part.view(batch, tokens, self.heads, 64).transpose(1, 2) for part in parts)
        seen = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x))))


def encoder(name):
    layers, tokens, width = (int(number) for number in re.findall(r"\d+", name))
    net, x = torch.nn.Sequential(*(Block(width) for _ in range(layers))).eval(), torch.randn(1, tokens, width)
    return lambda: net(x)


def main():
    torch.set_num_threads(int(sys.argv[1]))
    kinds = {"conv": conv, "matmul": matmul, "encoder": encoder}
    prepared, run = None, None
    with torch.no_grad():
        for line in sys.stdin:
            name = line.rstrip("\n")
            if name == "version":
                print(torch.__version__, flush=True)
                continue
            if name != prepared:
                run = None
                run = kinds[name.split()[0]](name)
                run()
                prepared = name
            begin = time.perf_counter()
            run()
            print(time.perf_counter() - begin, flush=True)


main()
