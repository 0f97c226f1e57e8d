"""Any network that gyrus reads."""
from __future__ import annotations

import os
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence, Union

import numpy

from gyrus import _gyrus


class Port(NamedTuple):
    """An input or output of a network."""

    dtype: numpy.dtype[Any]
    shape: tuple[int, ...]


def _ports(rows: Optional[list[tuple[str, str, tuple[int, ...]]]]) -> Optional[dict[str, Port]]:
    if rows is None:
        return None
    return {name: Port(numpy.dtype(dtype), shape) for name, dtype, shape in rows}


class Network:
    """A network on a GPU, for inputs of any shapes that it can take; load() makes one.

    Any thread may call it; runs of one network take turns, runs of several go side by side.
    """

    def __init__(self, native: _gyrus.Network) -> None:
        self._native = native

    def run(
        self,
        inputs: Mapping[str, Any],
        *,
        outputs: Optional[Sequence[str]] = None,
        arguments: Optional[Mapping[str, float]] = None,
        progress: Optional[Callable[[float], Optional[bool]]] = None,
    ) -> dict[str, numpy.ndarray[Any, Any]]:
        """The outputs by name, as arrays.

        inputs: an array, or what numpy makes one of, for each input. Element types are the network's: nothing is
            converted. Arrays are copied once, whatever their strides; results not at all.
        outputs: those to read back; all unless given.
        arguments: a number for each argument of the network, where it has any.
        progress: called while the run goes on with the part that is done; returning False cancels it.

        The first run with new shapes plans for them; the plans used last are kept.
        """
        arrays = {name: numpy.asarray(array) for name, array in inputs.items()}
        return self._native.run(arrays, outputs, arguments or {}, progress)

    @property
    def inputs(self) -> Optional[dict[str, Port]]:
        """The inputs by name, in the shapes that were planned for last; None where no shapes are known yet."""
        return _ports(self._native.inputs)

    @property
    def outputs(self) -> Optional[dict[str, Port]]:
        """The outputs by name, as inputs."""
        return _ports(self._native.outputs)

    @property
    def device(self) -> str:
        """The name of the device."""
        return self._native.device


def load(
    path: Union[str, os.PathLike[str]],
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    device: Union[str, int] = "",
    *,
    precision: str = "f32",
    check_finite: bool = False,
) -> Network:
    """The network of a model's files: a folder, a file of it, or a name in the store.

    shapes: of inputs, by name, where the model leaves them open; unless given, those of the arrays that come.
    device: "" the best, "N" by its place in devices(), else part of its name.
    precision: how feature maps are stored: "f32" or "f16". Arithmetic is f32.
    check_finite: test every value; the first that is infinite or not a number is an Error that names its node.

    Models for volumes take "image", float32 [1, channels, z, y, x], and give "logits", [1, classes, z, y, x]. Raises Error.
    """
    return Network(_gyrus.Network(os.fspath(path), dict(shapes or {}), str(device), precision, check_finite))
