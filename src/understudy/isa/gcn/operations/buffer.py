"""MUBUF and MTBUF: the table of buffer operations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from understudy.isa.gcn.insn import EXACT, Accuracy, Op, Row, ops
from understudy.isa.gcn.operations.flat import LOAD_CODES, STORE_CODES, atomic_codes
from understudy.isa.gcn.semantics import buffer_format as typed
from understudy.isa.gcn.semantics import buffer_plain as plain
from understudy.isa.gcn.semantics.access import ATOMICS, FLOAT_ATOMICS, LOADS, STORES, takes_compare

ADDRESS: Final = "vaddr srsrc:4 soffset"
ROUNDED: Final = Accuracy("chosen", "", "gcn/format-write")


def formats(letter: str, first7: int | None, first8: int, mode: str) -> Iterator[Row]:
    """Four typed operations, x to xyzw. `letter`: "" or "t" (the format is in the instruction)."""
    load = "load" in mode
    half = "_d16" in mode
    for k, components in enumerate(("x", "xy", "xyz", "xyzw")):
        name = f"{letter}buffer_{mode}_{components}"
        shaped = (typed.load if load else typed.store)(k + 1, half=half)
        meaning = typed.from_instruction(shaped) if letter else typed.from_resource(shaped)
        op7 = None if first7 is None else first7 + k
        accuracy = EXACT if load else ROUNDED
        extras = {"operands": f"vdata:{k + 1} {ADDRESS}", "told": None if letter else typed.told, "accuracy": accuracy}
        yield name, op7, first8 + k, first8 + k, None, meaning, extras


def all_formats(letter: str) -> Iterator[Row]:
    """All typed operations of an encoding."""
    yield from formats(letter, 0, 0, "load_format")
    yield from formats(letter, 4, 4, "store_format")
    yield from formats(letter, None, 8, "load_format_d16")
    yield from formats(letter, None, 12, "store_format_d16")


def rows() -> Iterator[Row]:
    """All MUBUF operations."""
    yield from all_formats("")
    for name, codes in LOAD_CODES.items():
        how = LOADS[name]
        yield f"buffer_load_{name}", *codes, None, plain.load(how), {"operands": f"vdata:{how.registers} {ADDRESS}"}
    for name, codes in STORE_CODES.items():
        how = STORES[name]
        yield f"buffer_store_{name}", *codes, None, plain.store(how), {"operands": f"vdata:{how.registers} {ADDRESS}"}
    high = {"operands": f"vdata {ADDRESS}", "told": typed.told}
    yield "buffer_load_format_d16_hi_x", None, None, 0x26, None, typed.from_resource(typed.load_high), high
    yield "buffer_store_format_d16_hi_x", None, None, 0x27, None, typed.from_resource(typed.store_high), high
    yield "buffer_store_lds_dword", None, 0x3D, 0x3D, None, plain.store_lds, {"operands": "srsrc:4 soffset"}
    yield "buffer_wbinvl1", 0x71, 0x3E, 0x3E, None, plain.order("wbinvl1")
    yield "buffer_wbinvl1_vol", 0x70, 0x3F, 0x3F, None, plain.order("wbinvl1_vol")
    for kind in ATOMICS + FLOAT_ATOMICS:
        for bits in (32, 64):
            n = bits // 32 * (2 if takes_compare(kind) else 1)
            name = f"buffer_atomic_{kind}" + ("_x2" if bits == 64 else "")
            yield name, *atomic_codes(kind, bits), None, plain.atomic(kind, bits), {"operands": f"vdata:{n} {ADDRESS}"}


OPS: Final[tuple[Op, ...]] = (*ops("mubuf", tuple(rows())), *ops("mtbuf", tuple(all_formats("t"))))
"""All operations of MUBUF and MTBUF."""
