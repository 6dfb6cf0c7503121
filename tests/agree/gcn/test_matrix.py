"""Every matrix instruction on all tiers: with NumPy on random registers, with undefined bits, and in whole programs."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest

from softcard.core.errors import SoftcardError
from softcard.engine.gcn.tiered.translation import Tier
from softcard.isa.gcn.encoding.decode import decode
from softcard.isa.gcn.encoding.encode import encode
from softcard.isa.gcn.insn import Insn, Op
from softcard.isa.gcn.operations.mai import use_of
from softcard.isa.gcn.operations.table import OPS
from softcard.isa.gcn.semantics.matrix.table import FORMATS, matrices
from softcard.isa.gcn.state import VGPRS
from softcard.isa.gcn.target import Target, target
from tests.agree.gcn import fuzz, shadowed, values
from tests.agree.gcn.bench import Outcome, Start, Translated, differences, engines, on_reference, widths
from tests.agree.gcn.programs import Builder, Item, Program, listing, plain, start, weighted
from tests.agree.gcn.shadowed import ShadowedJit, shadowed_reference
from tests.agree.gcn.shrink import report, shrink
from tests.conftest import Seeds
from tests.isa.gcn.semantics import matrix_oracle as oracle
from tests.isa.gcn.semantics.matrix_oracle import Array, Fields
from tests.isa.gcn.semantics.test_matrix import ALL, IDS, random_fields

A, B, INDEX, C, D = 16, 24, 32, 64, 128
SCALES = 34, 37
"""Registers of the operands, of either file; those below hold addresses."""

OF_TARGET = {
    (name, op.name): op
    for name in ("gfx908", "gfx90a", "gfx942", "gfx950")
    for op in OPS
    if op.family in ("mai", "vop3px") and op.on(target(name))
}


@cache
def every() -> list[Translated]:
    return engines()


@cache
def with_shadows() -> list[ShadowedJit]:
    return [ShadowedJit(widths()[-1], tier) for tier in (Tier.THREADED, Tier.OPTIMISED)]


def decoded(name: str, code: bytes) -> Insn:
    return decode(target(name), list(np.frombuffer(code, np.uint32).tolist()), 0)


def made(rng: np.random.Generator, key: tuple[str, str], wanted: Fields, is_constant: bool = False) -> bytes:
    """One instruction with registers of random files, D in place of C half of the time."""
    name, matrix, op = key[0], matrices()[key], OF_TARGET[key]
    while True:
        a, b, c, d = (int(rng.integers(0, 2)) * VGPRS for _ in range(4))
        fields = {"cbsz": wanted.cbsz, "abid": wanted.abid, "blgp": wanted.blgp}
        if matrix.takes_formats:
            fields |= {"cbsz": FORMATS.index(wanted.a or matrix.a), "blgp": FORMATS.index(wanted.b or matrix.b)}
        fields |= {"src0": 256 + a + A, "src1": 256 + b + B, "src2": 256 + c + C, "vdst": d + D}
        if matrix.is_sparse:
            fields |= {"src2": 256 + INDEX, "vdst": c + C}
        elif is_constant:
            fields["src2"] = int(rng.choice([128, 129, 193, 242, 245, 240]))
        elif rng.random() < 0.5:
            fields["vdst"] = c + C
        form = "MAI"
        if matrix.is_scaled:
            form, (one, other) = "VOP3PX", wanted.scale_bytes
            del fields["abid"]
            fields |= {"scale_a": 256 + SCALES[0], "scale_b": 256 + SCALES[1]}
            fields |= {"op_sel": one & 1 | (other & 1) << 1, "op_sel_hi": one >> 1 | other & 2}
        try:
            code = encode(target(name), op, form, fields)
            assert decoded(name, code).op is op
        except SoftcardError:
            continue
        return code


def program(rng: np.random.Generator, name: str, code: bytes) -> Program:
    """The instruction where both files hold the same, under a random EXEC."""
    builder = Builder(rng, target(name))
    use = use_of(decoded(name, code))
    rows = sorted({n % VGPRS for n in use.reads | set(use.d_rows)})
    builder.text("s_mov_b64 exec, -1", *(f"v_accvgpr_write_b32 a{n}, v{n}" for n in rows))
    mask = values.mask(rng)
    builder.text(f"s_mov_b32 exec_lo, {mask & 0xFFFF_FFFF:#x}", f"s_mov_b32 exec_hi, {mask >> 32:#x}")
    builder.items.append(Item(code))
    return Program(builder.target, tuple(builder.items))


def state_of(rng: np.random.Generator, a: Array, b: Array, c: Array, fields: Fields | None = None) -> Start:
    state = start(rng, bad=0.0, tame=True)
    state.vgprs = values.rows(rng, 192)
    index, scales = (None, None) if fields is None else (fields.index, fields.scales)
    for first, rows in ((A, a), (B, b), (C, c), (INDEX, index), *zip(SCALES, scales or (None, None), strict=True)):
        if rows is not None:
            rows = rows.reshape(-1, 64)
            state.vgprs[first : first + len(rows)] = rows
    return state


def rows_of(outcome: Outcome, first: int, count: int) -> Any:
    file = outcome.parts["vgpr" if first < VGPRS else "acc"]
    return file[first % VGPRS : first % VGPRS + count]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("key", ALL, ids=IDS)
def test_all_tiers_agree_with_numpy(key: tuple[str, str], seeds: Seeds) -> None:
    matrix, rng = matrices()[key], np.random.default_rng(11)
    for _ in seeds(2, 1):
        fields = random_fields(rng, matrix)
        a, b, c = oracle.registers(rng, matrix, fields)
        code = made(rng, key, fields)
        use = use_of(decoded(key[0], code))
        text, state = program(rng, key[0], code), state_of(rng, a, b, c, fields)
        wanted = oracle.product(matrix, a, b, c, fields)
        expected = on_reference(key[0], text.code(), state)
        assert not expected.error
        shown = listing(text.target, text.code())
        assert (rows_of(expected, use.d, len(use.d_rows)) == wanted).all(), shown
        for engine in every():
            lines = differences(expected, engine(key[0], text.code(), state))
            assert not lines, "\n".join([str(engine), shown, *lines])
            assert not engine.stepped & set(range(0x10_0000, 0x11_0000)), "the instruction was not translated"


@pytest.mark.one_in(4)
@pytest.mark.parametrize("key", [key for key in ALL if not matrices()[key].is_sparse], ids=str)
def test_a_constant_is_every_element_of_c(key: tuple[str, str]) -> None:
    matrix, rng = matrices()[key], np.random.default_rng(12)
    fields = random_fields(rng, matrix)
    a, b, c = oracle.registers(rng, matrix, fields)
    code = made(rng, key, fields, is_constant=True)
    use = use_of(decoded(key[0], code))
    assert use.c is None
    parts = (use.constant, use.constant >> 32) if matrix.d.bits == 64 else (use.constant,)
    for n, part in enumerate(parts):
        c[n :: len(parts)] = part & 0xFFFF_FFFF
    text, state = program(rng, key[0], code), state_of(rng, a, b, c, fields)
    expected = on_reference(key[0], text.code(), state)
    wanted = oracle.product(matrix, a, b, c, fields)
    assert (rows_of(expected, use.d, len(use.d_rows)) == wanted).all()
    for engine in every():
        assert not differences(expected, engine(key[0], text.code(), state)), engine


# ---- overlapping registers -------------------------------------------------------------------------------------------
OVERLAPS = (
    ("v_mfma_f32_16x16x16f16", {"vdst": 16, "src0": 272, "src1": 280, "src2": 320}),
    ("v_mfma_f32_16x16x16f16", {"vdst": 24, "src0": 272, "src1": 280, "src2": 242}),
    ("v_mfma_f32_16x16x16f16", {"vdst": 18, "src0": 272, "src1": 280, "src2": 272}),
    ("v_mfma_f32_16x16x16f16", {"vdst": 16, "src0": 272, "src1": 280, "src2": 274}),
    ("v_mfma_f32_32x32x4f16", {"vdst": 16, "src0": 272, "src1": 280, "src2": 272, "cbsz": 1, "abid": 1}),
    ("v_mfma_f32_4x4x4f16", {"vdst": 16, "src0": 272, "src1": 272, "src2": 274, "blgp": 3}),
)
"""D over A, B, and a part of C, which decoders accept for four registers."""


@pytest.mark.parametrize(("mnemonic", "fields"), OVERLAPS, ids=str)
def test_operands_are_read_before_d_is_written(mnemonic: str, fields: dict[str, int]) -> None:
    rng, name = np.random.default_rng(13), "gfx90a"
    matrix = matrices()[name, mnemonic]
    code = encode(target(name), OF_TARGET[name, mnemonic], "MAI", fields)
    use = use_of(decoded(name, code))
    state = start(rng, bad=0.0, tame=True)
    state.vgprs = rng.normal(size=(192, 128)).astype(np.float16).view(np.uint32)
    a, b = (state.vgprs[list(rows)] for rows in (use.a_rows, use.b_rows))
    c = (
        state.vgprs[list(use.c_rows)]
        if use.c is not None
        else np.full((matrix.d_registers, 64), use.constant, np.uint32)
    )
    wanted = oracle.product(matrix, a, b, c, Fields(cbsz=use.cbsz, abid=use.abid, blgp=use.blgp))
    text = Program(target(name), (Item(code),))
    expected = on_reference(name, text.code(), state)
    assert (rows_of(expected, use.d, len(use.d_rows)) == wanted).all()
    for engine in every():
        assert not differences(expected, engine(name, text.code(), state)), engine


@pytest.mark.parametrize("first", [0, 5, 15])
def test_indices_are_read_before_d_is_written(first: int) -> None:
    """D over the register of indices of a sparse A."""
    rng, key = np.random.default_rng(16), ("gfx942", "v_smfmac_f32_32x32x16_f16")
    matrix = matrices()[key]
    fields = {"vdst": 64, "src0": 272, "src1": 280, "src2": 256 + 64 + first}
    code = encode(target(key[0]), OF_TARGET[key], "MAI", fields)
    a, b, c = oracle.registers(rng, matrix)
    wanted = oracle.product(matrix, a, b, c, Fields(index=c[first].copy()))
    text, state = Program(target(key[0]), (Item(code),)), state_of(rng, a, b, c)
    expected = on_reference(key[0], text.code(), state)
    assert (rows_of(expected, C, len(c)) == wanted).all()
    for engine in every():
        assert not differences(expected, engine(key[0], text.code(), state)), engine


@pytest.mark.parametrize("scales", [(64, 65), (67, 64), (66, 66), (16, 24)])
def test_scales_are_read_before_d_is_written(scales: tuple[int, int]) -> None:
    """D over one or both registers of scales, and scales in registers of A and B."""
    rng, key = np.random.default_rng(17), ("gfx950", "v_mfma_scale_f32_16x16x128_f8f6f4")
    matrix, op = matrices()[key], OF_TARGET[key]
    fields = {"vdst": C, "src0": 256 + A, "src1": 256 + B, "src2": 256 + C, "op_sel": 1, "op_sel_hi": 2}
    code = encode(target(key[0]), op, "VOP3PX", fields | {"scale_a": 256 + scales[0], "scale_b": 256 + scales[1]})
    a, b, c = oracle.registers(rng, matrix)
    text, state = Program(target(key[0]), (Item(code),)), state_of(rng, a, b, c)
    one, other = (state.vgprs[each].copy() for each in scales)
    wanted = oracle.product(matrix, a, b, c, Fields(scales=(one, other), scale_bytes=(1, 2)))
    expected = on_reference(key[0], text.code(), state)
    assert (rows_of(expected, C, len(c)) == wanted).all()
    for engine in every():
        assert not differences(expected, engine(key[0], text.code(), state)), engine


@pytest.mark.slow(seconds=4)
def test_instructions_with_scales_differ_in_any_word(seeds: Seeds) -> None:
    """Instructions of four words that are translated together: formats, files, bytes of scales, registers."""
    rng, name = np.random.default_rng(18), "gfx950"
    for _ in seeds(3, 1):
        builder = Builder(rng, target(name))
        keys = [key for key in ALL if matrices()[key].is_scaled]
        for _ in range(12):
            key = keys[int(rng.integers(len(keys)))]
            builder.items.append(Item(made(rng, key, random_fields(rng, matrices()[key]), bool(rng.random() < 0.2))))
        text, state = Program(builder.target, tuple(builder.items)), start(rng, bad=0.0, tame=True)
        state.vgprs = values.rows(rng, 192)
        expected = on_reference(name, text.code(), state)
        assert not expected.error
        for engine in every():
            lines = differences(expected, engine(name, text.code(), state))
            assert not lines, "\n".join([str(engine), listing(text.target, text.code()), *lines])


def test_an_illegal_instruction_with_scales_is_found_among_others() -> None:
    """C overlaps D in the second one; it differs in the fourth word only."""
    rng, name = np.random.default_rng(19), "gfx950"
    op = OF_TARGET[name, "v_mfma_scale_f32_32x32x64_f8f6f4"]
    fields = {"vdst": 64, "src0": 272, "src1": 280, "src2": 320, "scale_a": 256, "scale_b": 257}
    good = encode(target(name), op, "VOP3PX", fields)
    bad = int.from_bytes(good, "little") & ~(0x1FF << 114) | 328 << 114
    text = Program(target(name), (Item(good), Item(bad.to_bytes(16, "little")), Item(good)))
    state = start(rng, bad=0.0, tame=True)
    expected = on_reference(name, text.code(), state)
    assert (
        "IllegalInstruction: illegal instruction: the addend must be exactly the registers of the result"
        in expected.error
    )
    for engine in every():
        assert not differences(expected, engine(name, text.code(), state)), engine


def test_illegal_registers_are_found_among_others() -> None:
    """Instructions that differ only in registers are translated together: C overlaps D in the second one."""
    rng, name = np.random.default_rng(15), "gfx90a"
    op = OF_TARGET[name, "v_mfma_f32_32x32x8f16"]
    good = encode(target(name), op, "MAI", {"vdst": 64, "src0": 272, "src1": 280, "src2": 320})
    word = int.from_bytes(good, "little") & ~(0x1FF << 50 | 0xFF) | 272 << 50 | 18
    text = Program(target(name), (Item(good), Item(word.to_bytes(8, "little")), Item(good)))
    state = start(rng, bad=0.0, tame=True)
    expected = on_reference(name, text.code(), state)
    assert (
        "IllegalInstruction: illegal instruction: the addend must be exactly the registers of the result"
        in expected.error
    )
    for engine in every():
        assert not differences(expected, engine(name, text.code(), state)), engine


# ---- undefined bits --------------------------------------------------------------------------------------------------
def undefined_program(rng: np.random.Generator, key: tuple[str, str], code: bytes) -> Program:
    """Loads of which some lanes are undefined, to registers of all operands; up to eight rows of D go to memory."""
    name = key[0]
    builder = Builder(rng, target(name))
    use = use_of(decoded(name, code))
    rows = sorted(n % VGPRS for n in use.reads)
    builder.text(
        "s_mov_b64 exec, -1", *(f"v_mov_b32 v{n}, {n % 60}" for n in sorted({*rows, *(n % VGPRS for n in use.d_rows)}))
    )
    for n in rng.choice(rows, min(len(rows), int(rng.integers(0, 4))), replace=False):
        builder.text(f"s_mov_b64 exec, {1 << int(rng.integers(0, 6)):#x}")
        builder.text(f"global_load_dword v{n}, v[0:1], off offset:{4 * int(rng.integers(0, 64))}")
    builder.text("s_mov_b64 exec, -1", "s_waitcnt vmcnt(0)")
    builder.text(*(f"v_accvgpr_write_b32 a{n}, v{n}" for n in rows))
    builder.items.append(Item(code))
    pairs = use.d_rows[::2]
    for n in rng.choice(pairs, min(len(pairs), 4), replace=False):  # the code for stores takes most of the compile time
        at = n % VGPRS
        if n >= VGPRS:
            builder.text(f"v_accvgpr_read_b32 v{at}, a{at}", f"v_accvgpr_read_b32 v{at + 1}, a{at + 1}")
        builder.text(f"global_store_dwordx2 v[0:1], v[{at}:{at + 1}], off offset:{256 * (at // 2 % 15)}")
    return Program(builder.target, tuple(builder.items))


@pytest.mark.slow(seconds=0.6)
@pytest.mark.one_in(4)
@pytest.mark.parametrize("key", ALL, ids=IDS)
def test_undefined_bits_are_the_same_on_all_tiers(key: tuple[str, str], seeds: Seeds) -> None:
    matrix, rng = matrices()[key], np.random.default_rng(14)
    for number in seeds(4, 2, 2):
        fields = random_fields(rng, matrix)
        code = made(rng, key, fields, is_constant=number == 3 and not matrix.is_sparse)
        text, state = undefined_program(rng, key, code), start(rng, bad=0.0, tame=True)
        expected = on_reference(key[0], text.code(), state)
        first, uses = shadowed_reference(key[0], text.code(), state)
        shown = listing(text.target, text.code())
        assert not expected.error
        assert not differences(expected, first), shown
        for engine in with_shadows():
            second, others = engine.shadowed(key[0], text.code(), state)
            assert not differences(expected, second), (engine, shown)
            for part in uses:
                assert uses[part] == others[part], (engine, part, shown)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gfx908", "gfx90a", "gfx942", "gfx950"])
def test_random_programs_with_matrix_instructions_agree(
    name: str, seeds: Seeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    def more(rng: np.random.Generator, chip: Target) -> list[tuple[Op, str]]:
        some, own = weighted(rng, chip), [pair for pair in plain(chip) if pair[1] == "MAI"]
        return some + [values.pick(rng, own) for _ in range(max(3, len(some) // 6))]

    monkeypatch.setattr(fuzz, "weighted", more)
    monkeypatch.setattr(shadowed, "weighted", more)
    for number in seeds(4, 2, int(name == "gfx950") * 2):
        failed = fuzz.one(name, f"77/{number}", every(), Counter())
        assert failed is None, f"number {number}, {failed.engine}\n{report(shrink(failed))}"
        lines = shadowed.one(name, f"78/{number}")
        assert not lines, "\n".join(lines)
