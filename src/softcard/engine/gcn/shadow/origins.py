"""A search for the origin of a value with shadow bits, backwards from the instruction that uses it.

The search visits the instructions at lower addresses in descending order, and assumes that they executed in
the order of their addresses. It continues past a write of a vector register, since the write may have skipped
some lanes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from softcard.core.checks import FIDELITY, INIT
from softcard.core.errors import SoftcardError
from softcard.engine.gcn.api import Dispatch
from softcard.engine.gcn.effects import Effects, effects
from softcard.engine.gcn.shadow.launch import first_scalars
from softcard.engine.gcn.shadow.sources import sends_to_lanes, takes_from_lanes
from softcard.engine.gcn.shadow.uses import Touch, Uses
from softcard.isa.gcn.asm.printer import text
from softcard.isa.gcn.encoding.decode import decode
from softcard.isa.gcn.encoding.formats import LONGEST
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.operations.mai import chosen_arithmetic
from softcard.isa.gcn.state import EXEC, M0, VCC, Mode, register_name

FARTHEST: Final = 1 << 14
"""The maximum number of bytes of code to search."""
DEPTH: Final = 4
"""The maximum number of stores through which a value is traced."""
SCC: Final = "SCC"


def origin_of(
    dispatch: Dispatch,
    insn: Insn,
    kind: str,
    uses: Uses,
    known: Mapping[int, str] | None = None,
    depth: int = DEPTH,
) -> str:
    """Return a description of the origin of the value with shadow bits that `insn` reads; "" if unknown.

    `known` has descriptions of the origins of values that instructions of other kernels have stored, by pc.
    `depth` limits the number of stores through which the value is traced."""
    try:
        code = _code(dispatch, insn.pc)
    except SoftcardError:
        return ""
    mode = Mode.decode(dispatch.mode)
    needed = _reads(effects(insn, mode))
    for each in reversed(code):
        found = effects(each, mode)
        made = needed & _writes(found)
        if not made:
            continue
        touch = uses.loaded.get((kind, each.pc))
        if touch is not None:
            store = uses.stored.get((kind, touch.space, touch.address))
            if store is None or store.insn is None or not depth:
                return f"{_place(touch)}, which are uninitialised, loaded by {text(each)} at pc {each.pc:#x}"
            before = None if known is None else known.get(store.pc)
            if before is None:
                before = origin_of(dispatch, store.insn, kind, uses, known, depth - 1)
            if before.endswith(_place(touch)):  # a loop stores to the same place again
                return before
            return f"{before}, through {_place(touch)}" if before else _place(touch)
        if kind == INIT and takes_from_lanes(each):
            return f"{text(each)} at pc {each.pc:#x}, which reads a lane that is not active or has no value"
        if kind == INIT and sends_to_lanes(each):
            return f"{text(each)} at pc {each.pc:#x}, which sends several lanes to one or has no value"
        if found.loads & found.stores:
            return f"memory that {text(each)} at pc {each.pc:#x} read"
        if kind == FIDELITY and each.op.accuracy.kind == "approximate":
            return f"{text(each)} at pc {each.pc:#x}, which hardware computes within {each.op.accuracy.bound}"
        if kind == FIDELITY and (choice := chosen_arithmetic(each)):
            return (
                f"{text(each)} at pc {each.pc:#x}, whose sums the choice {choice} defines: no measurement is published"
            )
        needed -= {name for name in made if not name.startswith("v")}
        needed |= _reads(found)
    undefined = {name for name in needed if _undefined(dispatch, kind, name)}
    never = undefined.difference(*(_writes(effects(each, mode)) for each in code))
    names = ", ".join(map(_shown, sorted(never or undefined, key=_number)))
    if never:
        return f"{names}, which nothing has written"
    which = names if len(undefined) == 1 else f"one of {names}"
    return f"{which}, which some lane has not written on its path to here" if names else ""


def _number(name: str) -> tuple[str, int]:
    """Return the sort key of a register's name: its first letter, and its number (-1 for SCC)."""
    return name[0], -1 if name == SCC else int(name[1:])


def _shown(name: str) -> str:
    """Return the assembly name of a register, given its internal name."""
    return {f"s{VCC}": "vcc_lo", f"s{VCC + 1}": "vcc_hi", f"s{M0}": "m0"}.get(name, name)


def _place(touch: Touch) -> str:
    if touch.space == "lds":
        return f"{touch.size} bytes at offset {touch.address:#x} of LDS"
    if touch.space == "private":
        return f"{touch.size} bytes at offset {touch.address:#x} of private memory"
    return f"{touch.size} bytes at {touch.address:#x}"


def _code(dispatch: Dispatch, end: int) -> list[Insn]:
    """Return the instructions from the kernel's entry to the address `end`, in the order of their addresses.

    Return an empty list if the distance is too large."""
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
    names = _scalars(found.s_reads, found.mask_reads) | {register_name(n) for n in found.v_reads}
    return names | ({SCC} if found.reads_scc else set())


def _writes(found: Effects) -> set[str]:
    names = _scalars(found.s_writes, found.mask_writes) | {register_name(n) for n in found.v_writes}
    return names | ({SCC} if found.writes_scc else set())


def _undefined(dispatch: Dispatch, kind: str, name: str) -> bool:
    """Return True if a register is undefined at the start of a wave; `kind` is the kind of shadow."""
    if kind != INIT:
        return False
    if name == SCC:
        return True
    number = int(name[1:])
    if name.startswith("v"):
        return number >= int(dispatch.shapes.vgprs.shape[2])
    return bool(int(first_scalars(dispatch, kind)[number]))
