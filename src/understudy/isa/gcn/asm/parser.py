"""Reading the text of one instruction: operands, then modifiers, into the fields of a draft."""

from __future__ import annotations

import re
from typing import Final

from understudy.core.errors import WireError
from understudy.isa.gcn.asm.draft import Draft
from understudy.isa.gcn.asm.modifiers import FLAGS, read_modifier
from understudy.isa.gcn.asm.operands import OPERANDS

_OPEN: Final = "([{"
_CLOSE: Final = ")]}"


def split(text: str, separator: str) -> list[str]:
    """`text` split at a separator outside of brackets and bars, blanks trimmed."""
    parts, depth, start, quoted = [], 0, 0, False
    for at, letter in enumerate(text):
        depth += (letter in _OPEN) - (letter in _CLOSE)
        quoted ^= letter == '"'
        if letter == separator and depth == 0 and not quoted:
            parts.append(text[start:at].strip())
            start = at + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part] if separator == " " else parts


def read(draft: Draft, text: str) -> None:
    """Fill the draft from everything behind the mnemonic; `WireError` for what its form cannot hold."""
    operands, modifiers = _parts(draft, text)
    for modifier in modifiers:
        read_modifier(draft, modifier)
    shown = draft.visible()
    kinds = [slot.kind for slot in shown]
    if "saddr" in kinds and len(operands) == len(kinds):  # what decides how the vector address looks
        at = kinds.index("saddr")
        OPERANDS["saddr"].read(draft, shown[at], operands[at])
        shown = draft.visible()
    if kinds == ["quiet"] and not operands:
        return
    if len(operands) != len(shown):
        raise WireError(f"{draft.op.name} takes {len(shown)} operands here, not {len(operands)}")
    for slot, operand in zip(shown, operands, strict=True):
        OPERANDS[slot.kind].read(draft, slot, operand)


def _parts(draft: Draft, text: str) -> tuple[list[str], list[str]]:
    """Operand texts and modifier texts."""
    if [slot.kind for slot in draft.visible()] in (["waitcnt"], ["message"]):
        return [text.strip()], []
    parts = split(text, ",") if text.strip() else []
    modifiers: list[str] = []
    if parts:
        last = split(parts[-1], " ")
        keep = 0 if len(parts) == 1 and _is_modifier(last[0]) else 1
        if draft.form == "EXP" and len(parts) == 1:
            keep = len(last)
        modifiers = last[keep:]
        parts[-1:] = last[:keep]
    if draft.form == "EXP" and parts:
        parts[:1] = split(parts[0], " ")
    return parts, modifiers


def _is_modifier(text: str) -> bool:
    return text in FLAGS or re.match(r"[a-z]\w*:", text) is not None
