"""The run statistics of kernels and commands. They have the same names for all devices.

The logger ``softcard`` also logs the statistics of each kernel run at level DEBUG."""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from softcard.core.display import RichDisplay, Rows

if TYPE_CHECKING:
    from logging import Logger


DEBUG: Final = 10
"""The numerical value of `logging.DEBUG`; this module does not import `logging`."""


class _Counted(Protocol):
    """The fields of a result that the computation of rates uses."""

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


class RunStatistics(RichDisplay):
    """The base of all results: `instructions` retired, `bytes` transferred, `time` in seconds, and rates.

    Results of kernels with instructions also have `interpreted`: the number of instructions that an engine did not
    translate, but interpreted one by one, which is thousands of times slower. With the reference engine these are all
    instructions. This number does not affect the computed results, and comparisons of results ignore it. `time` is host
    time, from the submission of the work until its end was observed.
    """

    __slots__ = ()

    @property
    def rate(self: _Counted) -> float:
        """The number of instructions per second; 0.0 if no time was measured."""
        return self.instructions / self.time if self.time > 0 else 0.0

    @property
    def bandwidth(self: _Counted) -> float:
        """The number of bytes per second; 0.0 if no time was measured."""
        return self.bytes / self.time if self.time > 0 else 0.0

    @property
    def _name(self) -> str:
        return str(getattr(self, "kernel", "")) or type(self).__name__

    @property
    def _left(self: _Counted) -> str:
        """The number and percentage of instructions left untranslated (interpreted), as text; "" if there are none."""
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


Result = TypeVar("Result", bound=RunStatistics)


def logged(result: Result) -> Result:
    """Log the result and return it; skip the log if the program has not imported `logging`."""
    if "logging" in sys.modules and (logger := _logger()).isEnabledFor(DEBUG):
        logger.debug("%s", repr(result)[1:-1])
    return result


@cache
def _logger() -> Logger:
    from logging import getLogger

    return getLogger("softcard")
