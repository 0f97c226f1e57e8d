"""Small scans and a tiny model for tests that are no C++ programs. Needs nothing but Python.

As a program: tiny_data.py FOLDER COUNT writes FOLDER/model, FOLDER/scan0.nii.gz … and FOLDER/scans.txt.
"""
import gzip
import json
import os
import random
import struct
import sys


def write_model(folder):
    """Two layers that make three classes of intensities: below 0.25, to 0.6, above."""
    os.makedirs(folder, exist_ok=True)
    layers = [(1, 2, 3, 1), (2, 3, 1, 0)]  # channels in and out, kernel, padding
    listed = [
        {"in_channels": i, "out_channels": o, "kernel_size": k, "padding": p, "stride": 1, "dilation": 1}
        for i, o, k, p in layers
    ]
    document = {"header": "test", "bnorm": False, "bias": True, "dropout_p": 0, "layers": listed}
    with open(os.path.join(folder, "model.json"), "w") as out:
        json.dump(document, out)
    centre = [1.0 if i == 13 else 0.0 for i in range(27)]
    tensors = {
        "model.0.weight": ([2, 1, 3, 3, 3], centre + [0.0] * 27),
        "model.0.bias": ([2], [0.0, 0.0]),
        "model.2.weight": ([3, 2, 1, 1, 1], [0.0, 0.0, 10.0, 0.0, 20.0, 0.0]),
        "model.2.bias": ([3], [0.0, -2.5, -8.5]),
    }
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        begin = len(data)
        data += struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.pth"), "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)


def write_scan(path, side, seed):
    """A ball in a ball with noise, uint8, 1 mm."""
    noise = random.Random(seed)
    voxels = bytearray()
    middle = (side - 1) / 2
    for i in range(side**3):
        x, y, z = i % side, i // side % side, i // side**2
        r = ((x - middle) ** 2 + (y - middle) ** 2 + (z - middle) ** 2) ** 0.5 / side
        voxels.append((220 if r < 0.2 else 120 if r < 0.4 else 20) + noise.randrange(20))
    header = bytearray(352)
    struct.pack_into("<i", header, 0, 348)
    struct.pack_into("<8h", header, 40, 3, side, side, side, 1, 1, 1, 1)
    struct.pack_into("<2h", header, 70, 2, 8)  # uint8
    struct.pack_into("<8f", header, 76, 1, 1, 1, 1, 1, 1, 1, 1)
    struct.pack_into("<2f", header, 108, 352, 1)  # where the voxels begin, slope
    header[123] = 2  # mm
    struct.pack_into("<h", header, 254, 1)
    struct.pack_into("<12f", header, 280, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0)
    header[344:348] = b"n+1\0"
    with open(path, "wb") as out:
        out.write(gzip.compress(bytes(header + voxels), 1))


if __name__ == "__main__":
    target, count = sys.argv[1], int(sys.argv[2])
    write_model(os.path.join(target, "model"))
    scans = [os.path.join(target, f"scan{i}.nii.gz") for i in range(count)]
    for number, scan in enumerate(scans):
        write_scan(scan, 16, number)
    with open(os.path.join(target, "scans.txt"), "w") as listing:
        listing.write("# scans\n" + "\n".join(scans) + "\n")
