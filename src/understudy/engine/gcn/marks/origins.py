"""Where a marked value came from: found in the code, backwards from the instruction that is told of.

Instructions in front of it are gone through in the order of their addresses, which is the order of most code that led
there. A register that only some lanes were written in may have its mark from before, so the search goes on for it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from understudy.core.checks import FIDELITY, INIT
from understudy.core.errors import UnderstudyError
from understudy.engine.gcn.api import Dispatch
from understudy.engine.gcn.jit.effects import Effects, effects
from understudy.engine.gcn.marks.launch import first_scalars
from understudy.engine.gcn.marks.sights import Sights, Touch
from understudy.isa.gcn.asm.printer import text
from understudy.isa.gcn.encoding.decode import decode
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.state import EXEC, M0, VCC, Mode

LONGEST: Final = 12
"""Bytes that may have to be looked at to decode an instruction."""
FARTHEST: Final = 1 << 14
"""Bytes of code that are gone through."""
DEPTH: Final = 4
"""Stores that a value is followed through."""
SCC: Final = "SCC"


def origin_of(dispatch: Dispatch, insn: Insn, kind: str, sights: Sights, depth: int = DEPTH) -> str:
    """Where what an instruction reads has its mark from, in words; "" where that is not found."""
    try:
        code = _code(dispatch, insn.pc)
    except UnderstudyError:
        return ""
    mode = Mode.decode(dispatch.mode)
    needed = _reads(effects(insn, mode))
    for each in reversed(code):
        found = effects(each, mode)
        made = needed & _writes(found)
        if not made:
            continue
        touch = sights.loaded.get((kind, each.pc))
        if touch is not None:
            store = sights.stored.get((kind, touch.space, touch.address))
            if store is None or store.insn is None or not depth:
                return f"{_place(touch)}, which nobody has written, loaded by {text(each)} at pc {each.pc:#x}"
            before = origin_of(dispatch, store.insn, kind, sights, depth - 1)
            return f"{before}, by way of {_place(touch)}" if before else _place(touch)
        if found.loads & found.stores:
            return f"what {text(each)} at pc {each.pc:#x} found in memory"
        if kind == FIDELITY and each.op.accuracy.kind == "approximate":
            return f"{text(each)} at pc {each.pc:#x}, which hardware computes within {each.op.accuracy.bound}"
        needed -= {name for name in made if not name.startswith("v")}
        needed |= _reads(found)
    undefined = {name for name in needed if _undefined(dispatch, kind, name)}
    never = undefined.difference(*(_writes(effects(each, mode)) for each in code))
    names = ", ".join(map(_shown, sorted(never or undefined, key=_number)))
    if never:
        return f"{names}, which nothing has written"
    which = names if len(undefined) == 1 else f"one of {names}"
    return f"{which}, which some lane has not written on its way here" if names else ""


def _number(name: str) -> tuple[str, int]:
    """In which order registers are named."""
    return name[0], -1 if name == SCC else int(name[1:])


def _shown(name: str) -> str:
    """A register as assembly writes it."""
    return {f"s{VCC}": "vcc_lo", f"s{VCC + 1}": "vcc_hi", f"s{M0}": "m0"}.get(name, name)


def _place(touch: Touch) -> str:
    if touch.space == "lds":
        return f"{touch.size} bytes at offset {touch.address:#x} of LDS"
    if touch.space == "private":
        return f"{touch.size} bytes at offset {touch.address:#x} of private memory"
    return f"{touch.size} bytes at {touch.address:#x}"


def _code(dispatch: Dispatch, end: int) -> list[Insn]:
    """The instructions from the entry up to an address."""
    code: list[Insn] = []
    at = dispatch.entry
    if not 0 < end - at <= FARTHEST:
        return []
    while at < end:
        found = dispatch.memory.plain(at, 4)
        if found is None:
            return code
        words = np.frombuffer(found.view[at - found.base : at - found.base + LONGEST], np.uint8)
        insn = decode(dispatch.target, words[: words.size & ~3].view(np.uint32).tolist(), at)
        code.append(insn)
        at = insn.next_pc
    return code


def _scalars(numbers: set[int], pairs: set[int]) -> set[str]:
    every = numbers | pairs | {n + 1 for n in pairs}
    return {f"s{n}" for n in every if n not in (EXEC, EXEC + 1)}


def _reads(found: Effects) -> set[str]:
    names = _scalars(found.s_reads, found.mask_reads) | {f"v{n}" for n in found.v_reads}
    return names | ({SCC} if found.reads_scc else set())


def _writes(found: Effects) -> set[str]:
    names = _scalars(found.s_writes, found.mask_writes) | {f"v{n}" for n in found.v_writes}
    return names | ({SCC} if found.writes_scc else set())


def _undefined(dispatch: Dispatch, kind: str, name: str) -> bool:
    """Whether a launch says nothing of a register."""
    if kind != INIT:
        return False
    if name == SCC:
        return True
    number = int(name[1:])
    if name.startswith("v"):
        return number >= int(dispatch.shapes.vgprs.shape[2])
    return bool(int(first_scalars(dispatch, kind)[number]))
