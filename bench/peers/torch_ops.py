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
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}")
    for name, run in cases.items():
        print(f"{name:34s} {milliseconds(run):9.3f} ms")


if __name__ == "__main__":
    main()
