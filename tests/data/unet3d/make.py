"""A small 3-D U-Net as ONNX, two scans, and what sliding windows over them give.

make.py, with numpy and torch (Debian: python3-torch), writes beside itself:
  model.onnx     strided, grouped and transposed convolutions, instance norms, a skip; 2 channels, 3 classes
  gyrus.json     its manifest
  scan_0000.nii.gz, scan_0001.nii.gz
  labels.nii.gz, probability_1.nii.gz   by torch in float64, windows and weights as MONAI's sliding_window_inference

The results are made by torch and numpy alone; nothing of gyrus is used.
"""
import gzip
import json
import os
import struct

import numpy as np
import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
DIMS = (22, 14, 27)  # x, y, z; the second is smaller than the patch
PATCH = (16, 16, 16)
OVERLAP = 0.5
SIGMA = 0.125
random = np.random.default_rng(11)


# ---- ONNX, field by field -------------------------------------------------------------------------------------------


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def data(field, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def single(field, value):
    return varint(field << 3 | 5) + struct.pack("<f", value)


def attribute(name, value):
    if isinstance(value, float):
        return data(5, data(1, name) + single(2, value) + number(20, 1))
    if isinstance(value, int):
        return data(5, data(1, name) + number(3, value) + number(20, 2))
    return data(5, data(1, name) + b"".join(number(8, v) for v in value) + number(20, 7))


def node(op, inputs, output, **attributes):
    return data(
        1,
        b"".join(data(1, i) for i in inputs)
        + data(2, output)
        + data(4, op)
        + b"".join(attribute(k, v) for k, v in attributes.items()),
    )


def tensor(name, values):
    values = values.astype("<f4")
    return data(5, b"".join(number(1, n) for n in values.shape) + number(2, 1) + data(8, name) + data(9, values.tobytes()))


def value(field, name, dims):
    shape = b"".join(data(1, data(2, d) if isinstance(d, str) else number(1, d)) for d in dims)
    return data(field, data(1, name) + data(2, data(1, number(1, 1) + data(2, shape))))


# ---- the network, in both -------------------------------------------------------------------------------------------


class Network:
    """Every layer is written to the file and kept for torch."""

    def __init__(self):
        self.nodes, self.weights, self.steps = b"", b"", []

    def weight(self, name, shape):
        fan = float(np.prod(shape[1:]))
        values = (random.standard_normal(shape) * (2.0 / fan) ** 0.5).astype(np.float32)
        self.weights += tensor(name, values)
        return torch.from_numpy(values).double()

    def add(self, op, inputs, output, weights, compute, **attributes):
        self.nodes += node(op, inputs + [n for n, _ in weights], output, **attributes)
        tensors = [t for _, t in weights]
        self.steps.append((inputs, output, lambda *x: compute(*x, *tensors)))

    def conv(self, x, y, channels, out, kernel, stride=1, groups=1):
        w, b = self.weight(y + ".w", (out, channels // groups, *[kernel] * 3)), self.weight(y + ".b", (out,))
        pad = kernel // 2
        self.add(
            "Conv", [x], y, [(y + ".w", w), (y + ".b", b)],
            lambda v, w, b: F.conv3d(v, w, b, stride=stride, padding=pad, groups=groups),
            kernel_shape=[kernel] * 3, strides=[stride] * 3, pads=[pad] * 6, group=groups,
        )  # fmt: skip

    def up(self, x, y, channels, out, groups):
        w = self.weight(y + ".w", (channels, out // groups, 2, 2, 2))
        self.add(
            "ConvTranspose", [x], y, [(y + ".w", w)],
            lambda v, w: F.conv_transpose3d(v, w, stride=2, groups=groups),
            kernel_shape=[2] * 3, strides=[2] * 3, group=groups,
        )  # fmt: skip

    def norm(self, x, y, channels):
        g, b = self.weight(y + ".g", (channels,)), self.weight(y + ".b", (channels,))
        self.add(
            "InstanceNormalization", [x], y, [(y + ".g", g), (y + ".b", b)],
            lambda v, g, b: F.instance_norm(v, weight=g, bias=b, eps=1e-5), epsilon=1e-5,
        )  # fmt: skip

    def leaky(self, x, y):
        self.add("LeakyRelu", [x], y, [], lambda v: F.leaky_relu(v, 0.01), alpha=0.01)

    def run(self, image):
        values = {"image": image}
        for inputs, output, compute in self.steps:
            values[output] = compute(*[values[i] for i in inputs])
        return values["logits"]

    def file(self):
        any_size = ["n", 2, "x", "y", "z"]
        graph = self.nodes + data(2, "unet") + self.weights + value(11, "image", any_size)
        graph += value(12, "logits", ["n", 3, "x", "y", "z"])
        return number(1, 8) + data(2, "make.py") + data(7, graph) + data(8, data(1, "") + number(2, 17))


def block(net, x, y, channels, out, **how):
    net.conv(x, y + "c", channels, out, 3, **how)
    net.norm(y + "c", y + "n", out)
    net.leaky(y + "n", y)


def unet():
    net = Network()
    block(net, "image", "a", 2, 4)
    block(net, "a", "b", 4, 4, groups=2)
    block(net, "b", "c", 4, 8, stride=2)
    block(net, "c", "d", 8, 8, groups=4)
    block(net, "d", "e", 8, 12, stride=2)
    net.up("e", "u", 12, 8, groups=2)
    net.add("Concat", ["u", "d"], "ud", [], lambda u, d: torch.cat([u, d], 1), axis=1)
    block(net, "ud", "f", 16, 8)
    net.up("f", "v", 8, 4, groups=1)
    net.add("Concat", ["v", "b"], "vb", [], lambda v, b: torch.cat([v, b], 1), axis=1)
    block(net, "vb", "g", 8, 4)
    net.conv("g", "logits", 4, 3, 1)
    return net


# ---- MONAI's windows ------------------------------------------------------------------------------------------------


def starts(extent, patch):
    step = patch if extent == patch else max(1, int(patch * (1 - OVERLAP)))
    found = []
    for i in range(-(-extent // step)):
        found.append(i * step - max(i * step + patch - extent, 0))
        if i * step + patch >= extent:
            break
    return found


def importance():
    out = None
    for n in PATCH:
        x = torch.arange(-(n - 1) / 2, (n - 1) / 2 + 1, dtype=torch.float32)
        line = torch.exp(x**2 / (-2 * (n * SIGMA) ** 2))
        out = line if out is None else out.unsqueeze(-1) * line
    return torch.clamp(out, min=max(out.min().item(), 1e-3)).double()


def slide(net, image):
    pads = [max(p - n, 0) for p, n in zip(PATCH, image.shape[2:])]
    around = [q for p in reversed(pads) for q in (p // 2, p - p // 2)]
    image = F.pad(image, around)
    total, weight, window = torch.zeros(1, 3, *image.shape[2:]).double(), torch.zeros(image.shape[2:]).double(), importance()
    for a in starts(image.shape[2], PATCH[0]):
        for b in starts(image.shape[3], PATCH[1]):
            for c in starts(image.shape[4], PATCH[2]):
                box = (slice(a, a + PATCH[0]), slice(b, b + PATCH[1]), slice(c, c + PATCH[2]))
                total[(slice(None), slice(None), *box)] += net.run(image[(slice(None), slice(None), *box)]) * window
                weight[box] += window
    inside = tuple(slice(p // 2, p // 2 + n) for p, n in zip(pads, DIMS))
    return (total / weight)[(slice(None), slice(None), *inside)]


# ---- scans ----------------------------------------------------------------------------------------------------------


def write_nifti(name, values, code, bits):
    header = bytearray(352)
    struct.pack_into("<i", header, 0, 348)
    struct.pack_into("<8h", header, 40, 3, *values.shape, 1, 1, 1, 1)
    struct.pack_into("<2h", header, 70, code, bits)
    struct.pack_into("<8f", header, 76, 1, 1, 1, 1, 1, 1, 1, 1)
    struct.pack_into("<2f", header, 108, 352, 1)
    header[123] = 2
    struct.pack_into("<h", header, 254, 1)
    struct.pack_into("<12f", header, 280, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0)
    header[344:348] = b"n+1\0"
    with open(os.path.join(HERE, name), "wb") as out:
        out.write(gzip.compress(bytes(header) + values.tobytes(order="F"), 9, mtime=0))


def head(scale, offset):
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, n) for n in DIMS], indexing="ij"))
    r = np.sqrt((grid**2).sum(0))
    values = 400 * (r < 0.9) + 300 * (r < 0.6) - 350 * (r < 0.3) + 120 * random.standard_normal(DIMS)
    return np.where(r < 1.1, values * scale + offset, 0).astype(np.int16)


def main():
    net = unet()
    with open(os.path.join(HERE, "model.onnx"), "wb") as out:
        out.write(net.file())
    manifest = {
        "title": "A U-Net of random weights",
        "channels": ["T1w", "CT"],
        "normalize": ["zscore:nonzero", "window:-200,600,-1,1"],
        "patch": list(PATCH),
        "overlap": OVERLAP,
        "blend": "gaussian",
        "labels": ["background", "one", "two"],
    }
    with open(os.path.join(HERE, "gyrus.json"), "w") as out:
        out.write(json.dumps(manifest, indent=2) + "\n")
    scans = [head(1, 50), head(0.8, -100)]
    for i, scan in enumerate(scans):
        write_nifti(f"scan_{i:04}.nii.gz", scan, 4, 16)
    first, second = scans[0].astype(np.float64), scans[1].astype(np.float64)
    there = first != 0
    first[there] = (first[there] - first[there].mean()) / first[there].std()
    second = np.clip((second + 200) / 800 * 2 - 1, -1, 1)
    logits = slide(net, torch.from_numpy(np.stack([first, second])[None]))
    write_nifti("labels.nii.gz", logits[0].argmax(0).numpy().astype(np.uint8), 2, 8)
    probability = torch.softmax(logits, 1)[0]
    write_nifti("probability_1.nii.gz", probability[1].numpy().astype(np.float32), 16, 32)
    two = torch.sort(logits[0], 0).values
    counts = torch.bincount(logits[0].argmax(0).flatten(), minlength=3).tolist()
    print("labels", counts, "closest", float((two[2] - two[1]).min()))


if __name__ == "__main__":
    main()
