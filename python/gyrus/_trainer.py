"""Training."""
from __future__ import annotations

import os
import pathlib
from dataclasses import asdict, dataclass, field
from typing import Any, Callable, Mapping, Optional, Sequence, Union

import numpy

from gyrus import _gyrus


@dataclass(frozen=True)
class MeshNet:
    """A network to train from nothing: a convolution of 3 taps along each axis, an instance norm, a ReLU and dropout for
    each dilation, then one of 1 tap. Its input is "image", [N, C, spatial...], its output "logits"."""

    classes: int
    channels: int = 15
    dilations: Sequence[int] = (1, 2, 4, 8, 16, 8, 4, 2, 1)
    dropout: float = 0.0


@dataclass(frozen=True)
class Step:
    """What a step gave."""

    loss: float
    updated: bool  # False while gradients are only collected, and where the step was skipped
    skipped: bool  # gradients were not finite; the loss scale is smaller now
    outputs: dict[str, numpy.ndarray[Any, Any]] = field(default_factory=dict)  # those asked for, and captures


def _arrays(values: Mapping[str, Any]) -> dict[str, numpy.ndarray[Any, Any]]:
    return {name: numpy.asarray(value) for name, value in values.items()}


def _named(value: Union[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {"kind": value} if isinstance(value, str) else dict(value)


class Trainer:
    """Trains a network by a loss.

    model: a path (a folder, a file of it, an ONNX file, a name in the store), whose named constants of floats are trained,
        or a MeshNet.
    shapes: of the inputs, by name.
    loss: "cross_entropy", "dice", "dice_cross_entropy" or "focal" of classes, int32 [N, spatial...], or "bce", "mse",
        "l1" or "huber" of floats in the shape of the output. The target is the input "target".
    output: the output that the loss is of; the first unless given.
    rate: the learning rate, where `schedule` does not say it.
    optimizer: "sgd", "adam", "adamw", "rmsprop", "adagrad" or "lion", or a dict with that as "kind" and its numbers.
    schedule: "constant", "step", "multi_step", "exponential", "cosine", "warmup_cosine" or "one_cycle", likewise;
        all that end need their "total", "step" its "step_size".
    frozen: patterns of names that are not trained; "*" stands for any characters.
    clip_norm, clip_value, accumulate, average: as TrainingOptions of the library.
    precision: how feature maps are stored: "f32" or "f16"; with "f16" the loss is scaled, unless loss_scaling is False.
    recompute: what the way back makes again rather than keep: "none", "norms" or "cheap" (needs least memory).
    seed: of everything random.

    Any thread may call it; calls take turns. A loss that is not finite is an Error that names the first node whose values
    are not; parameters are then those of the last good step.
    """

    def __init__(
        self,
        model: Union[str, os.PathLike[str], MeshNet],
        shapes: Mapping[str, Sequence[int]],
        loss: str = "cross_entropy",
        *,
        output: str = "",
        rate: float = 1e-3,
        optimizer: Union[str, Mapping[str, Any]] = "adam",
        schedule: Union[str, Mapping[str, Any]] = "constant",
        frozen: Sequence[str] = (),
        clip_norm: Optional[float] = None,
        clip_value: Optional[float] = None,
        accumulate: int = 1,
        average: Optional[float] = None,
        precision: str = "f32",
        loss_scaling: Optional[bool] = None,
        recompute: str = "norms",
        seed: int = 0,
        device: Union[str, int] = "",
    ) -> None:
        self._rate = rate
        options = dict(
            optimizer=_named(optimizer),
            schedule={"rate": rate, **_named(schedule)},
            frozen=list(frozen),
            clip_norm=clip_norm,
            clip_value=clip_value,
            accumulate=accumulate,
            average=average,
            precision=precision,
            loss_scaling=loss_scaling,
            recompute=recompute,
            seed=seed,
        )
        network = asdict(model) if isinstance(model, MeshNet) else os.fspath(model)
        known = {name: [int(extent) for extent in shape] for name, shape in shapes.items()}
        self._native = _gyrus.Trainer(network, known, loss, output, str(device), options)

    def step(
        self,
        inputs: Mapping[str, Any],
        *,
        outputs: Sequence[str] = (),
        captures: Sequence[str] = (),
        progress: Optional[Callable[[float], Optional[bool]]] = None,
    ) -> Step:
        """Forward, backward and, unless gradients are collected, the update.

        outputs: those to read back besides the loss. captures: values to look at; "gradient/NAME" is a parameter's.
        """
        return Step(*self._native.step(_arrays(inputs), list(outputs), list(captures), progress))

    def run(
        self,
        inputs: Mapping[str, Any],
        *,
        outputs: Optional[Sequence[str]] = None,
        captures: Sequence[str] = (),
        progress: Optional[Callable[[float], Optional[bool]]] = None,
    ) -> dict[str, numpy.ndarray[Any, Any]]:
        """The outputs of the network without its loss and without dropout, on the parameters as they are."""
        return self._native.run(_arrays(inputs), outputs, list(captures), progress)

    def parameters(self) -> dict[str, numpy.ndarray[Any, Any]]:
        """All parameters that are trained, by name."""
        return self._native.parameters()

    def set_parameters(self, values: Mapping[str, Any], *, partial: bool = False) -> None:
        """Replaces parameters: all of them, or with `partial` some."""
        self._native.set_parameters(_arrays(values), partial)

    def save(self, path: Optional[Union[str, os.PathLike[str]]] = None) -> bytes:
        """Everything that the next step depends on, as a safetensors file; written to `path` where that is given."""
        data = self._native.save()
        if path is not None:
            # Under another name first: a file that stands under its own is whole.
            part = pathlib.Path(f"{os.fspath(path)}.part")
            part.write_bytes(data)
            part.replace(path)
        return data

    def load(self, checkpoint: Union[bytes, str, os.PathLike[str]]) -> None:
        """Goes on from what save() gave or wrote: the losses are those that would have followed it."""
        data = checkpoint if isinstance(checkpoint, bytes) else pathlib.Path(checkpoint).read_bytes()
        self._native.load(data)

    def set_schedule(self, schedule: Union[str, Mapping[str, Any]]) -> None:
        """Another schedule from the next step on; nothing is compiled for it."""
        self._native.set_schedule({"rate": self._rate, **_named(schedule)})

    def reset_optimizer(self) -> None:
        """The optimiser as it was at first, and the counts; parameters stay."""
        self._native.reset_optimizer()

    @property
    def names(self) -> list[str]:
        """Of the parameters that are trained."""
        return self._native.names

    @property
    def updates(self) -> int:
        """Made so far."""
        return self._native.updates

    @property
    def steps(self) -> int:
        """So far, with those that only collected gradients or were skipped."""
        return self._native.steps

    @property
    def rate(self) -> float:
        """The learning rate of the next update."""
        return self._native.rate

    @property
    def loss_scale(self) -> float:
        """Of the next step; 1 without loss scaling."""
        return self._native.loss_scale

    @property
    def skipped(self) -> int:
        """Updates so far that were not made, since gradients were not finite."""
        return self._native.skipped

    @property
    def device(self) -> str:
        """The name of the device."""
        return self._native.device
