#!/usr/bin/env python3
"""The networks of bench/train.cpp in PyTorch on a CUDA device: one step (forward, backward, Adam), f32, TF32 off.
Prints a table: eager and torch.compile, with the most memory that was allocated."""
import sys

import torch
from torch import nn
from torch.nn import functional as F

STEPS = 8


class MeshNet(nn.Module):
    def __init__(self, channels=15, classes=3):
        super().__init__()
        dilations = [1, 2, 4, 8, 16, 8, 4, 2, 1]
        self.convs = nn.ModuleList(
            nn.Conv3d(1 if i == 0 else channels, channels, 3, padding=d, dilation=d, bias=False)
            for i, d in enumerate(dilations))
        self.head = nn.Conv3d(channels, classes, 1)

    def forward(self, x):
        for conv in self.convs:
            x = F.gelu(F.instance_norm(conv(x)))
        return self.head(x)


class Twice(nn.Sequential):
    def __init__(self, inputs, outputs):
        parts = []
        for i in range(2):
            parts += [nn.Conv2d(inputs if i == 0 else outputs, outputs, 3, padding=1, bias=False),
                      nn.GroupNorm(8, outputs), nn.SiLU()]
        super().__init__(*parts)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([Twice(1, 32), Twice(32, 64), Twice(64, 128)])
        self.middle = Twice(128, 256)
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * c, c, 2, stride=2, bias=False) for c in (128, 64, 32))
        self.join = nn.ModuleList(Twice(2 * c, c) for c in (128, 64, 32))
        self.head = nn.Conv2d(32, 3, 1)

    def forward(self, x):
        skipped = []
        for block in self.down:
            x = block(x)
            skipped.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for up, join in zip(self.up, self.join):
            x = join(torch.cat([skipped.pop(), up(x)], 1))
        return self.head(x)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.heads = width // 64
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        h = self.norm1(x)
        q, k, v = (p(h).view(batch, tokens, self.heads, 64).transpose(1, 2) for p in (self.q, self.k, self.v))
        seen = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def measure(model, loss, x, target, compiled):
    model = model().cuda()
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    run = torch.compile(lambda a, b: loss(model(a), b)) if compiled else lambda a, b: loss(model(a), b)
    torch.cuda.reset_peak_memory_stats()
    best = None
    for step in range(STEPS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        optimizer.zero_grad()
        run(x, target).backward()
        optimizer.step()
        end.record()
        torch.cuda.synchronize()
        if step > 2:
            best = min(best or 1e9, begin.elapsed_time(end))
    return best, torch.cuda.max_memory_allocated() / 2**20


def main():
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    cases = {}
    for n in (64, 128, 256):
        cases[f"meshnet {n}"] = (MeshNet, F.cross_entropy, lambda n=n: (
            torch.randn(1, 1, n, n, n, device="cuda"), torch.randint(3, (1, n, n, n), device="cuda")))
    cases["unet 8 x 256"] = (UNet, F.cross_entropy, lambda: (
        torch.randn(8, 1, 256, 256, device="cuda"), torch.randint(3, (8, 256, 256), device="cuda")))
    cases["encoder 8 x 512 x 768"] = (lambda: nn.Sequential(Block(768), Block(768)), F.mse_loss, lambda: (
        torch.randn(8, 512, 768, device="cuda"), torch.randn(8, 512, 768, device="cuda")))
    for name, (model, loss, data) in cases.items():
        if only not in name:
            continue
        for compiled in (False, True):
            x, target = data()
            ms, mib = measure(model, loss, x, target, compiled)
            print(f"{name:26} {ms:9.2f} ms   {mib:8.0f} MiB   {'compile' if compiled else 'eager'}", flush=True)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
