"""Typed buffer operations: translated code does all of them, and as exactly.

The format is in the instruction, or in the buffer resource: then code has been told what it is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

import numpy as np
import pytest

from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.semantics import memory_formats as formats
from softcard.isa.gcn.target import target
from tests.agree.gcn.bench import ODD, Outcome, Start, Translated, differences, engines, on_reference, widths
from tests.agree.gcn.test_once_wrong import DOWN, FLUSH, LANES, NEAREST, state

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


every_engine = pytest.mark.parametrize("number", range(2 * len(widths())))
"""The same, one by one."""


@cache
def referenced(name: str, code: bytes, mode: int) -> Outcome:
    """What all of them are held to."""
    expected = on_reference(name, code, start(mode))
    assert not expected.error
    return expected


def agrees(engine: Translated, half: str, nfmt: int, text: Iterable[str]) -> None:
    """Translated code does all of a program, as the reference engine does."""
    name, mode = processor(half, nfmt)
    code = assemble(target(name), "\n".join([*text, "s_endpgm"]) + "\n")
    assert not differences(referenced(name, code, mode), engine(name, code, start(mode)))
    assert not engine.stepped


def processor(half: str, nfmt: int) -> tuple[str, int]:
    """One that has these formats, and MODE."""
    plain = (("gfx700", DOWN), ("gfx803", NEAREST), ("gfx900", FLUSH))
    return ("gfx906", FLUSH | 5) if half else plain[nfmt % 3]


CASES = [(half, n) for n in range(8) for half in ("", "d16_") if not half or n != formats.SNORM_OGL]


@pytest.mark.slow
@pytest.mark.one_in(7)
@pytest.mark.parametrize(("half", "nfmt"), CASES)
@every_engine
def test_formats_in_translated_code(number: int, half: str, nfmt: int, every: list[Translated]) -> None:
    agrees(every[number], half, nfmt, lines(nfmt, half))


SELECTS = ((4, 5, 6, 7), (6, 5, 4, 7), (4, 0, 1, 5), (7, 7, 2, 3), (1, 6, 4, 4), (0, 1, 0, 6))
"""DST_SEL: where components come from."""


def resource_word(dfmt: int, nfmt: int, select: tuple[int, ...]) -> int:
    """The last word of a V#."""
    return dfmt << 15 | nfmt << 12 | sum(source << 3 * k for k, source in enumerate(select))


def resource_lines(nfmt: int, half: str) -> Iterator[str]:
    """As `lines`, with the format in the V#; each of them is executed with two."""
    rng = np.random.default_rng(nfmt)
    for number, dfmt in enumerate((*formats.BUFFER_WIDTHS, 0)):
        size = formats.element_bytes(dfmt, image=False)
        yield f"s_mov_b32 s5, {size << 16:#x}"
        name, operands = "xyzw"[: number % 4 + 1], "v9, s[4:7], 0 idxen"
        selects = [SELECTS[k] for k in rng.choice(len(SELECTS), 2, replace=False)]
        yield f"s_mov_b32 s7, {resource_word(dfmt, nfmt, selects[0]):#x}"
        yield f"s_mov_b32 s50, 2\nagain{number}:"
        if not dfmt or has(dfmt, nfmt, store=False):
            last = 32 + (len(name) - 1 >> bool(half))
            yield f"buffer_load_format_{half}{name} v[32:{last}], {operands}"
            for k in range(len(name)):
                yield f"v_xor_b32 v{40 + k}, v{40 + k}, v{32 + k}"
                yield f"v_lshlrev_b32 v{40 + k}, 1, v{40 + k}"
            if half:
                yield f"buffer_load_format_d16_hi_x v41, {operands}"
        if not dfmt or has(dfmt, nfmt, store=True):
            last = 12 + (len(name) - 1 >> bool(half))
            yield f"buffer_store_format_{half}{name} v[12:{last}], {operands}"
            if half:
                yield f"v_xor_b32 v9, 2, v9\nbuffer_store_format_d16_hi_x v13, {operands}"
            yield "v_xor_b32 v9, 1, v9"
        yield f"s_mov_b32 s7, {resource_word(dfmt, nfmt, selects[1]):#x}"
        yield f"s_sub_u32 s50, s50, 1\ns_cmp_lg_u32 s50, 0\ns_cbranch_scc1 again{number}"


@pytest.mark.slow
@pytest.mark.one_in(7)
@pytest.mark.parametrize(("half", "nfmt"), CASES)
@every_engine
def test_formats_that_the_resource_selects(number: int, half: str, nfmt: int, every: list[Translated]) -> None:
    agrees(every[number], half, nfmt, resource_lines(nfmt, half))


def test_a_resource_that_adds_the_lane_has_no_format(every: list[Translated]) -> None:
    """From GFX8 on the data format's bits are stride then: loads give 0, and stores do nothing."""
    load, store = "buffer_load_format_xyzw v[32:35]", "buffer_store_format_x v12"
    operands = "v9, s[4:7], 0 idxen"
    code = assemble(target("gfx803"), f"{load}, {operands}\n{store}, {operands}\ns_endpgm\n")
    begin = start(NEAREST)
    begin.sgprs[5] = 4 << 16
    begin.sgprs[7] = resource_word(4, formats.FLOAT, SELECTS[0]) | 1 << 23
    expected = on_reference("gfx803", code, begin)
    assert not expected.error
    for engine in every:
        assert not differences(expected, engine("gfx803", code, begin)), engine
        assert not engine.stepped, engine


def test_a_format_that_is_not_modelled_is_found_by_the_reference_engine(every: list[Translated]) -> None:
    """Where code has been told of another one, and where it has not."""
    lines = [
        "s_mov_b32 s50, 2\nagain:",
        "buffer_load_format_x v32, v9, s[4:7], 0 idxen",
        f"s_mov_b32 s7, {resource_word(15, formats.UINT, SELECTS[0]):#x}",
        "s_sub_u32 s50, s50, 1\ns_cmp_lg_u32 s50, 0\ns_cbranch_scc1 again\ns_endpgm\n",
    ]
    code = assemble(target("gfx900"), "\n".join(lines))
    for first in (4, 15):
        begin = start(FLUSH)
        begin.sgprs[5], begin.sgprs[7] = 4 << 16, resource_word(first, formats.UINT, SELECTS[0])
        expected = on_reference("gfx900", code, begin)
        assert "data format 15" in expected.error
        for engine in every:
            assert not differences(expected, engine("gfx900", code, begin)), engine
