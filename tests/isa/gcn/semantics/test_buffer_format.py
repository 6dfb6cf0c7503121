"""Typed buffer operations: formats from the V# and from the instruction, component selection, 16-bit data, ranges."""

from __future__ import annotations

import pytest

from softcard.core.errors import BeyondModel
from softcard.isa.gcn.insn import Insn
from tests.isa.gcn.semantics import format_oracle as formats
from tests.isa.gcn.semantics.memory_rig import GPUS, Model, Rig
from tests.isa.gcn.semantics.test_buffer import RSRC, Buffer, in_range, place

ONE = 0x3F80_0000
SELECTS = ((4, 5, 6, 7), (6, 1, 0, 4), (7, 7, 1, 5))
HARD = (
    [0, 0x3F80_0000, 0x3F00_0000, 0xBF80_0000, 0x3E99_999A, 0x4000_3C00, 0x7F, 0x80, 0x3555_B800],
    [0, 1, 0x7F, 0x80, 0xFF, 0x100, 0xFFFF, 0xFFFF_FFFF, 0xFFFF_FF80, 0xFFFF_FF7F, 0x8000_0000, 0x1FF, 0xFFFF_FE00],
)
"""Floats (none of whose halves is a NaN) and integers."""
FORMATS = [(dfmt, nfmt) for dfmt in range(1, 15) for nfmt in range(8)]


def packed(gpu: str) -> bool:
    return gpu == "gfx900"


def components(m: Model, where: tuple[int, int, bool | None], b: Buffer) -> list[int]:
    """The four components, in the buffer's order."""
    element = m.peek("global", where[0], formats.size(b.dfmt)) if in_range(where, b, 0) else None
    if element is None:
        return [0, 0, 0, 0]
    parts = [
        formats.read(w, b.nfmt, n, k)
        for k, (w, n) in enumerate(zip(formats.LAYOUTS[b.dfmt], formats.split(b.dfmt, element), strict=True))
    ]
    one = 1 if b.nfmt in formats.INTEGERS else ONE
    return [n for n in parts if n is not None] + [0, 0, 0, one][len(parts) :]


def load_oracle(m: Model, insn: Insn, b: Buffer, count: int, gpu: str) -> None:
    one = 1 if b.nfmt in formats.INTEGERS else ONE
    typed = insn.form == "MTBUF"
    for lane in m.lanes:
        found = components(m, place(m, insn, b, lane), b)
        select = (4, 5, 6, 7) if typed else b.select
        values = [found[s - 4] if s >= 4 else one if s == 1 else 0 for s in select[:count]]
        if "d16" not in insn.name:
            m_values = values
        else:
            halves = [v & 0xFFFF if b.nfmt in formats.INTEGERS else formats.to_half(v) for v in values]
            if "hi" in insn.name:
                m_values = [m.v[insn["vdata"]][lane] & 0xFFFF | halves[0] << 16]
            else:
                m_values = (
                    halves
                    if not packed(gpu)
                    else [low | high << 16 for low, high in zip(halves[::2], [*halves[1::2], 0], strict=False)]
                )
        for k, v in enumerate(m_values):
            m.v[insn["vdata"] + k][lane] = v


def typed(gpu: str, dfmt: int, nfmt: int, letter: str) -> list[tuple[str, int]]:
    halves = [""] if gpu == "gfx700" else ["", "d16_"]
    return [(f"{letter}buffer_load_format_{half}{'xyzw'[:n]}", n) for half in halves for n in range(1, 5)]


@pytest.mark.parametrize("letter", ["", "t"])
@pytest.mark.parametrize("gpu", GPUS)
def test_loads_of_every_format(gpu: str, letter: str) -> None:
    for seed, (dfmt, nfmt) in enumerate(FORMATS):
        b = Buffer(
            stride=20, records=50, dfmt=dfmt, nfmt=nfmt, select=((4, 5, 6, 7), (6, 1, 0, 4), (7, 7, 1, 5))[seed % 3]
        )
        name, count = typed(gpu, dfmt, nfmt, letter)[seed % (4 if gpu == "gfx700" else 8)]
        rig = Rig(gpu, seed)
        rig.set_s(RSRC, *b.words())
        rig.set_v(2, rig.random(0, 60))
        fields = {"vaddr": 2, "vdata": 2 if seed % 2 else 8, "srsrc": RSRC, "idxen": 1, "offset": 4}
        family = "mubuf"
        if letter:
            family, fields = "mtbuf", fields | {"dfmt": dfmt, "nfmt": nfmt}
        known = all(formats.read(w, nfmt, 0) is not None for w in formats.LAYOUTS[dfmt])
        if not known or (nfmt == 6 and gpu != "gfx700"):
            with pytest.raises(BeyondModel, match="number format"):
                rig.run(family, name, **fields)
            continue
        expected, insn = rig.model(), rig.insn(family, name, **fields)
        load_oracle(expected, insn, b, count, gpu)
        rig.run(family, name, **fields)
        rig.check(expected)


def store_oracle(m: Model, insn: Insn, b: Buffer, count: int, gpu: str) -> None:
    for lane in m.lanes:
        where = place(m, insn, b, lane)
        if not in_range(where, b, 0):
            continue
        values = [m.v[insn["vdata"] + k][lane] for k in range(count)]
        if "d16" in insn.name:
            if "hi" in insn.name:
                values = [values[0] >> 16]
            elif packed(gpu):
                values = [m.v[insn["vdata"] + k // 2][lane] >> k % 2 * 16 for k in range(count)]
            values = [wide(v & 0xFFFF, b.nfmt) for v in values]
        select = (4, 5, 6, 7) if insn.form == "MTBUF" else b.select
        element, at = 0, 0
        for k, width in enumerate(formats.LAYOUTS[b.dfmt]):
            sources = [v for s, v in zip(select, values, strict=False) if s == 4 + k]
            part = formats.write(width, b.nfmt, sources[0] if sources else 0)
            assert part is not None
            element |= part << at
            at += width
        m.poke("global", where[0], formats.size(b.dfmt), element)


def wide(n: int, nfmt: int) -> int:
    """A 16-bit component as 32 bits."""
    if nfmt in formats.INTEGERS:
        return (formats.signed(16, n) if nfmt == formats.SINT else n) & 0xFFFF_FFFF
    return formats.half(n)


@pytest.mark.parametrize("letter", ["", "t"])
@pytest.mark.parametrize("gpu", GPUS)
def test_stores_of_every_format(gpu: str, letter: str) -> None:
    for seed, (dfmt, nfmt) in enumerate(FORMATS):
        b = Buffer(
            stride=20, records=50, dfmt=dfmt, nfmt=nfmt, select=((4, 5, 6, 7), (6, 1, 0, 4), (7, 7, 1, 5))[seed % 3]
        )
        load, count = typed(gpu, dfmt, nfmt, letter)[seed % (4 if gpu == "gfx700" else 8)]
        name = load.replace("load", "store")
        rig = Rig(gpu, seed)
        rig.set_s(RSRC, *b.words())
        rig.set_v(2, rig.rng.permutation(64))
        for k in range(4):
            rig.set_v(8 + k, rig.rng.choice(HARD[nfmt in formats.INTEGERS], 64))
        fields = {"vaddr": 2, "vdata": 8, "srsrc": RSRC, "idxen": 1, "offset": 4}
        family = "mubuf"
        if letter:
            family, fields = "mtbuf", fields | {"dfmt": dfmt, "nfmt": nfmt}
        if any(formats.write(w, nfmt, 0) is None for w in formats.LAYOUTS[dfmt]) or (nfmt == 6 and gpu != "gfx700"):
            with pytest.raises(BeyondModel, match="number format"):
                rig.run(family, name, **fields)
            continue
        expected, insn = rig.model(), rig.insn(family, name, **fields)
        store_oracle(expected, insn, b, count, gpu)
        rig.run(family, name, **fields)
        rig.check(expected)


@pytest.mark.parametrize("nfmt", [0, 5, 7])
def test_high_halves(nfmt: int) -> None:
    b = Buffer(stride=8, records=50, dfmt=5, nfmt=nfmt, select=(5, 4, 6, 7))
    for name, run in (("buffer_load_format_d16_hi_x", load_oracle), ("buffer_store_format_d16_hi_x", store_oracle)):
        rig = Rig("gfx900", 3)
        rig.set_s(RSRC, *b.words())
        rig.set_v(2, rig.rng.permutation(64))
        rig.set_v(8, rig.rng.choice([0x3C00_1234, 0x8000_0000, 0xB555_0000, 0x7BFF_FFFF], 64))
        fields = {"vaddr": 2, "vdata": 8, "srsrc": RSRC, "idxen": 1}
        expected = rig.model()
        run(expected, rig.insn("mubuf", name, **fields), b, 1, "gfx900")
        rig.run("mubuf", name, **fields)
        rig.check(expected)


@pytest.mark.parametrize("gpu", GPUS)
def test_the_format_of_nothing(gpu: str) -> None:
    rig = Rig(gpu, 3)
    rig.set_s(RSRC, *Buffer(dfmt=0).words())
    expected = rig.model()
    rig.run("mubuf", "buffer_store_format_xyzw", vdata=8, srsrc=RSRC)
    for lane in expected.lanes:
        for k in range(4):
            expected.v[8 + k][lane] = 0
    rig.run("mubuf", "buffer_load_format_xyzw", vdata=8, srsrc=RSRC)
    rig.check(expected)


def test_tfe_and_lds() -> None:
    b = Buffer(dfmt=4, nfmt=4)
    rig = Rig("gfx803", 3)
    rig.set_s(RSRC, *b.words())
    rig.set_s(124, 0x40)
    expected = rig.model()
    for lane in expected.lanes:
        expected.v[8][lane], expected.v[9][lane] = expected.peek("global", b.base, 4), 0
        expected.poke("lds", 0x40 + 4 * lane, 4, expected.peek("global", b.base, 4))
    rig.run("mubuf", "buffer_load_format_x", vdata=8, srsrc=RSRC, tfe=1)
    rig.run("mubuf", "buffer_load_format_x", vdata=8, srsrc=RSRC, lds=1)
    rig.check(expected)
