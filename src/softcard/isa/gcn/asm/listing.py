"""Listings: code as assembly text that assembles to bytes equal to the code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from softcard.core.errors import SoftcardError
from softcard.isa.gcn.asm.assembler import assemble_one, is_label
from softcard.isa.gcn.asm.printer import branch_target, text
from softcard.isa.gcn.asm.template import templates
from softcard.isa.gcn.encoding.bounds import Words, instruction_bounds
from softcard.isa.gcn.encoding.decode import decode
from softcard.isa.gcn.encoding.formats import LONGEST
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.target import Target


class Line(NamedTuple):
    """A line of a listing: the instruction at `pc`, or the error for a word that does not decode.

    `label` is the label at that address.
    """

    target: Target
    pc: int
    code: bytes
    shown: str
    label: str = ""
    refusal: SoftcardError | None = None

    @property
    def insn(self) -> Insn | None:
        """The decoded instruction of the line; None if its word does not decode."""
        return None if self.refusal is not None else decode(self.target, self.code, self.pc)

    def __str__(self) -> str:
        head = f"{self.label}:\n" if self.label else ""
        words = " ".join(f"{word:08x}" for word in _words(self.code))
        return f"{head}    {self.shown:<56}// {self.pc:#x}: {words}"


def listing(target: Target, code: bytes, pc: int = 0, names: Mapping[int, str] | None = None) -> tuple[Line, ...]:
    """Return the lines of a listing of `code`, which starts at address `pc`.

    A word that does not decode becomes ``.long``, and so does an instruction with ignored bits that text cannot
    reproduce. Labels are those of `names` that are valid labels, and the targets of branches within the code.
    Bytes after the last whole word are not listed."""
    found = [*_parts(target, code, pc)]
    goals = {branch_target(insn) for _, _, _, insn, _ in found if insn is not None}
    places = {place for place, *_ in found}
    wanted = {place: name for place, name in sorted((names or {}).items()) if place in places and is_label(name)}
    targets = {goal for goal in goals if goal in places}
    wanted |= {goal: f"L{goal:x}" for goal in sorted(targets - wanted.keys())}
    labels: dict[int, str] = {}
    taken: set[str] = set()
    for place, name in wanted.items():
        while name in taken:  # several functions may have a label BB0_2
            name = name + "_" if place in targets else ""
        if name:
            labels[place] = name
            taken.add(name)
    label = labels.get
    return tuple(
        [
            Line(target, place, part, shown or _shown(target, part, insn, labels, place), label(place, ""), refusal)
            for place, part, shown, insn, refusal in found
        ]
    )


Part = tuple[int, bytes, str, Insn | None, SoftcardError | None]


def _parts(target: Target, code: bytes, pc: int) -> Iterator[Part]:
    """Yield (address, bytes, text, instruction, error) of each instruction, in order.

    If a text template (`asm.template`) gives the text, `instruction` and `error` are None. Otherwise the text
    is "", and either the decoded instruction or the decoding error is given. The templates convert instructions
    with equal words only once."""
    words = np.frombuffer(code, np.uint32, len(code) // 4)
    known, at, end = _known(target, words), 0, len(words)
    while at < end:
        shown, size = known.get(at, ("", 0))
        if shown:
            yield pc + 4 * at, code[4 * at : 4 * (at + size)], shown, None, None
            at += size
            continue
        try:
            insn = decode(target, code[4 * at : 4 * at + LONGEST], pc + 4 * at)
        except SoftcardError as error:
            yield pc + 4 * at, code[4 * at : 4 * at + 4], "", None, error
            at += 1
            continue
        yield pc + 4 * at, code[4 * at : 4 * at + insn.size], "", insn, None
        at += insn.size // 4


def _known(target: Target, words: Words) -> dict[int, tuple[str, int]]:
    """Return the text and number of words of each instruction, by the index of its first word.

    The text is "" if it cannot be made from a template. Instructions of more than two words are left out, and so is one
    that is cut off at the end.
    """
    starts, sizes, numbers = instruction_bounds(target, words)
    if len(starts) and starts[-1] + sizes[-1] > len(words):
        starts, sizes, numbers = starts[:-1], sizes[:-1], numbers[:-1]
    starts, sizes, numbers = (each[sizes <= 2] for each in (starts, sizes, numbers))
    values = words[starts].astype(np.uint64)
    longer = sizes > 1
    values[longer] |= words[starts[longer] + 1].astype(np.uint64) << np.uint64(32)
    _, first, which = np.unique(values, return_index=True, return_inverse=True)
    texts = templates(target).texts(numbers[first], values[first], sizes[first])
    shown = map(texts.__getitem__, which.tolist())
    return dict(zip(starts.tolist(), zip(shown, sizes.tolist(), strict=True), strict=True))


def _words(code: bytes) -> list[int]:
    return [int.from_bytes(code[at : at + 4], "little") for at in range(0, len(code), 4)]


def _shown(target: Target, code: bytes, insn: Insn | None, labels: dict[int, str], pc: int) -> str:
    if insn is not None and assemble_one(target, text(insn), pc) == code:
        return text(insn, labels)
    numbers = ", ".join(f"{word:#010x}" for word in _words(code))
    return f".long {numbers}" if insn is None else f".long {numbers} ; {text(insn)}"
