#!/usr/bin/env python3
"""gyrus and every peer that is installed, on the same volume in the same run: `make bench`.

    bench/run.py [--programs DIR] [--data DIR] [--only NAME,…] [--size 48|64|256] [--seconds S] [--quick]
                 [--skip-ops] [--out FILE]

DIR of --programs holds the benchmark programs (build/release/bench, or a bundle); DIR of --data the models and volumes
(shared/data/README.md of the test data). On a software adapter the volume is a crop, else the whole 256^3 scan. Prints
one table of times and ratios and writes everything to build/bench-results.json.
"""
import argparse
import gzip
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Peer: the module that it needs, its script beside this file.
PEERS = {"torch": "torch_meshnet.py"}
QUICK_MODELS = "mindgrab,model5_gw_ae"


def find(name, candidates):
    for path in candidates:
        if path and os.path.exists(path):
            return path
    sys.exit(f"bench: no {name}; looked at {', '.join(c for c in candidates if c)}")


def python_with(*modules):
    """An interpreter that has these modules, or None."""
    for python in (sys.executable, "python3", "/usr/bin/python3"):
        found = shutil.which(python)
        imports = "; ".join(f"import {module}" for module in modules)
        if found and subprocess.run([found, "-c", imports], capture_output=True).returncode == 0:
            return found
    return None


def nifti_of_crop(crop, size, path):
    """A raw cube of bytes as the single-file NIfTI-1 that all programs read."""
    header = bytearray(352)
    struct.pack_into("<i", header, 0, 348)
    struct.pack_into("<8h", header, 40, 3, size, size, size, 1, 1, 1, 1)
    struct.pack_into("<hh", header, 70, 2, 8)
    struct.pack_into("<8f", header, 76, 1, 1, 1, 1, 1, 1, 1, 1)
    struct.pack_into("<3f", header, 108, 352, 1, 0)
    struct.pack_into("<hh", header, 252, 0, 1)
    for i, row in enumerate(((-1, 0, 0, size / 2), (0, 0, 1, -size / 2), (0, -1, 0, size / 2))):
        struct.pack_into("<4f", header, 280 + 16 * i, *row)
    header[344:348] = b"n+1\0"
    with open(path, "wb") as file:
        file.write(bytes(header) + crop)


def prepare_input(data, size, folder):
    """(volume, folder of reference labels) of that size."""
    if size == 256:
        full = os.path.join(data, "reference", "full")
        volume = find("volume", [os.path.join(data, "volumes", "t1_crop.nii.gz"), os.path.join(data, "t1_crop.nii.gz")])
        return volume, full if os.path.isdir(full) else ""
    crops = os.path.join(data, "reference", "crops")
    volume = os.path.join(folder, f"crop{size}.nii")
    with open(os.path.join(crops, f"crop{size}.u8"), "rb") as file:
        nifti_of_crop(file.read(), size, volume)
    for name in os.listdir(crops):
        if name.startswith("labels_") and name.endswith(f"_crop{size}.u8"):
            with open(os.path.join(crops, name), "rb") as file, gzip.open(os.path.join(folder, name + ".gz"), "wb", 1) as out:
                out.write(file.read())
    return volume, folder


def call(command, results, what):
    """Runs a program that writes JSON to the file `results`; what it wrote, or an empty record."""
    print(f"\n{what}", flush=True)
    status = subprocess.run(command).returncode
    record = {"results": []}
    if os.path.exists(results):
        with open(results) as file:
            record = json.load(file)
    if status != 0:
        print(f"bench: {what} ended with status {status}")
        record["status"] = status
    return record


def run_gyrus(arguments, volume, reference, folder):
    results = os.path.join(folder, "gyrus.json")
    command = [os.path.join(arguments.programs, "models"), volume, os.path.join(arguments.data, "models"), "--json", results,
               "--repeat", str(arguments.repeat)]
    command += ["--reference", reference] if reference else []
    command += ["--only", arguments.only] if arguments.only else []
    return call(command, results, "gyrus")


def run_peer(name, arguments, volume, reference, folder):
    python = python_with("numpy", name)
    if not python:
        print(f"\n{name}: not installed here")
        return {"results": [], "missing": True}
    results = os.path.join(folder, name + ".json")
    script = os.path.join(ROOT, "bench", "peers", PEERS[name])
    command = [python, "-B", script, volume, os.path.join(arguments.data, "models"), "--json", results, "--repeat",
               str(arguments.repeat), "--budget", str(arguments.budget), "--modes", arguments.modes, "--total",
               str(max(0.0, arguments.seconds - (time.time() - arguments.started)))]
    command += ["--reference", reference] if reference else []
    command += ["--only", arguments.only] if arguments.only else []
    return call(command, results, name)


def run_program(program, arguments, folder):
    """One of the programs that need no data; its JSON, or nothing where it was not built."""
    path = os.path.join(arguments.programs, program)
    if not os.path.exists(path):
        return None
    results = os.path.join(folder, program + ".json")
    return call([path, "--json", results] + (["--quick"] if arguments.quick else []), results, program)


def print_ratios(runs):
    """A line for each model and precision: gyrus, then every peer with its time over that of gyrus."""
    rows = {}
    for run in runs.values():
        for record in run["results"]:
            key = record["peer"] if record["peer"] != "gyrus" or record["limits"] == "adapter" else "default limits"
            rows.setdefault((record["model"], record["precision"]), {})[key] = record
    columns = []
    for row in rows.values():
        columns += [name for name in row if name not in columns and name != "gyrus"]
    print("\nNetwork and argmax, ms: median (least to most); peers: median, times slower than gyrus\n")
    print(f"{'model':18} {'':4} {'gyrus':>26}" + "".join(f"{name:>24}" for name in columns))
    for (model, precision), row in sorted(rows.items()):
        if "gyrus" not in row:
            continue
        own = row["gyrus"]
        line = f"{model:18} {precision:4} {own['ms']:8.2f} ({own['min_ms']:.2f} to {own['max_ms']:.2f})".ljust(50)
        for name in columns:
            record = row.get(name, {})
            text = "failed" if "error" in record else f"{record['ms']:.2f} {record['ms'] / own['ms']:6.2f}x" if record else "-"
            line += f"{text:>24}"
        print(line)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs")
    parser.add_argument("--data")
    parser.add_argument("--only", default="")
    parser.add_argument("--size", type=int, choices=(48, 64, 256))
    parser.add_argument("--repeat", type=int)
    parser.add_argument("--modes", default="eager_f32,compile_f32,eager_f16,compile_f16", help="of PyTorch")
    parser.add_argument("--budget", type=float, default=120, help="seconds for one mode of one model of a peer")
    parser.add_argument("--seconds", type=float, default=3600, help="in all; peers begin nothing after it")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_MODELS} and fewer shapes")
    parser.add_argument("--skip-ops", action="store_true", help="only the models")
    parser.add_argument("--out", default=os.path.join(ROOT, "build", "bench-results.json"))
    arguments = parser.parse_args()
    builds = [os.path.join(ROOT, "build", name) for name in ("release/bench", "bench/bench", "bundle")]
    arguments.programs = find("benchmark programs", [arguments.programs] if arguments.programs else builds)
    arguments.only = arguments.only or (QUICK_MODELS if arguments.quick else "")
    return arguments


def find_data(arguments):
    candidates = [arguments.data, os.environ.get("GYRUS_TEST_DATA"), os.path.join(ROOT, "..", "shared", "data"),
                  os.path.join(ROOT, "local", "data")]
    return next((c for c in candidates if c and os.path.isdir(os.path.join(c, "models"))), None)


def save(arguments, report):
    """After every stage, so that what is done survives whatever comes."""
    report["seconds"] = time.time() - arguments.started
    os.makedirs(os.path.dirname(os.path.abspath(arguments.out)), exist_ok=True)
    with open(arguments.out + ".part", "w") as file:
        json.dump(report, file, indent=1)
    os.replace(arguments.out + ".part", arguments.out)


def run_all(arguments, software, report, folder):
    """gyrus, then its ops and scaling, then the peers, which take longest."""
    runs = report["runs"] = {}
    arguments.data = find_data(arguments)
    if arguments.data:
        arguments.repeat = arguments.repeat or (3 if software else 5)
        volume, reference = prepare_input(arguments.data, arguments.size or (48 if software else 256), folder)
        runs["gyrus"] = run_gyrus(arguments, volume, reference, folder)
        save(arguments, report)
    else:
        print("bench: no models; set GYRUS_TEST_DATA to a folder with models/ and volumes/")
    for program in () if arguments.skip_ops else ("ops", "scaling"):
        report[program] = run_program(program, arguments, folder)
        save(arguments, report)
    for name in PEERS if arguments.data else ():
        runs[name] = run_peer(name, arguments, volume, reference, folder)
        save(arguments, report)
    print_ratios(runs)


def main():
    arguments = parse_arguments()
    arguments.started = time.time()
    shown = subprocess.run([os.path.join(arguments.programs, "models"), "--adapter"], capture_output=True, text=True)
    if shown.returncode != 0:
        sys.exit(f"bench: {shown.stderr.strip()}")
    adapter = json.loads(shown.stdout.strip().splitlines()[-1])
    print(f"bench: {adapter['device']}")
    report = {"adapter": adapter}
    with tempfile.TemporaryDirectory() as folder:
        run_all(arguments, adapter["type"] == "software", report, folder)
    print(f"\nbench: {arguments.out}, {report['seconds']:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
