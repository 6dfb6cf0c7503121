"""Stretches of RISC-V code as assembly text, instruction by instruction, with labels where branches go."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from understudy.core.errors import UnderstudyError
from understudy.isa.riscv.assembler import text
from understudy.isa.riscv.decode import decode, length
from understudy.isa.riscv.insn import Insn
from understudy.isa.riscv.isa import ALL

LABEL = re.compile(r"[A-Za-z_.$][\w.$]*")
_TARGET = re.compile(r"0x[0-9a-f]+$")


class Line(NamedTuple):
    """What stands at `pc`: an instruction, or a parcel that is none, and why; `label` names the place."""

    pc: int
    code: bytes
    shown: str
    label: str = ""
    refusal: UnderstudyError | None = None

    def __str__(self) -> str:
        head = f"{self.label}:\n" if self.label else ""
        word = int.from_bytes(self.code, "little")
        return f"{head}    {self.shown:<40}# {self.pc:#x}: {word:0{2 * len(self.code)}x}"


def listing(code: bytes, pc: int = 0, names: Mapping[int, str] | None = None) -> tuple[Line, ...]:
    """Every instruction of `code`, which stands at address `pc`, one after the other.

    With ``.option norvc`` before it the text assembles to the same bytes. A parcel that is no instruction becomes
    ``.half`` or ``.word``. Labels are the `names` of places, inside or elsewhere, and what branches inside go to. An
    odd byte at the end is left out.
    """
    found = [*_parts(code, pc)]
    places = {place for place, *_ in found}
    labels = {place: name for place, name in (names or {}).items() if LABEL.fullmatch(name)}
    taken = set(labels.values())
    for place, _, insn, _ in found:
        goal = _goal(insn, place)
        if goal in places and goal is not None and goal not in labels and f"L{goal:x}" not in taken:
            labels[goal] = f"L{goal:x}"
    return tuple(
        Line(place, part, _shown(part, insn, place, labels), labels.get(place, ""), refusal)
        for place, part, insn, refusal in found
    )


Part = tuple[int, bytes, "Insn | None", "UnderstudyError | None"]


def _parts(code: bytes, pc: int) -> list[Part]:
    """Place, bytes, and the instruction or why there is none."""
    found: list[Part] = []
    at = 0
    while at + 2 <= len(code):
        size = min(length(int.from_bytes(code[at : at + 2], "little")), len(code) - at & -2)
        part = code[at : at + size]
        insn: Insn | None = None
        refusal: UnderstudyError | None = None
        try:
            insn = decode(int.from_bytes(part, "little"), ALL)
        except UnderstudyError as error:
            refusal = error
        found.append((pc + at, part, insn, refusal))
        at += size
    return found


def _goal(insn: Insn | None, pc: int) -> int | None:
    """The address that a branch or jump with a fixed target goes to."""
    return pc + insn.imm & (1 << 64) - 1 if insn is not None and insn.spec.flow in ("branch", "jump") else None


def _shown(part: bytes, insn: Insn | None, pc: int, labels: Mapping[int, str]) -> str:
    if insn is None:
        return f"{'.word' if len(part) == 4 else '.half'} {int.from_bytes(part, 'little'):#x}"
    shown = text(insn, pc)
    goal = _goal(insn, pc)
    return _TARGET.sub(labels[goal], shown) if goal in labels and goal is not None else shown
