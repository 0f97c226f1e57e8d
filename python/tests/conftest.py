"""What the tests share: tiny models, a head, the command line's program."""
import json
import os
import pathlib
import struct
import subprocess

import numpy
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def write_layers(folder, layers, tensors):
    """A model as MeshNet's layer list: layers are (in, out, kernel, padding), tensors arrays by name."""
    folder.mkdir(parents=True, exist_ok=True)
    listed = [
        dict(in_channels=i, out_channels=o, kernel_size=k, padding=p, stride=1, dilation=1) for i, o, k, p in layers
    ]
    (folder / "model.json").write_text(json.dumps(dict(header="t", bnorm=False, bias=True, layers=listed)))
    header, data = {}, b""
    for name, values in tensors.items():
        values = numpy.asarray(values, "<f4")
        header[name] = dict(
            dtype="F32", shape=list(values.shape), data_offsets=[len(data), len(data) + values.nbytes]
        )
        data += values.tobytes()
    text = json.dumps(header).encode()
    (folder / "model.pth").write_bytes(struct.pack("<Q", len(text)) + text + data)
    return folder


@pytest.fixture(scope="session")
def thresholds(tmp_path_factory):
    """One convolution: class 1 from 1/4 of the range on, class 2 from 5/8 on."""
    weight = numpy.array([0, 1, 2]).reshape(3, 1, 1, 1, 1)
    return write_layers(
        tmp_path_factory.mktemp("thresholds"),
        [(1, 3, 1, 0)],
        {"model.0.weight": weight, "model.0.bias": [0, -0.25, -0.875]},
    )


@pytest.fixture(scope="session")
def two_layers(tmp_path_factory):
    """The folder of two convolutions with weights at random, and these weights."""
    random = numpy.random.default_rng(7)
    tensors = {
        "model.0.weight": random.normal(size=(5, 1, 3, 3, 3)),
        "model.0.bias": random.normal(size=5),
        "model.2.weight": random.normal(size=(3, 5, 1, 1, 1)),
        "model.2.bias": random.normal(size=3),
    }
    tensors = {name: numpy.asarray(values, "float32") for name, values in tensors.items()}
    folder = tmp_path_factory.mktemp("two_layers")
    return write_layers(folder, [(1, 5, 3, 1), (5, 3, 1, 0)], tensors), tensors


@pytest.fixture(scope="session")
def program():
    """Runs the command line with these arguments."""
    path = os.environ.get("GYRUS_PROGRAM", str(ROOT / "build/release/bin/gyrus"))

    def run(*arguments, **options):
        return subprocess.run([path, *map(str, arguments)], check=True, capture_output=True, text=True, **options)

    return run
