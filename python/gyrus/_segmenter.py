"""Labels for volumes."""
from __future__ import annotations

import os
from typing import Any, Callable, Optional, Union

import numpy

from gyrus import _gyrus


def _is_image(thing: Any) -> bool:
    """Whether it is an image of nibabel, which need not be installed."""
    return hasattr(thing, "dataobj") and hasattr(thing, "affine") and hasattr(thing, "header")


def _image_like(image: Any, labels: numpy.ndarray[Any, Any]) -> Any:
    header = image.header.copy()
    header.set_data_dtype(numpy.uint8)
    for window in ("cal_min", "cal_max"):  # of the scan's intensities
        if window in header:
            header[window] = 0
    return type(image)(labels, image.affine, header)


class Segmenter:
    """A network on a GPU that labels volumes, one at a time, as `gyrus segment --no-conform` does.

    model: a folder, a file of it, or the name of a model that `gyrus models fetch` brought.
    precision: how feature maps are stored: "f32", "f16", or "auto", f32 where it fits.
    device: "" the best, "N" by its place in devices(), else part of its name.
    normalize: "minmax", "quantile", "quantile:LOW,HIGH" or "none"; "" is the model's own way.
    largest_component: keep only the largest connected part of each class; None is the model's own way.
    fill_holes: background that a class encloses becomes that class; None is the model's own way.
    allow_empty: do not raise where no voxel has a label.
    progress: called while a run goes on with the part that is done; returning False cancels it.

    Any thread may call it; runs of one segmenter take turns. Raises Error.
    """

    def __init__(
        self,
        model: Union[str, os.PathLike[str]],
        *,
        precision: str = "auto",
        device: Union[str, int] = "",
        normalize: str = "",
        largest_component: Optional[bool] = None,
        fill_holes: Optional[bool] = None,
        allow_empty: bool = False,
        progress: Optional[Callable[[float], Optional[bool]]] = None,
    ) -> None:
        self._native = _gyrus.Segmenter(
            os.fspath(model), precision, str(device), normalize, largest_component, fill_holes, allow_empty
        )
        self._progress = progress

    def run(self, image: Any) -> Any:
        """The class of every voxel.

        image: an array [x, y, z], or an image of nibabel. Voxels of uint8 and float32 are taken as they are, without a
            copy where x is the fastest axis, as in images of nibabel; other numbers become float32. The network sees
            the grid as it is.

        Gives an array of uint8 of the same shape, x fastest; for an image, an image of the same kind and affine. The
        first run of each size and type compiles the network for it.
        """
        if not _is_image(image):
            return self._native.run(numpy.asarray(image), self._progress)
        return _image_like(image, self._native.run(numpy.asarray(image.dataobj), self._progress))

    @property
    def classes(self) -> int:
        """How many there are, the background among them."""
        return self._native.classes

    @property
    def device(self) -> str:
        """The name of the device."""
        return self._native.device

    @property
    def gpu_seconds(self) -> float:
        """What the device took for the last run."""
        return self._native.gpu_seconds

    @property
    def gpu_bytes(self) -> int:
        """What the last network that was compiled holds on the device; 0 before the first run."""
        return self._native.gpu_bytes
