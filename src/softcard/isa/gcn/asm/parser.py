"""Parser of one instruction's text: operands, then modifiers, into the fields of an `InsnBuilder`."""

from __future__ import annotations

import re
from typing import Final

from softcard.core.display import count
from softcard.core.errors import WireError
from softcard.isa.gcn.asm.insn_builder import InsnBuilder
from softcard.isa.gcn.asm.modifiers import FLAGS, read_modifier
from softcard.isa.gcn.asm.operands import OPERANDS
from softcard.isa.gcn.encoding.shape import Slot

_OPEN: Final = "([{"
_CLOSE: Final = ")]}"


def split(text: str, separator: str) -> list[str]:
    """Return `text` split at a separator outside of brackets and bars, with blanks trimmed."""
    parts, depth, start, quoted = [], 0, 0, False
    for at, letter in enumerate(text):
        depth += (letter in _OPEN) - (letter in _CLOSE)
        quoted ^= letter == '"'
        if letter == separator and depth == 0 and not quoted:
            parts.append(text[start:at].strip())
            start = at + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part] if separator == " " else parts


def read(builder: InsnBuilder, text: str) -> None:
    """Parse the text after the mnemonic into `builder`; raise `WireError` for values that its encoding cannot hold."""
    operands, modifiers = _parts(builder, text)
    for modifier in modifiers:
        try:
            read_modifier(builder, modifier)
        except WireError as error:
            raise error.in_operand(modifier) from None
    shown = builder.visible()
    kinds = [slot.kind for slot in shown]
    if builder.op.family == "scratch" and "sve" in builder.fields and len(operands) == len(shown):
        at = next(n for n, slot in enumerate(shown) if slot.field in ("addr", "off"))
        builder.fields["sve"] = int(operands[at] != "off")
        shown = builder.visible()
        kinds = [slot.kind for slot in shown]
    if "saddr" in kinds and len(operands) == len(kinds):  # first, since it determines the width of the vector address
        at = kinds.index("saddr")
        _read_operand(builder, shown[at], operands[at], at)
        shown = builder.visible()
    if kinds == ["quiet"] and not operands:
        return
    if len(operands) != len(shown):
        raise WireError(f"{builder.op.name} takes {count(len(shown), 'operand')} here, not {len(operands)}")
    for number, (slot, operand) in enumerate(zip(shown, operands, strict=True)):
        _read_operand(builder, slot, operand, number)


def _read_operand(builder: InsnBuilder, slot: Slot, text: str, number: int) -> None:
    """Parse an operand; errors name it by its `number`, except in exports, whose first operands have no comma."""
    try:
        OPERANDS[slot.kind].read(builder, slot, text)
    except WireError as error:
        raise error.in_operand(text, -1 if builder.form == "EXP" else number) from None


def _parts(builder: InsnBuilder, text: str) -> tuple[list[str], list[str]]:
    """Return the texts of the operands and those of the modifiers in an instruction's text."""
    if [slot.kind for slot in builder.visible()] in (["waitcnt"], ["message"]):
        return [text.strip()], []
    parts = split(text, ",") if text.strip() else []
    modifiers: list[str] = []
    if parts:
        last = split(parts[-1], " ")
        keep = 0 if len(parts) == 1 and _is_modifier(last[0]) else 1
        if builder.form == "EXP" and len(parts) == 1:
            keep = len(last)
        modifiers = last[keep:]
        parts[-1:] = last[:keep]
    if builder.form == "EXP" and parts:
        parts[:1] = split(parts[0], " ")
    return parts, modifiers


def _is_modifier(text: str) -> bool:
    return text in FLAGS or re.match(r"[a-z]\w*:", text) is not None
