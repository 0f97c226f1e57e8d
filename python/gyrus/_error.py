"""The one exception of gyrus."""
from __future__ import annotations

from typing import Sequence


class Error(Exception):
    """What gyrus refuses or fails at, in one line.

    code: "invalid-model", "invalid-graph", "unsupported", "over-limits", "device", "invalid-input", "io", "cancelled" or
        "non-finite".
    hints: what may help, the most promising first: "half-precision", "smaller-volume", "fetch-model" and the like.
    state_changed: whether the run that failed may have changed states of the network.
    """

    code: str
    hints: tuple[str, ...]
    state_changed: bool

    def __init__(self, code: str, message: str, hints: Sequence[str] = (), state_changed: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.hints = tuple(hints)
        self.state_changed = state_changed

    def __reduce__(self) -> tuple[type[Error], tuple[str, str, tuple[str, ...], bool]]:
        return type(self), (self.code, str(self), self.hints, self.state_changed)
