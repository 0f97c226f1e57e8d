#!/usr/bin/env python3
"""gyrus's kernels on the CPU beside PyTorch's, in one run and in turns; the least time of each counts.

  bench/cpu.py [--root ROOT] [--threads 2] [--rounds 7] [--only TEXT]

Needs build/release/bench/cpu (ninja target cpu). PyTorch is this system's, or that of another root: Debian 13's, which is
faster than Debian 12's, comes with
  debootstrap --variant=minbase trixie ROOT && mount --bind /proc ROOT/proc && mount --bind /dev ROOT/dev
  chroot ROOT apt-get install --no-install-recommends python3-torch python3-numpy libopenblas0-pthread
(without the last its matrix products are those of the reference BLAS, some thirty times slower)
Without PyTorch gyrus is measured alone."""
import argparse
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
PEAK = "multiply-add"


class Contestant:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def seconds(self, name):
        return float(self.ask(name))


def torch_of(arguments):
    command = ["chroot", arguments.root] if arguments.root else []
    if subprocess.run(command + ["python3", "-c", "import torch"], capture_output=True).returncode != 0:
        return None
    text = (HERE / "peers" / "torch_cpu.py").read_text()
    return Contestant(command + ["python3", "-c", text, str(arguments.threads)])


def cases_of(gyrus):
    gyrus.process.stdin.write("list\n")
    gyrus.process.stdin.flush()
    cases = {}
    while line := gyrus.process.stdout.readline().rstrip("\n"):
        name, flops = line.split("\t")
        cases[name] = float(flops)
    return cases


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", help="a root with PyTorch")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="cases whose name contains it")
    arguments = parser.parse_args()
    program = HERE.parent / "build" / "release" / "bench" / "cpu"
    gyrus = Contestant([str(program), "--threads", str(arguments.threads), "--serve"])
    peer = torch_of(arguments)
    cases = cases_of(gyrus)
    peak = cases[PEAK] / min(gyrus.seconds(PEAK) for _ in range(10 * arguments.rounds)) * 1e-9
    print(f"multiply-adds in registers, {arguments.threads} threads: {peak:.1f} GFLOP/s")
    print(f"PyTorch {peer.ask('version')}" if peer else "no PyTorch")
    print(f"{'':44s} {'gyrus':>22s} {'of peak':>8s} {'PyTorch':>22s} {'gyrus is':>9s}")
    for name, flops in cases.items():
        if name == PEAK or arguments.only not in name:
            continue
        # Other work may slow this down as well: the best of all rounds counts.
        peak = max(peak, cases[PEAK] / min(gyrus.seconds(PEAK) for _ in range(10)) * 1e-9)
        ours, theirs = [], []
        for _ in range(arguments.rounds):
            ours.append(gyrus.seconds(name))
            if peer:
                theirs.append(peer.seconds(name))
        rate = flops / min(ours) * 1e-9
        row = f"{name:44s} {min(ours) * 1e3:8.2f} ms {rate:5.0f} GF/s {100 * rate / peak:6.0f} %"
        if peer:
            row += f" {min(theirs) * 1e3:8.2f} ms {flops / min(theirs) * 1e-9:5.0f} GF/s {min(theirs) / min(ours):6.2f} x"
        print(row, flush=True)
    print(f"multiply-adds in registers, best of all rounds: {peak:.1f} GFLOP/s")


if __name__ == "__main__":
    main()
