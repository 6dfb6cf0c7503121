"""Listings of RISC-V code as assembly text, instruction by instruction, with labels at targets of branches."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from softcard.core.errors import SoftcardError
from softcard.isa.riscv.assembler import text
from softcard.isa.riscv.decode import decode, length
from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.isa import ALL

LABEL = re.compile(r"[A-Za-z_.$][\w.$]*")
_TARGET = re.compile(r"0x[0-9a-f]+$")


class Line(NamedTuple):
    """A line of a listing: the instruction at `pc`, or bytes that do not decode, with the error in `refusal`.

    `label` is the label of the address, or ""."""

    pc: int
    code: bytes
    shown: str
    label: str = ""
    refusal: SoftcardError | None = None

    def __str__(self) -> str:
        head = f"{self.label}:\n" if self.label else ""
        word = int.from_bytes(self.code, "little")
        return f"{head}    {self.shown:<40}# {self.pc:#x}: {word:0{2 * len(self.code)}x}"


def listing(code: bytes, pc: int = 0, names: Mapping[int, str] | None = None) -> tuple[Line, ...]:
    """Return the lines of a listing: every instruction of `code`, which starts at address `pc`, in order.

    The text, after ``.option norvc``, assembles to the same bytes. An instruction that does not decode becomes
    ``.half`` or ``.word``. Labels are those in `names`, which may be outside of the code, and the targets of
    branches within the code. An odd byte at the end is not listed."""
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


Part = tuple[int, bytes, "Insn | None", "SoftcardError | None"]


def _parts(code: bytes, pc: int) -> list[Part]:
    """Return address, bytes, decoded instruction (or None) and decoding error (or None) of each instruction."""
    found: list[Part] = []
    at = 0
    while at + 2 <= len(code):
        size = min(length(int.from_bytes(code[at : at + 2], "little")), len(code) - at & -2)
        part = code[at : at + size]
        insn: Insn | None = None
        refusal: SoftcardError | None = None
        try:
            insn = decode(int.from_bytes(part, "little"), ALL)
        except SoftcardError as error:
            refusal = error
        found.append((pc + at, part, insn, refusal))
        at += size
    return found


def _goal(insn: Insn | None, pc: int) -> int | None:
    """Return the target of a branch or jump with a pc-relative target; None for other instructions."""
    return pc + insn.imm & (1 << 64) - 1 if insn is not None and insn.spec.flow in ("branch", "jump") else None


def _shown(part: bytes, insn: Insn | None, pc: int, labels: Mapping[int, str]) -> str:
    if insn is None:
        return f"{'.word' if len(part) == 4 else '.half'} {int.from_bytes(part, 'little'):#x}"
    shown = text(insn, pc)
    goal = _goal(insn, pc)
    return _TARGET.sub(labels[goal], shown) if goal in labels and goal is not None else shown
