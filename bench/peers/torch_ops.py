#!/usr/bin/env python3
"""The ops of bench/ops.cpp that transformers are made of, in PyTorch on a CUDA device: f32, TF32 off. Prints a table."""
import torch

REPEATS = 20


def milliseconds(run):
    for _ in range(3):
        run()
    times = []
    for _ in range(REPEATS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return min(times)


class Block(torch.nn.Module):
    """As the encoder of bench/ops.cpp: normalised first, heads of 64."""

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


def main():
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    rows = torch.randn(8192, 4096, device="cuda")
    heads = torch.randn(1, 16, 4096, 64, device="cuda")
    square = torch.randn(4096, 4096, device="cuda")
    attention = torch.nn.functional.scaled_dot_product_attention
    cases = {
        "copy 8192 x 4096": lambda: rows.clone(),
        "softmax 8192 x 4096": lambda: torch.softmax(rows, -1),
        "log_softmax 8192 x 4096": lambda: torch.log_softmax(rows, -1),
        "layer_norm 8192 x 4096": lambda: torch.nn.functional.layer_norm(rows, (4096,)),
        "attention 16 x 4096 x 64": lambda: attention(heads, heads, heads),
        "attention causal 16 x 4096 x 64": lambda: attention(heads, heads, heads, is_causal=True),
        "matmul 4096^3": lambda: square @ square,
    }
    for length in (256, 1000, 4096, 65536, 65537):
        numbers = torch.randn((1 << 24) // length, length, dtype=torch.complex64, device="cuda")
        cases[f"fft {numbers.shape[0]} x {length}"] = lambda numbers=numbers: torch.fft.fft(numbers)
    signal = torch.randn((1 << 24) // 400, 400, device="cuda")
    cases[f"rfft {signal.shape[0]} x 400"] = lambda: torch.fft.rfft(signal)
    for inner, outer in ((768, 768), (768, 2304), (768, 3072), (3072, 768)):
        layer, given = torch.nn.Linear(inner, outer).cuda(), torch.randn(512, inner, device="cuda")
        cases[f"linear 512 x {inner} to {outer}"] = lambda layer=layer, given=given: layer(given)
    encoder = torch.nn.Sequential(*(Block(768) for _ in range(12))).cuda().eval()
    compiled = torch.compile(encoder)
    tokens = torch.randn(1, 512, 768, device="cuda")
    cases["encoder 12 x 512 x 768, eager"] = lambda: encoder(tokens)
    cases["encoder 12 x 512 x 768, compile"] = lambda: compiled(tokens)
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}")
    with torch.no_grad():
        for name, run in cases.items():
            print(f"{name:34s} {milliseconds(run):9.3f} ms", flush=True)


if __name__ == "__main__":
    main()
