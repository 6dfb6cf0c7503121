"""The table of buffer operations (encodings MUBUF and MTBUF)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from softcard.isa.gcn.insn import EXACT, Accuracy, Op, Row, ops
from softcard.isa.gcn.operations.flat import LOAD_CODES, NEW_ATOMICS, STORE_CODES, SUMS, atomic_codes
from softcard.isa.gcn.semantics import buffer_format as typed
from softcard.isa.gcn.semantics import buffer_plain as plain
from softcard.isa.gcn.semantics.access import ATOMICS, FLOAT_ATOMICS, LOADS, STORES, takes_compare

ADDRESS: Final = "vaddr srsrc:4 soffset"
ROUNDED: Final = Accuracy("chosen", "", "gcn/format-write")


def formats(letter: str, first7: int | None, first8: int, mode: str) -> Iterator[Row]:
    """Yield the table rows of four typed buffer operations, for 1 to 4 components (x to xyzw).

    `mode` is "load_format" or "store_format", followed by "_d16" for 16-bit data. `letter` is "t" if the format
    is in the instruction (MTBUF), else "" (MUBUF: the format is in the V#). The opcodes start at `first7` on
    GFX7 and `first8` on later generations."""
    load = "load" in mode
    half = "_d16" in mode
    for k, components in enumerate(("x", "xy", "xyz", "xyzw")):
        name = f"{letter}buffer_{mode}_{components}"
        shaped = (typed.load if load else typed.store)(k + 1, half=half)
        semantics = typed.from_instruction(shaped) if letter else typed.from_resource(shaped)
        op7 = None if first7 is None else first7 + k
        accuracy = EXACT if load else ROUNDED
        extras = {
            "operands": f"vdata:{k + 1} {ADDRESS}",
            "selectors": None if letter else typed.selectors,
            "accuracy": accuracy,
        }
        yield name, op7, first8 + k, first8 + k, None, semantics, extras


def all_formats(letter: str) -> Iterator[Row]:
    """Yield the table rows of all typed buffer operations: those of MTBUF if `letter` is "t", else those of MUBUF."""
    yield from formats(letter, 0, 0, "load_format")
    yield from formats(letter, 4, 4, "store_format")
    yield from formats(letter, None, 8, "load_format_d16")
    yield from formats(letter, None, 12, "store_format_d16")


def rows() -> Iterator[Row]:
    """Yield the table rows of all MUBUF operations."""
    yield from all_formats("")
    for name, codes in LOAD_CODES.items():
        how = LOADS[name]
        yield f"buffer_load_{name}", *codes, None, plain.load(how), {"operands": f"vdata:{how.registers} {ADDRESS}"}
    for name, codes in STORE_CODES.items():
        how = STORES[name]
        yield f"buffer_store_{name}", *codes, None, plain.store(how), {"operands": f"vdata:{how.registers} {ADDRESS}"}
    high = {"operands": f"vdata {ADDRESS}", "selectors": typed.selectors}
    yield "buffer_load_format_d16_hi_x", None, None, 0x26, None, typed.from_resource(typed.load_high), high
    yield "buffer_store_format_d16_hi_x", None, None, 0x27, None, typed.from_resource(typed.store_high), high
    yield "buffer_store_lds_dword", None, 0x3D, 0x3D, None, plain.store_lds, {"operands": "srsrc:4 soffset"}
    yield "buffer_wbinvl1", 0x71, 0x3E, 0x3E, None, plain.order("wbinvl1"), {"lacks": "gfx940"}
    yield "buffer_wbinvl1_vol", 0x70, 0x3F, 0x3F, None, plain.order("wbinvl1_vol"), {"lacks": "gfx940"}
    yield "buffer_wbl2", None, None, 0x28, None, plain.order("wbl2"), {"needs": "gfx90a"}
    yield "buffer_invl2", None, None, 0x29, None, plain.order("invl2"), {"needs": "gfx90a", "lacks": "gfx940"}
    yield "buffer_inv", None, None, 0x29, None, plain.order("inv"), {"needs": "gfx940"}
    for name, kind, bits, code, needs in NEW_ATOMICS:
        extras = {"operands": f"vdata:{bits // 32} {ADDRESS}", "accuracy": SUMS}
        extras["needs"] = "gfx950" if kind == "badd" else needs
        yield f"buffer_atomic_{name}", None, None, code, None, plain.atomic(kind, bits), extras
    for kind in ATOMICS + FLOAT_ATOMICS:
        for bits in (32, 64):
            n = bits // 32 * (2 if takes_compare(kind) else 1)
            name = f"buffer_atomic_{kind}" + ("_x2" if bits == 64 else "")
            yield name, *atomic_codes(kind, bits), None, plain.atomic(kind, bits), {"operands": f"vdata:{n} {ADDRESS}"}


OPS: Final[tuple[Op, ...]] = (*ops("mubuf", tuple(rows())), *ops("mtbuf", tuple(all_formats("t"))))
"""The operations of MUBUF and MTBUF."""
