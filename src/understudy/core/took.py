"""What running something took: the same words on every interface."""

from __future__ import annotations

from typing import Protocol

from understudy.core.shown import Rows, Shown


class _Counted(Protocol):
    """The fields and properties of a result."""

    @property
    def instructions(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def time(self) -> float: ...
    @property
    def rate(self) -> float: ...
    @property
    def _name(self) -> str: ...


class Took(Shown):
    """What all results have: `instructions` retired, `bytes` that were given or moved, `time` in seconds, and `rate`.

    Time is the host's, from the moment when the work was handed over to that when its end was seen.
    """

    __slots__ = ()

    @property
    def rate(self: _Counted) -> float:
        """Instructions a second; 0.0 where no time was seen to pass."""
        return self.instructions / self.time if self.time > 0 else 0.0

    @property
    def _name(self) -> str:
        return str(getattr(self, "kernel", "")) or type(self).__name__

    def __repr__(self: _Counted) -> str:
        return (
            f"<{self._name}: {self.instructions:,} instructions, {self.bytes:,} bytes, {_seconds(self.time)}, "
            f"{_rate(self.rate)}>"
        )

    def _rows(self: _Counted) -> Rows:
        return [
            (),
            ("instructions", f"{self.instructions:,}"),
            ("bytes", f"{self.bytes:,}"),
            ("time", _seconds(self.time)),
            ("rate", _rate(self.rate)),
        ]


def _seconds(time: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms")):
        if time >= unit:
            return f"{time / unit:.3g} {name}"
    return f"{time * 1e6:.3g} us"


def _rate(rate: float) -> str:
    for unit, name in ((1e9, "G "), (1e6, "M "), (1e3, "k ")):
        if rate >= unit:
            return f"{rate / unit:.3g} {name}instructions/s"
    return f"{rate:.3g} instructions/s"
