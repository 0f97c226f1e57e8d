"""ONNX models through gyrus.load: one made here, and real ones with stored outputs where the test data lies."""
import os
import pathlib

import gyrus
import numpy
import pytest

from conftest import ROOT

MODELS = pathlib.Path(os.environ.get("GYRUS_TEST_DATA", ROOT / "../shared/data")) / "onnx/models"
TYPES = {1: "<f4", 6: "<i4", 7: "<i8", 9: "?"}  # TensorProto.DataType


# The wire format of protocol buffers: numbers, and fields that are numbers or bytes.
def number(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def field(key, value):
    if isinstance(value, int):
        return number(key << 3) + number(value)
    value = value.encode() if isinstance(value, str) else value
    return number(key << 3 | 2) + number(len(value)) + value


def fields(data):
    at = 0

    def take():
        nonlocal at
        value = shift = 0
        while True:
            byte, at = data[at], at + 1
            value, shift = value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(data):
        key = take()
        value = take()
        if key & 7 == 2:
            value, at = data[at : at + value], at + value
        yield key >> 3, value


def read_tensor(path):
    """(name, array) of a TensorProto with raw data."""
    dims, found = [], {9: b""}
    for key, value in fields(path.read_bytes()):
        if key == 1:
            dims.append(value)
        else:
            found[key] = value
    return found[8].decode(), numpy.frombuffer(found[9], TYPES[found[2]]).reshape(dims)


@pytest.fixture(scope="session")
def relu_of_sum(tmp_path_factory):
    """y = relu(a + b), a [n, 3], b [3], float32."""

    def port(name, *extents):
        dims = b"".join(field(1, field(2, e) if isinstance(e, str) else field(1, e)) for e in extents)
        return field(1, name) + field(2, field(1, field(1, 1) + field(2, dims)))

    nodes = field(1, field(1, "a") + field(1, "b") + field(2, "sum") + field(4, "Add"))
    nodes += field(1, field(1, "sum") + field(2, "y") + field(4, "Relu"))
    ports = field(11, port("a", "n", 3)) + field(11, port("b", 3)) + field(12, port("y", "n", 3))
    path = tmp_path_factory.mktemp("onnx") / "model.onnx"
    path.write_bytes(field(1, 8) + field(7, nodes + field(2, "g") + ports) + field(8, field(2, 17)))
    return path


def test_extents_that_are_open_come_with_the_arrays(relu_of_sum):
    network = gyrus.load(relu_of_sum)
    b = numpy.array([1, -2, 0.5], "float32")
    for rows in (4, 1, 7, 4):
        a = numpy.random.default_rng(rows).normal(size=(rows, 3)).astype("float32")
        found = network.run({"a": a, "b": b})
        assert list(found) == ["y"] and numpy.array_equal(found["y"], numpy.maximum(a + b, 0))
    with pytest.raises(gyrus.Error) as caught:
        network.run({"a": a})
    assert caught.value.code == "invalid-input"
    assert gyrus.load(relu_of_sum, {"a": [2, 3]}).outputs["y"].shape == (2, 3)


def test_broken_files_are_refused(relu_of_sum, tmp_path):
    (tmp_path / "model.onnx").write_bytes(relu_of_sum.read_bytes()[:-30])
    with pytest.raises(gyrus.Error) as caught:
        gyrus.load(tmp_path / "model.onnx")
    assert caught.value.code == "invalid-model"


@pytest.mark.parametrize("name", ["multiaxial-consensus", "detect-ultraface", "text-magika", "llm-tiny-gpt2"])
def test_outputs_equal_the_stored_ones(name):
    if not (MODELS / name).exists():
        pytest.skip(f"{MODELS / name} is not there")
    network = gyrus.load(MODELS / name / "model.onnx")
    for data in sorted((MODELS / name).glob("test_data_set_*")):
        wanted = dict(read_tensor(path) for path in data.glob("output_*.pb"))
        found = network.run(dict(read_tensor(path) for path in data.glob("input_*.pb")))
        assert found.keys() == wanted.keys()
        for output, values in wanted.items():
            assert found[output].dtype == values.dtype and found[output].shape == values.shape
            # What ORIGIN.md of the models says of onnxruntime itself.
            numpy.testing.assert_allclose(found[output], values, rtol=1e-3, atol=1e-4)
