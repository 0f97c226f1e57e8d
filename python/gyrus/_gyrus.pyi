from typing import Any, Callable, Mapping, Optional, Sequence

import numpy

version: str

class Device:
    """A GPU, or a software driver, that gyrus can use."""

    @property
    def index(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def vendor(self) -> str: ...
    @property
    def driver(self) -> str: ...
    @property
    def backend(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def memory_bytes(self) -> Optional[int]: ...

def devices() -> list[Device]:
    """Every device that computes, best first: discrete before integrated before software."""

class Segmenter:
    def __init__(
        self,
        model: str,
        precision: str,
        device: str,
        normalize: str,
        largest_component: Optional[bool],
        fill_holes: Optional[bool],
        allow_empty: bool,
    ) -> None: ...
    def run(
        self, voxels: numpy.ndarray[Any, Any], progress: Optional[Callable[[float], Optional[bool]]]
    ) -> numpy.ndarray[Any, numpy.dtype[numpy.uint8]]: ...
    @property
    def classes(self) -> int: ...
    @property
    def device(self) -> str: ...
    @property
    def gpu_seconds(self) -> float: ...
    @property
    def gpu_bytes(self) -> int: ...

class Network:
    def __init__(
        self, model: str, shapes: Mapping[str, Sequence[int]], device: str, precision: str, check_finite: bool
    ) -> None: ...
    def run(
        self,
        inputs: Mapping[str, numpy.ndarray[Any, Any]],
        outputs: Optional[Sequence[str]],
        arguments: Mapping[str, float],
        progress: Optional[Callable[[float], Optional[bool]]],
    ) -> dict[str, numpy.ndarray[Any, Any]]: ...
    @property
    def inputs(self) -> Optional[list[tuple[str, str, tuple[int, ...]]]]: ...
    @property
    def outputs(self) -> Optional[list[tuple[str, str, tuple[int, ...]]]]: ...
    @property
    def device(self) -> str: ...
