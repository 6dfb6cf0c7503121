"""The error for a call of OpenCL that the specification refuses, with its error code."""

from __future__ import annotations

from functools import cache
from typing import Final

from softcard.core.errors import RuleError
from softcard.host.opencl import constants as cl

_FIRST: Final = -72
"""The lowest number of an error code."""


class OpenClError(RuleError):
    """The error for a call that the specification refuses; `status` is the error code that the call returns."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{message} [CL_{status_name(status)}]")
        self.status = status


def status_name(status: int) -> str:
    """Return the name of an error code without the prefix ``CL_``; the number as text if it is unknown."""
    return _names().get(status, str(status))


@cache
def _names() -> dict[int, str]:
    found: dict[int, str] = {}
    for name, value in vars(cl).items():
        if name.isupper() and isinstance(value, int) and _FIRST <= value < 0:
            found.setdefault(value, name)
    return found


def require(condition: object, status: int, message: str) -> None:
    """Raise `OpenClError` unless `condition` is true."""
    if not condition:
        raise OpenClError(status, message)
