"""The location of registers and LDS in translated code: the wave's own, or its shadows of one kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from softcard.engine.gcn.api import MAX_WAVES
from softcard.isa.gcn.state import STATE_BYTES

SHADOW_DISTANCE: Final = MAX_WAVES * STATE_BYTES
"""The distance in bytes from a wave's state to its first shadow registers, and from these to the next."""


@dataclass(frozen=True, slots=True)
class RegisterBase:
    """Names in LLVM's text for one set of registers.

    `state` is the address of the registers, `lds` the host address of LDS, and `prefix` begins the names of all
    variables.
    """

    state: str = "%st"
    lds: str = "%lds"
    prefix: str = ""


OWN: Final = RegisterBase()


def shadow(number: int) -> RegisterBase:
    """Return the location of the shadow registers of kind `number`."""
    return RegisterBase(f"%tw{number}", f"%lds{number}", f"m{number}.")
