"""What running something took: the same words on every interface.

Each result of a kernel is also a line of the logger ``understudy`` at level DEBUG.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from understudy.core.shown import Rows, Shown

if TYPE_CHECKING:
    from logging import Logger

DEBUG: Final = 10
"""The level, as `logging` has it."""


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
    def bandwidth(self) -> float: ...
    @property
    def _name(self) -> str: ...
    @property
    def _left(self) -> str: ...


class Took(Shown):
    """What all results have: `instructions` retired, `bytes` that were given or moved, `time` in seconds, and rates.

    Those of kernels with instructions also have `interpreted`: how many of these an engine executed one by one instead
    of as machine code, thousands of times slower; all with the reference engine. It says nothing about results, and
    two that are equal may differ in it. Time is the host's, from the moment when the work was handed over to that when
    its end was seen.
    """

    __slots__ = ()

    @property
    def rate(self: _Counted) -> float:
        """Instructions a second; 0.0 where no time was seen to pass."""
        return self.instructions / self.time if self.time > 0 else 0.0

    @property
    def bandwidth(self: _Counted) -> float:
        """Bytes a second; 0.0 where no time was seen to pass."""
        return self.bytes / self.time if self.time > 0 else 0.0

    @property
    def _name(self) -> str:
        return str(getattr(self, "kernel", "")) or type(self).__name__

    @property
    def _left(self: _Counted) -> str:
        """What is said of interpreted instructions."""
        count: int = getattr(self, "interpreted", 0)
        return f"{count:,} ({count / max(self.instructions, 1):.2%})" if count else ""

    def __repr__(self: _Counted) -> str:
        left = f", interpreted {self._left}" if self._left else ""
        return (
            f"<{self._name}: {self.instructions:,} instructions, {self.bytes:,} bytes, {_seconds(self.time)}, "
            f"{_rate(self.rate)}, {_bandwidth(self.bandwidth)}{left}>"
        )

    def _rows(self: _Counted) -> Rows:
        return [
            (),
            ("instructions", f"{self.instructions:,}"),
            ("bytes", f"{self.bytes:,}"),
            ("time", _seconds(self.time)),
            ("rate", _rate(self.rate)),
            ("bandwidth", _bandwidth(self.bandwidth)),
            *([("interpreted", self._left)] if self._left else []),
        ]


def _seconds(time: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms")):
        if time >= unit:
            return f"{time / unit:.3g} {name}"
    return f"{time * 1e6:.3g} us"


def _rate(rate: float) -> str:
    number, prefix = _scaled(rate)
    return f"{number} {prefix} instructions/s" if prefix else f"{number} instructions/s"


def _bandwidth(rate: float) -> str:
    number, prefix = _scaled(rate)
    return f"{number} {prefix}B/s"


def _scaled(number: float) -> tuple[str, str]:
    for unit, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:.3g}", prefix
    return f"{number:.3g}", ""


Result = TypeVar("Result", bound=Took)


def told(result: Result) -> Result:
    """The result, after the logger has been told. Where nobody has loaded `logging`, nobody listens."""
    if "logging" in sys.modules and (logger := _logger()).isEnabledFor(DEBUG):
        logger.debug("%s", repr(result)[1:-1])
    return result


@cache
def _logger() -> Logger:
    from logging import getLogger

    return getLogger("understudy")
