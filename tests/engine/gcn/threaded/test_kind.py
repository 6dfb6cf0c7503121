"""Kinds of instructions, and numbers that only records know."""

from __future__ import annotations

import pytest

from softcard.engine.gcn.jit.basics import Untranslated
from softcard.engine.gcn.jit.region import node_of
from softcard.engine.gcn.threaded.emit import HandlerEmitter
from softcard.engine.gcn.threaded.kind import NOWHERE, PC, Deferred, Kind, kind_of
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.encoding.decode import decode
from softcard.isa.gcn.target import target

MODE = 0xF0
UP = 0xF1


def kind(text: str, name: str = "gfx900", mode: int = MODE) -> Kind:
    """The kind of an instruction in assembly text."""
    insn = decode(target(name), assemble(target(name), text, 0x1000), 0x1000)
    return kind_of(node_of(insn, mode), mode)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("v_add_u32_e32 v1, v2, v3", "v_add_u32_e32 v200, v7, v7"),
        ("v_add_u32_e32 v1, s2, v3", "v_add_u32_e32 v1, s95, v3"),
        ("v_add_u32_e32 v1, 64, v3", "v_add_u32_e32 v1, -16, v3"),
        ("s_add_u32 s1, s2, 5", "s_add_u32 s90, s3, -1"),
        ("ds_read_b32 v1, v2 offset:4", "ds_read_b32 v3, v4 offset:65535"),
        ("global_load_dword v1, v[2:3], off offset:-4", "global_load_dword v9, v[8:9], off offset:4095"),
        ("s_load_dwordx4 s[4:7], s[0:1], 0x10", "s_load_dwordx4 s[8:11], s[2:3], 0x44"),
        ("s_cbranch_scc1 5", "s_cbranch_scc1 -7"),
        ("v_add_u32_e32 v1, s2, v3", "v_add_u32_e32 v1, vcc_lo, v3"),
        ("s_mov_b64 s[2:3], exec", "s_mov_b64 exec, vcc"),
        ("v_add_u32_sdwa v1, v2, v3 src0_sel:BYTE_0", "v_add_u32_sdwa v1, v2, v3 src0_sel:WORD_1"),
    ],
)
def test_registers_constants_and_numbers_make_no_kind(one: str, other: str) -> None:
    assert kind(one).key == kind(other).key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("v_add_u32_e32 v1, v2, v3", "v_add_u32_e32 v1, s2, v3"),
        ("ds_read_b32 v1, v2 offset:4", "ds_read_b32 v1, v2"),
        ("global_load_dword v1, v[2:3], off", "global_load_dword v1, v2, s[4:5]"),
        ("v_add_u32_sdwa v1, v2, v3 src0_sel:BYTE_0", "v_add_u32_sdwa v1, v2, v3 src0_sel:BYTE_0 dst_sel:BYTE_0"),
        ("v_add_u32_sdwa v1, v2, v3 src0_sel:BYTE_0", "v_add_u32_sdwa v1, v2, v3"),
        ("v_add_u32_sdwa v1, v2, v3 src0_sel:BYTE_0", "v_add_u32_sdwa v1, sext(v2), v3 src0_sel:BYTE_0"),
        ("v_add_f32_e64 v1, v2, v3", "v_add_f32_e64 v1, -v2, v3"),
        ("v_add_f32_e32 v1, v2, v3", "v_sub_f32_e32 v1, v2, v3"),
    ],
)
def test_what_a_handler_must_know_makes_a_kind(one: str, other: str) -> None:
    assert kind(one).key != kind(other).key


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("v_add_u32_e32 v1, v2, v3", "v_add_u32_e64 v1, v2, v3"),
        ("v_add_u32_e32 v1, 64, v3", "v_add_u32_e32 v1, 0x12345, v3"),
        ("s_add_u32 s1, s2, 5", "s_add_u32 s1, s2, 0x12345"),
        ("v_cvt_f32_u32_e32 v1, v2", "v_cvt_f32_u32_e64 v1, v2"),
        ("v_cmp_lt_u32_e32 vcc, s1, v2", "v_cmp_lt_u32_e64 s[2:3], s1, v2"),
        ("v_cmpx_lt_f32_e32 vcc, s1, v2", "v_cmpx_lt_f32_e64 s[2:3], s1, v2"),
        ("v_cmp_lt_u32_sdwa vcc, v1, v2", "v_cmp_lt_u32_sdwa s[2:3], v1, v2"),
        ("v_cndmask_b32_e32 v1, v2, v3, vcc", "v_cndmask_b32_e64 v1, v2, v3, s[2:3]"),
        ("v_add_co_u32_e32 v1, vcc, v2, v3", "v_add_co_u32_e64 v1, s[2:3], v2, v3"),
        ("v_addc_co_u32_e32 v1, vcc, v2, v3, vcc", "v_addc_co_u32_e64 v1, s[2:3], v2, v3, s[4:5]"),
    ],
)
def test_an_operation_is_the_same_in_short_and_in_long_form(short: str, long: str) -> None:
    assert kind(short).key == kind(long).key


def test_the_size_counts_where_the_next_address_does() -> None:
    assert kind("v_readlane_b32 s1, v2, s3").insn.size == 8
    assert kind("global_load_dword v1, v[2:3], off").insn.size == 8
    assert kind("s_getpc_b64 s[2:3]").insn.size == 4


def test_only_floats_care_for_their_mode() -> None:
    assert kind("v_add_u32_e32 v1, v2, v3").key == kind("v_add_u32_e32 v1, v2, v3", mode=UP).key
    assert kind("v_add_f32_e32 v1, v2, v3").key != kind("v_add_f32_e32 v1, v2, v3", mode=UP).key
    wide = MODE | 1 << 32  # pointers of 32 bits
    assert kind("global_load_dword v1, v[2:3], off").key != kind("global_load_dword v1, v[2:3], off", mode=wide).key
    assert kind("v_add_u32_e32 v1, v2, v3").key == kind("v_add_u32_e32 v1, v2, v3", mode=wide).key


@pytest.mark.parametrize("bit", [27, 28], ids=["GPR_IDX_EN", "VSKIP"])
def test_scalars_do_not_care_for_what_mode_says_of_vectors(bit: int) -> None:
    assert kind("s_add_u32 s1, s2, s3").key == kind("s_add_u32 s1, s2, s3", mode=MODE | 1 << bit).key
    assert kind("v_add_u32_e32 v1, v2, v3").key != kind("v_add_u32_e32 v1, v2, v3", mode=MODE | 1 << bit).key


def test_what_is_done_with_a_deferred_number_is_kept() -> None:
    number = Deferred(3)
    made = ((number & 0xFFFF ^ 0x8000) - 0x8000) * 4
    assert (made.slot, made.steps) == (3, (("and", 0xFFFF), ("xor", 0x8000), ("sub", 0x8000), ("mul", 4)))
    assert [(each.slot, each.steps) for each in (number * 1, number + 0, number | 0)] == [(3, ())] * 3
    assert (Deferred(PC) + made).slot == NOWHERE
    assert bool(number)


@pytest.mark.parametrize(
    "look",
    [
        lambda n: n == 5, lambda n: n < 5, lambda n: n >= 5, lambda n: n >> 1, lambda n: n | 1, lambda n: -n,
        lambda n: ~n, lambda n: n % 2, lambda n: n // 2, lambda n: 5 - n, lambda n: f"{n:x}", lambda n: 1 << n,
        lambda n: bool(n & 1),
    ],
)  # fmt: skip
def test_a_deferred_number_cannot_be_checked(look: object) -> None:
    with pytest.raises(Untranslated):
        look(Deferred(0))  # type: ignore[operator]


def test_a_semantics_that_checks_its_offset_has_a_handler_for_each() -> None:
    """ds_swizzle: the offset is a pattern of lanes."""
    text = "ds_swizzle_b32 v1, v2 offset:0x8055"
    insn = decode(target("gfx900"), assemble(target("gfx900"), text, 0), 0)
    with pytest.raises(Untranslated):
        HandlerEmitter(kind(text), 4).emit("swizzle")
    fixed = kind_of(node_of(insn, MODE), MODE, fixed_numbers=True)
    handler, _ = HandlerEmitter(fixed, 4).emit("swizzle")
    assert (len(handler.places), "offset0=32853" in fixed.key) == (4, True)


@pytest.mark.parametrize(
    ("chosen", "types"), [("0,0,0", ["f32", "f32"]), ("1,0,0", ["f16", "f32"]), ("0,1,1", ["f32", "f16"])]
)
def test_constants_of_mixed_products_are_halves_where_the_instruction_says_so(chosen: str, types: list[str]) -> None:
    made = kind(f"v_mad_mix_f32 v1, -2.0, 4.0, v3 op_sel_hi:[{chosen}]")
    assert [part.type for part in made.parts if part.role == "k"] == types


def test_constants_are_as_wide_as_operations_without_a_signature_read_them() -> None:
    assert [part.type for part in kind("s_setpc_b64 1.0").parts] == ["b64"]
