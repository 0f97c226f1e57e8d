#!/usr/bin/env python3
"""PyTorch on the same networks and the same volume: eager and compiled, f32 (TF32 off) and f16.

    torch_meshnet.py VOLUME MODELS_DIR [--only NAME,…] [--modes eager_f32,compile_f32,eager_f16,compile_f16]
                     [--reference DIR] [--repeat N] [--budget SECONDS] [--total SECONDS] [--json FILE] [--dry-run]

Times the network and its argmax with the input already on the device: warm-ups, then the median of N runs. What fails
(no memory, no compiler, out of its budget of seconds) is reported and the next one is tried. --dry-run needs no torch:
it loads everything and, for volumes of at most 64^3, runs in numpy and compares labels.
"""
import argparse
import json
import os
import signal
import statistics
import sys
import time

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import meshnet_files as files  # noqa: E402

MODES = ("eager_f32", "compile_f32", "eager_f16", "compile_f16")
WARM_UPS = 3
DRY_RUN_VOXELS = 64**3


class OutOfTime(BaseException):
    """No Exception, so that the compiler, which survives most of those, does not survive this one."""


def within(seconds, body):
    """body(), interrupted by OutOfTime after so many seconds."""

    def ring(*_):
        raise OutOfTime(f"more than {seconds:g} s")

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return body()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def build(torch, layers):
    nn = torch.nn
    activations = {"relu": nn.ReLU, "elu": nn.ELU, "gelu": nn.GELU, "linear": nn.Identity}
    modules = []
    for layer in layers:
        out, into = layer.weight.shape[:2]
        conv = nn.Conv3d(into, out, layer.weight.shape[2:], padding=layer.padding, dilation=layer.dilation,
                         bias=layer.bias is not None)
        conv.weight.data = torch.from_numpy(np.array(layer.weight))
        if layer.bias is not None:
            conv.bias.data = torch.from_numpy(np.array(layer.bias))
        modules.append(conv)
        if layer.norm:
            modules.append(nn.GroupNorm(out, out, affine=False))
        modules.append(activations[layer.activation]())

    class Labels(nn.Module):
        def __init__(self):
            super().__init__()
            self.network = nn.Sequential(*modules)

        def forward(self, image):
            return self.network(image).argmax(1).to(torch.uint8)

    return Labels().eval()


def timed(torch, device, run):
    """Milliseconds of run() on the device."""
    if device != "cuda":
        start = time.perf_counter()
        run()
        return (time.perf_counter() - start) * 1e3
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def measure(torch, device, layers, image, mode, repeat):
    """A record of one mode, and its labels."""
    kind, precision = mode.split("_")
    network = build(torch, layers).to(device)
    tensor = torch.from_numpy(image)[None, None].to(device)
    if precision == "f16":
        network, tensor = network.half(), tensor.half()
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    run = torch.compile(network) if kind == "compile" else network
    with torch.inference_mode():
        labels = run(tensor)
        if device == "cuda":
            torch.cuda.synchronize()
        first = time.perf_counter() - start
        for _ in range(WARM_UPS - 1 if device == "cuda" else 0):
            run(tensor)
        times = [timed(torch, device, lambda: run(tensor)) for _ in range(repeat)]
    record = {"ms": statistics.median(times), "min_ms": min(times), "max_ms": max(times), "first_s": first}
    if device == "cuda":
        record["memory_mib"] = torch.cuda.max_memory_allocated() / 2**20
    return record, labels[0].cpu().numpy()


def release(torch, device):
    torch._dynamo.reset()
    if device == "cuda":
        torch.cuda.empty_cache()


def tasks_of(names, modes):
    """(model, mode), what matters most first: all of the first model, then f32, then f16."""
    pairs = [(name, mode) for name in names for mode in modes]
    return sorted(pairs, key=lambda pair: pair[0] != names[0] and pair[1].endswith("f16"))


def run_task(torch, device, name, mode, arguments, voxels):
    """The record of one model in one mode; what fails is a result too."""
    record = {"peer": "torch " + mode[: mode.index("_")], "model": name, "precision": mode[-3:]}
    try:
        layers = files.load_model(os.path.join(arguments.models, name))
        image = files.normalized(name, voxels)
        numbers, labels = within(arguments.budget,
                                 lambda: measure(torch, device, layers, image, mode, arguments.repeat))
        want = files.reference_labels(arguments.reference, name, voxels.shape)
        record.update(numbers)
        record["foreground"] = int((labels != 0).sum())
        record["different"] = -1 if want is None else int((labels != want).sum())
        print(f"{name:18} {mode:12} {record['ms']:9.2f} ms ({record['min_ms']:.2f} to {record['max_ms']:.2f}), "
              f"first {record['first_s']:.1f} s, {record['different']} labels differ", flush=True)
    except (Exception, OutOfTime) as error:
        lines = str(error).strip().splitlines()
        record["error"] = f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]
        print(f"{name:18} {mode:12} failed: {record['error']}", flush=True)
    release(torch, device)
    return record


def dry_run(arguments, voxels, names):
    bad = 0
    for name in names:
        layers = files.load_model(os.path.join(arguments.models, name))
        text = f"{name:18} {len(layers)} layers, {layers[0].weight.shape[0]} channels, " \
               f"{layers[-1].weight.shape[0]} classes, {files.flops(layers, voxels.size) / 1e12:.3f} TFLOP"
        want = files.reference_labels(arguments.reference, name, voxels.shape)
        if voxels.size <= DRY_RUN_VOXELS:
            labels = files.run_numpy(layers, files.normalized(name, voxels))
            if want is not None:
                different = int((labels != want).sum())
                bad += different > voxels.size // 1000
                text += f", {different} of {voxels.size} labels differ from the reference"
        print(text, flush=True)
    return 1 if bad else 0


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("volume")
    parser.add_argument("models")
    parser.add_argument("--only", default="")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--reference", default="")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--budget", type=float, default=120, help="seconds for one mode of one model")
    parser.add_argument("--total", type=float, default=3600, help="seconds after which no further mode is begun")
    parser.add_argument("--json", default="")
    parser.add_argument("--dry-run", action="store_true")
    arguments = parser.parse_args()
    arguments.modes = arguments.modes.split(",")
    unknown = [mode for mode in arguments.modes if mode not in MODES]
    if unknown:
        parser.error(f"{unknown[0]} is none of {', '.join(MODES)}")
    return arguments


def main():
    arguments = parse_arguments()
    voxels = files.read_volume(arguments.volume)
    names = arguments.only.split(",") if arguments.only else sorted(os.listdir(arguments.models))
    if arguments.dry_run:
        return dry_run(arguments, voxels, names)
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    title = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    print(f"PyTorch {torch.__version__} on {title}, volume {'x'.join(map(str, voxels.shape))}", flush=True)
    result = {"version": torch.__version__, "device": title, "shape": list(voxels.shape), "results": []}
    started = time.time()
    for name, mode in tasks_of(names, arguments.modes):
        if device == "cpu" and mode.endswith("f16"):
            continue  # PyTorch has no fast half precision there
        if time.time() - started > arguments.total:
            print(f"{name:18} {mode:12} not run: no time left", flush=True)
            continue
        result["results"].append(run_task(torch, device, name, mode, arguments, voxels))
        if arguments.json:  # after each, so that what is done survives whatever comes
            with open(arguments.json, "w") as file:
                json.dump(result, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
