"""Small programs in assembly text, run on the reference engine."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from softcard.engine.gcn.api import Dispatch, Statistics
from softcard.engine.gcn.reference.engine import OnRetire, ReferenceEngine, Stepper
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.state import Wave, aligned
from softcard.isa.gcn.target import target
from tests.engine.gcn.rig import CODE, DATA, launch

_installed: list[object] = []
"""LDS of waves that `started` made: they know its address only."""


def program(text: str, name: str = "gfx900", **options: Any) -> Dispatch:
    """A dispatch of assembly text; statements may be separated by bars."""
    return launch(_words(text, name), name, **options)


@cache
def _words(text: str, name: str) -> list[int]:
    code = assemble(target(name), text.replace("|", "\n"), CODE)
    return np.frombuffer(code, np.uint32).tolist()


def run(dispatch: Dispatch, on_retire: OnRetire | None = None) -> Statistics:
    """To its end."""
    return ReferenceEngine(on_retire).run(dispatch)


def dwords(dispatch: Dispatch, count: int, offset: int = 0) -> list[int]:
    """What the program left in the data."""
    return np.frombuffer(dispatch.memory.read(DATA + offset, 4 * count), np.uint32).tolist()


def started(dispatch: Dispatch, group: int = 0, number: int = 0) -> tuple[Stepper, Wave]:
    """One wave in its first state, and what executes it."""
    from softcard.engine.gcn.group import start_wave

    wave, lds = Wave(index=number), aligned(max(dispatch.lds_bytes, 1))
    start_wave(dispatch, wave, group, number, number, int(lds.ctypes.data))
    stepper = ReferenceEngine().stepper(dispatch)
    _installed.append(lds)
    return stepper, wave
