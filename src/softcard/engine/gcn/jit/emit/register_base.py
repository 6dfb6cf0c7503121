"""The location of registers and LDS in translated code: those of the wave, or one kind of their shadows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from softcard.engine.gcn.api import MAX_WAVES
from softcard.isa.gcn.state import STATE_BYTES

SHADOW_DISTANCE: Final = MAX_WAVES * STATE_BYTES
"""The distance in bytes from a wave's state to its first shadow registers, and from these to the next."""


@dataclass(frozen=True, slots=True)
class RegisterBase:
    """The names in LLVM IR for one set of registers.

    `state` is the address of the registers, and `lds` the host address of LDS. `prefix` is the prefix of the
    names of all variables."""

    state: str = "%st"
    lds: str = "%lds"
    prefix: str = ""


OWN: Final = RegisterBase()


def shadow(number: int) -> RegisterBase:
    """Return the location of the shadow registers of kind `number`."""
    return RegisterBase(f"%tw{number}", f"%lds{number}", f"m{number}.")
