"""Devices, the version and errors."""
import pickle
import re

import gyrus
import numpy
import pytest

from conftest import ROOT


def test_devices():
    found = gyrus.devices()
    assert found, "no adapter: the tests need one, a software driver will do"
    assert [device.index for device in found] == list(range(len(found)))
    assert found[0].name and found[0].backend
    assert found[0].type in ("discrete", "integrated", "other", "cpu", "software")
    assert found[0].name in repr(found[0])


def test_version_is_the_projects():
    assert gyrus.version == gyrus.__version__
    text = (ROOT / "CMakeLists.txt").read_text()
    assert re.search(r"project\(gyrus VERSION ([0-9.]+)", text).group(1) == gyrus.version


def test_errors_have_code_and_hints(thresholds):
    with pytest.raises(gyrus.Error, match="no model is there") as caught:
        gyrus.load("/nowhere/at/all")
    assert caught.value.code == "io"
    with pytest.raises(gyrus.Error) as caught:
        gyrus.Segmenter(thresholds, normalize="none").run(numpy.full((4, 4, 4), 0.1, "float32"))
    assert caught.value.code == "invalid-input"
    with pytest.raises(gyrus.Error) as caught:
        gyrus.Segmenter("mindgrab-that-nobody-has")
    assert caught.value.code == "io" and isinstance(caught.value.hints, tuple)
    with pytest.raises(gyrus.Error) as caught:
        gyrus.load(thresholds, device="no such device")
    assert caught.value.code == "device"
    with pytest.raises(gyrus.Error, match="expected") as caught:
        gyrus.load(thresholds, precision="auto")
    assert caught.value.code == "invalid-input"


def test_errors_can_be_pickled():
    error = gyrus.Error("over-limits", "[x] too large", ["half-precision"], True)
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.code, str(copy), copy.hints, copy.state_changed) == (
        "over-limits", "[x] too large", ("half-precision",), True)
