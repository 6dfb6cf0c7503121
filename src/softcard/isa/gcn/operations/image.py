"""The table of image operations (encoding MIMG)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from softcard.isa.gcn.insn import Accuracy, Op, Row, SpecialisedExecution, ops
from softcard.isa.gcn.semantics.access import ATOMICS, FLOAT_ATOMICS
from softcard.isa.gcn.semantics.image import plain
from softcard.isa.gcn.semantics.image import sample as sampled
from softcard.isa.gcn.semantics.image.resource import selectors

LINEAR_ONLY: Final = Accuracy("exact", "linear images of one level", "gcn/image-layout")
ROUNDED: Final = Accuracy("chosen", "", "gcn/format-write")
ABSENT: Final = Accuracy("absent", "", "not documented")
WEIGHTS: Final = Accuracy("chosen", "weights are not rounded to fractions of 1/256", "gcn/filter-weights")

# fmt: off
PLAIN: Final[tuple[tuple[str, int, SpecialisedExecution], ...]] = (
    ("image_load",             0x00, plain.load(mip=False)),
    ("image_load_mip",         0x01, plain.load(mip=True)),
    ("image_load_pck",         0x02, plain.load_raw(mip=False)),
    ("image_load_pck_sgn",     0x03, plain.load_raw(mip=False, signed=True)),
    ("image_load_mip_pck",     0x04, plain.load_raw(mip=True)),
    ("image_load_mip_pck_sgn", 0x05, plain.load_raw(mip=True, signed=True)),
    ("image_store",            0x08, plain.store(mip=False)),
    ("image_store_mip",        0x09, plain.store(mip=True)),
    ("image_store_pck",        0x0A, plain.store_raw(mip=False)),
    ("image_store_mip_pck",    0x0B, plain.store_raw(mip=True)),
    ("image_get_resinfo",      0x0E, plain.resinfo),
)
ATOMIC_CODES: Final[dict[str, tuple[int | None, int | None]]] = {
    "swap":     (0x0F, 0x10),
    "cmpswap":  (0x10, 0x11),
    "add":      (0x11, 0x12),
    "sub":      (0x12, 0x13),
    "rsub":     (0x13, None),
    "smin":     (0x14, 0x14),
    "umin":     (0x15, 0x15),
    "smax":     (0x16, 0x16),
    "umax":     (0x17, 0x17),
    "and":      (0x18, 0x18),
    "or":       (0x19, 0x19),
    "xor":      (0x1A, 0x1A),
    "inc":      (0x1B, 0x1B),
    "dec":      (0x1C, 0x1C),
    "fcmpswap": (0x1D, None),
    "fmin":     (0x1E, None),
    "fmax":     (0x1F, None),
}
# fmt: on
LEVELS: Final = ("", "cl", "d", "d_cl", "l", "b", "b_cl", "lz")
"""The ways to compute the LOD, by the low three bits of the opcode.

Bit 3 of the opcode adds a comparison (c), bit 4 adds offsets (o).
"""
GATHERS: Final = ("", "cl", "l", "b", "b_cl", "lz")
COARSE: Final = ("cd", "cd_cl")
"""The ways to compute the LOD with coarse gradients; opcode bit 1 adds a comparison, bit 2 adds offsets.

Their opcodes begin at 0x68.
"""


def variant(compare: bool, level: str, offset: bool) -> tuple[str, ...]:
    """Return the parts of a mnemonic that follow image_sample or image_gather4, such as ("c", "lz", "o").

    `level` is the part that says how the LOD is computed, for example "lz" or "b_cl"."""
    return tuple(part for part in ("c" if compare else "", *level.split("_"), "o" if offset else "") if part)


def sampling() -> Iterator[Row]:
    """Yield the table rows of all image operations that use a sampler."""
    extras: dict[str, Any] = {
        "operands": "vdata vaddr srsrc:8 ssamp:4", "accuracy": WEIGHTS, "selectors": sampled.selectors,
        "lacks": "gfx90a",
    }  # fmt: skip
    for offset in (False, True):
        for compare in (False, True):
            for k, level in enumerate(LEVELS):
                parts = variant(compare, level, offset)
                code = 0x20 | offset << 4 | compare << 3 | k
                yield (
                    "_".join(("image_sample", *parts)),
                    code,
                    code,
                    code,
                    None,
                    sampled.sample(*parts),
                    extras | ({} if parts else {"lacks": "gfx940"}),
                )
                if level in GATHERS:
                    code += 0x20
                    yield "_".join(("image_gather4", *parts)), code, code, code, None, sampled.gather(*parts), extras
            for k, level in enumerate(COARSE):
                parts = variant(compare, level, offset)
                code = 0x68 | offset << 2 | compare << 1 | k
                yield "_".join(("image_sample", *parts)), code, code, code, None, sampled.sample(*parts), extras
    yield "image_gather4h", None, None, 0x42, None, sampled.gather_row, extras | {"accuracy": ABSENT}
    yield "image_get_lod", 0x60, 0x60, 0x60, None, sampled.get_lod, extras


def rows() -> Iterator[Row]:
    """Yield the table rows of all image operations."""
    extras = {"operands": "vdata vaddr srsrc:8", "accuracy": LINEAR_ONLY, "selectors": selectors, "lacks": "gfx940"}
    for name, code, semantics in PLAIN:
        accuracy = ROUNDED if name in ("image_store", "image_store_mip") else LINEAR_ONLY
        yield name, code, code, code, None, semantics, extras | {"accuracy": accuracy}
    for kind in (*ATOMICS, "rsub", *FLOAT_ATOMICS):
        op7, op8 = ATOMIC_CODES[kind]
        yield f"image_atomic_{kind}", op7, op8, op8, None, plain.atomic(kind), extras
    yield from sampling()


OPS: Final[tuple[Op, ...]] = ops("mimg", tuple(rows()))
"""The operations of MIMG."""
