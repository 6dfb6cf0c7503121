"""Where translated code has a wave's registers and LDS: the wave's own, or the twin that holds marks of one kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from understudy.engine.gcn.api import MAX_WAVES
from understudy.isa.gcn.state import STATE_BYTES

TWIN: Final = MAX_WAVES * STATE_BYTES
"""Bytes from a wave's block to its first twin, and from there to its next."""


@dataclass(frozen=True, slots=True)
class Home:
    """Names in LLVM's text: `state` of the block, `lds` of the host address of LDS, a `prefix` of all variables."""

    state: str = "%st"
    lds: str = "%lds"
    prefix: str = ""


OWN: Final = Home()


def twin(number: int) -> Home:
    """The twin for marks of a kind."""
    return Home(f"%tw{number}", f"%lds{number}", f"m{number}.")
