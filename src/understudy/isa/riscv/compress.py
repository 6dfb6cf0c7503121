"""From instructions of 32 bits to the compressed ones that mean the same, as assemblers choose them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from typing import Final

from understudy.core.errors import WireError
from understudy.isa.riscv.rows import Row
from understudy.isa.riscv.table import BASE, PARCELS, Expansion

_COMMUTES: Final = frozenset({"add", "addw", "and", "or", "xor"})
_HINT_RD: Final = frozenset({"c.li", "c.lui", "c.slli", "c.mv", "c.add"})
_HINT_IMM: Final = frozenset({"c.addi", "c.slli", "c.srli", "c.srai"})
"""Forms that are hints where rd is x0, or where the immediate is 0: nothing becomes one of them by itself."""


@cache
def _forms() -> Mapping[str, list[Row[Expansion]]]:
    """Compressed forms by the name of what they expand to."""
    found: defaultdict[str, list[Row[Expansion]]] = defaultdict(list)
    for row in PARCELS:
        found[row.what.spec.name].append(row)
    return dict(found)


def compressed(name: str, fields: Mapping[str, int]) -> int | None:
    """The parcel that means the same as a base instruction with these fields; None where there is none."""
    forms = _forms().get(name)
    if forms is None:
        return None
    values = dict.fromkeys(("rd", "rs1", "rs2", "imm"), 0) | dict(fields)
    if name == "addi" and not values["imm"] and values["rs1"] and values["rd"]:
        return compressed("add", {"rd": values["rd"], "rs1": 0, "rs2": values["rs1"]})
    for form in forms:
        parcel = _parcel(form, values)
        if parcel is not None:
            return parcel
    if name in _COMMUTES and values["rs1"] != values["rs2"]:
        swapped = values | {"rs1": values["rs2"], "rs2": values["rs1"]}
        return next((parcel for form in forms if (parcel := _parcel(form, swapped)) is not None), None)
    return None


def _parcel(form: Row[Expansion], values: Mapping[str, int]) -> int | None:
    what = form.what
    if any(values[field] != number for field, number in what.fixed.items()):
        return None
    fields: dict[str, int] = {}
    for field, source in what.copied.items():
        if fields.setdefault(source, values[field]) != values[field]:
            return None
    if form.name in _HINT_RD and not fields.get("rd"):
        return None
    if (form.name in _HINT_IMM and not fields.get("imm")) or (form.name == "c.nop" and fields.get("imm")):
        return None
    try:
        return PARCELS.encode(form.name, fields)
    except WireError:
        return None


def shortest(word: int) -> bytes:
    """The bytes of a base instruction, as a compressed one where there is one."""
    row = BASE.find(word)
    parcel = compressed(row.name, row.pattern.decode(word)) if row is not None else None
    return word.to_bytes(4, "little") if parcel is None else parcel.to_bytes(2, "little")
