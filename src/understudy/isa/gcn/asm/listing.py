"""Whole code regions as assembly text that assembles to the same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from understudy.core.errors import UnderstudyError
from understudy.isa.gcn.asm.assembler import assemble_one, is_label
from understudy.isa.gcn.asm.printer import branch_target, text
from understudy.isa.gcn.encoding.decode import decode
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.target import Target


@dataclass(frozen=True, slots=True)
class Line:
    """What stands at `pc`: an instruction, or a word that is none, and why; `label` names the place."""

    pc: int
    code: bytes
    insn: Insn | None
    shown: str
    label: str = ""
    refusal: UnderstudyError | None = None

    def __str__(self) -> str:
        head = f"{self.label}:\n" if self.label else ""
        words = " ".join(f"{word:08x}" for word in _words(self.code))
        return f"{head}    {self.shown:<56}// {self.pc:#x}: {words}"


def listing(target: Target, code: bytes, pc: int = 0, names: Mapping[int, str] | None = None) -> tuple[Line, ...]:
    """Every instruction of `code`, which stands at address `pc`, one after the other.

    A word that is no instruction becomes ``.long``, and so does one that text cannot give back since it sets bits that
    do not count. Labels are the `names` of places that can be labels, and what branches inside go to. Bytes after the
    last whole word are left out.
    """
    found = [*_parts(target, code, pc)]
    places = {place for place, *_ in found}
    wanted = {place: name for place, name in sorted((names or {}).items()) if place in places and is_label(name)}
    targets = {goal for _, _, insn, _ in found if insn and (goal := branch_target(insn)) in places}
    wanted |= {goal: f"L{goal:x}" for goal in sorted(targets - wanted.keys())}
    labels: dict[int, str] = {}
    taken: set[str] = set()
    for place, name in wanted.items():
        while name in taken:  # several functions may have a BB0_2
            name = name + "_" if place in targets else ""
        if name:
            labels[place] = name
            taken.add(name)
    shown: dict[bytes, str] = {}
    lines = []
    for place, part, insn, refusal in found:
        line = shown.get(part)
        if line is None:
            line = _shown(target, part, insn, labels, place)
            if insn is None or branch_target(insn) is None:
                shown[part] = line
        lines.append(Line(place, part, insn, line, labels.get(place, ""), refusal))
    return tuple(lines)


def _parts(target: Target, code: bytes, pc: int) -> Iterator[tuple[int, bytes, Insn | None, UnderstudyError | None]]:
    """Place, bytes, and instruction or refusal, one after the other; equal bytes are decoded once."""
    sizes: dict[bytes, int] = {}  # by the first word, which decides
    known: dict[bytes, Insn] = {}
    at = 0
    while at + 4 <= len(code):
        part = code[at : at + sizes.get(code[at : at + 4], 0)]
        insn = known.get(part)
        if insn is not None:
            yield pc + at, part, insn.moved(pc + at), None
            at += len(part)
            continue
        try:
            insn = decode(target, code[at : at + 12], pc + at)
        except UnderstudyError as error:
            yield pc + at, code[at : at + 4], None, error
            at += 4
            continue
        part = code[at : at + insn.size]
        sizes[part[:4]], known[part] = insn.size, insn
        yield pc + at, part, insn, None
        at += insn.size


def _words(code: bytes) -> list[int]:
    return [int.from_bytes(code[at : at + 4], "little") for at in range(0, len(code), 4)]


def _shown(target: Target, code: bytes, insn: Insn | None, labels: dict[int, str], pc: int) -> str:
    if insn is not None and assemble_one(target, text(insn), pc) == code:
        return text(insn, labels)
    numbers = ", ".join(f"{word:#010x}" for word in _words(code))
    return f".long {numbers}" if insn is None else f".long {numbers} ; {text(insn)}"
