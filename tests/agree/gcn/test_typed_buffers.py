"""Typed buffer operations with the format in the instruction: translated code does all of them, and as exactly."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.agree.gcn.bench import ODD, Start, Translated, differences, engines, on_reference
from tests.agree.gcn.test_once_wrong import DOWN, FLUSH, LANES, NEAREST, state
from understudy.isa.gcn.asm.assembler import assemble
from understudy.isa.gcn.semantics import memory_formats as formats
from understudy.isa.gcn.target import target

HARD = np.array(
    [
        0, 0x8000_0000, 1, 0x3F80_0000, 0xBF80_0000, 0x3F7F_FFFF, 0x3F80_0001, 0x3F00_0000, 0xBEFF_FFFF, 0x7F80_0000,
        0xFF80_0000, 0x7FC0_0000, 0xFFFF_FFFF, 0x7F80_0001, 0x477F_E000, 0x477F_F000, 0x477F_EFFF, 0x3880_0000,
        0x387F_C000, 0x3380_0000, 0x3300_0001, 0x477C_0000, 0x477E_0000, 0x3B80_8081, 0xFF, 0x7F, 0x80, 0xFFFF_FF7F,
    ],
    np.uint32,
)  # fmt: skip
OPERANDS = "v9, s[4:7], 0 dfmt:{} nfmt:{} idxen"


def has(dfmt: int, nfmt: int, *, store: bool) -> bool:
    """Whether elements of a format can be read, or written."""
    if store and nfmt in (formats.USCALED, formats.SSCALED, formats.SNORM_OGL):
        return False
    layout = formats.widths(dfmt, image=False)
    if nfmt == formats.FLOAT:
        return set(layout) <= {10, 11, 16, 32}
    return nfmt not in (formats.UNORM, formats.SNORM, formats.SNORM_OGL) or 32 not in layout


def lines(nfmt: int, half: str) -> Iterator[str]:
    """All data formats, from one to four components: what memory holds, then other numbers into it."""
    for dfmt in formats.BUFFER_WIDTHS:
        size = formats.element_bytes(dfmt, image=False)
        yield f"s_mov_b32 s5, {size << 16:#x}"
        name = "xyzw"[: dfmt % 4 + 1]
        if has(dfmt, nfmt, store=False):
            last = 32 + (len(name) - 1 >> bool(half))
            yield f"tbuffer_load_format_{half}{name} v[32:{last}], " + OPERANDS.format(dfmt, nfmt)
            for k in range(len(name)):
                yield f"v_xor_b32 v{40 + k}, v{40 + k}, v{32 + k}"
                yield f"v_lshlrev_b32 v{40 + k}, 1, v{40 + k}"
        if has(dfmt, nfmt, store=True):
            last = 12 + (len(name) - 1 >> bool(half))
            yield f"tbuffer_store_format_{half}{name} v[12:{last}], " + OPERANDS.format(dfmt, nfmt)
            yield "v_xor_b32 v9, 1, v9"


def start(mode: int) -> Start:
    """V# in s4 to s7: memory that neither begins nor ends with a page; hard numbers in v12 to v15."""
    rng = np.random.default_rng(mode)
    made = state(mode, s4=ODD, s6=60, v9=rng.permutation(LANES), exec_=0xFFFF_FFFE_7FFF_FFFD)
    for k in range(4):
        made.vgprs[12 + k] = np.where(rng.random(64) < 0.6, rng.choice(HARD, 64), rng.integers(0, 1 << 32, 64))
    made.data[:] = rng.integers(0, 256, made.data.size)
    return made


@pytest.fixture(scope="module")
def every() -> list[Translated]:
    """All widths and tiers."""
    return engines()


@pytest.mark.parametrize(
    ("half", "nfmt"), [(half, n) for n in range(8) for half in ("", "d16_") if not half or n != formats.SNORM_OGL]
)
def test_formats_in_translated_code(half: str, nfmt: int, every: list[Translated]) -> None:
    plain = (("gfx700", DOWN), ("gfx803", NEAREST), ("gfx900", FLUSH))
    name, mode = ("gfx906", FLUSH | 5) if half else plain[nfmt % 3]
    code = assemble(target(name), "\n".join([*lines(nfmt, half), "s_endpgm"]) + "\n")
    begin = start(mode)
    expected = on_reference(name, code, begin)
    assert not expected.error
    for engine in every:
        assert not differences(expected, engine(name, code, begin)), engine
        assert not engine.stepped, engine
