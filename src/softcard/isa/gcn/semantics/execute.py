"""Execution of one GCN instruction: fetch the sources, apply modifiers, call the semantics, store the results.

For operations with a signature, there is a function for each encoding here. The semantics of an operation
without a signature do these steps themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, cast

from softcard.isa.gcn.algebra import S, WaveAlgebra
from softcard.isa.gcn.builder import Builder
from softcard.isa.gcn.encoding.shape import truth_table
from softcard.isa.gcn.insn import Computation, Execution, Insn, Result, Selectors, Semantics, SpecialisedExecution
from softcard.isa.gcn.semantics import fp, modifiers, source
from softcard.isa.gcn.semantics.access import pair
from softcard.isa.gcn.state import EXEC, VCC
from softcard.isa.gcn.target import GFX7, GFX9
from softcard.isa.gcn.word import Word
from softcard.isa.word import V, Value

SLOTS: Final = {
    "SOP1": ("ssrc0",),
    "SOP2": ("ssrc0", "ssrc1"),
    "SOPC": ("ssrc0", "ssrc1"),
    "SOPK": ("sdst",),
    "SOPP": (),
    "VOP1": ("src0",),
    "VOP2": ("src0", "src1"),
    "VOPC": ("src0", "src1"),
    "VOP3A": ("src0", "src1", "src2"),
    "VOP3B": ("src0", "src1", "src2"),
    "VOP3P": ("src0", "src1", "src2"),
}
"""The source fields of each encoding, in the order of the signature.

SDWA and DPP forms have the fields of their base encoding.
"""

SCALAR_FORMS: Final = frozenset({"SOP1", "SOP2", "SOPC", "SOPK", "SOPP", "SMRD", "SMEM"})

PRESERVES_HIGH: Final = frozenset({
    "v_mac_f16", "v_madmk_f16", "v_madak_f16", "v_mad_f16", "v_mad_u16", "v_mad_i16", "v_fma_f16", "v_div_fixup_f16",
    "v_min3_f16", "v_min3_i16", "v_min3_u16", "v_max3_f16", "v_max3_i16", "v_max3_u16", "v_med3_f16", "v_med3_i16",
    "v_med3_u16", "v_add_i16", "v_sub_i16", "v_mad_mixlo_f16", "v_fma_mixlo_f16", "v_cvt_pk_fp8_f32",
    "v_cvt_pk_bf8_f32", "v_bitop3_b16", "v_cvt_sr_f16_f32", "v_cvt_sr_bf16_f32",
})  # fmt: skip
"""The operations whose 16-bit result leaves the other half of the register unchanged on GFX9.

Other operations clear the other half (``gcn/high-half``).
"""

WRITES_HIGH: Final = frozenset({"v_mad_mixhi_f16", "v_fma_mixhi_f16"})
"""The operations whose 16-bit result always goes to the upper half of the register."""

OMOD: Final = {1: 1, 2: 2, 3: -1}
"""The exponents of the powers of two by which the values of the omod field multiply a result."""


Source = Word | list[Word] | int
"""A source value of an operation with a signature: a word, a list of words, or an int.

A list has 32-bit words, for types above 64 bits. An int is the generation or a flag.
"""


def execute(o: WaveAlgebra[V, S], i: Insn) -> None:
    """Execute one instruction with the operations `o` of an engine: the engines' entry point to the semantics."""
    b = Builder(cast("WaveAlgebra[Value, Value]", o))
    if i.form not in SCALAR_FORMS and b.mode.vskip:
        b.hint("nop")
    elif i.op.selectors is not None:
        numbers = selector_values(b, i) if i.selectors is None else i.selectors
        cast("SpecialisedExecution", i.op.semantics)(b, i, numbers)
    elif i.op.signature is None:
        cast("Execution", i.op.semantics)(b, i)
    elif i.form in SCALAR_FORMS:
        scalar(b, i)
    else:
        vector(b, i)


def selector_values(b: Builder, i: Insn) -> tuple[int, ...]:
    """Return the values of the scalars that select the variant of an instruction.

    The engine must represent scalars as plain numbers, as the reference engine does."""
    return tuple(word.number for word in cast("Selectors", i.op.selectors)(b, i))


def computed(semantics: Semantics, given: Iterable[Source]) -> tuple[Result, ...]:
    """Call the semantics of an operation with a signature on the sources `given`; return its results."""
    found = cast("Computation", semantics)(*given)
    return found if isinstance(found, tuple) else (found,)


# ---- scalar forms ----------------------------------------------------------------------------------------------------
def scalar(b: Builder, i: Insn) -> None:
    """Execute SOP1, SOP2, SOPC, SOPK instructions that have a signature."""
    results = cast("tuple[Word, ...]", computed(i.op.semantics, scalar_sources(b, i)))
    for kind, value in zip(i.op.results, results, strict=True):
        if kind == "scc":
            b.set_scc(value)
        elif kind == "exec":
            b.set_s64(EXEC, value)
        elif kind[1:] == "64":
            b.set_s64(i["sdst"], value)
        else:
            b.set_s(i["sdst"], value)


def scalar_sources(b: Builder, i: Insn) -> Iterator[Word]:
    """Yield a scalar instruction's sources in the order of the signature."""
    slots = iter(SLOTS[i.form])
    for kind in i.op.sources:
        if kind == "scc":
            yield b.scc()
        elif kind == "exec":
            yield b.s64(EXEC)
        elif kind == "old":
            yield source.scalar(b, i, i["sdst"], next(kind for kind in i.op.results if kind not in ("scc", "exec")))
        elif kind == "simm":
            yield b.const(32, (i["simm16"] & 0xFFFF ^ 0x8000) - 0x8000)
        elif kind == "uimm":
            yield b.const(32, i["simm16"] & 0xFFFF)
        elif kind == "k32":
            yield b.const(32, i.literal or 0)
        else:
            yield source.scalar(b, i, i[next(slots)], kind)


# ---- vector forms ----------------------------------------------------------------------------------------------------
def vector(b: Builder, i: Insn) -> None:
    """Execute VOP1, VOP2, VOPC, VOP3A, VOP3B, VOP3P instructions, with or without SDWA or DPP."""
    where = modifiers.dpp_lanes(b, i) if i.form.endswith("DPP") else None
    semantics = i.op.semantics
    if i.op.clamped and i.get("clamp") and i.target.level > GFX7:
        semantics = i.op.clamped
    for kind, value in zip(i.op.results, computed(semantics, sources(b, i)), strict=True):
        if kind in ("m64", "exec"):
            mask = cast("Word", value)
            b.set_mask(EXEC if kind == "exec" else mask_destination(i), mask if where is None else mask & where)
        else:
            put(b, i, kind, value, where)


def mask_destination(i: Insn) -> int:
    """Return the number of the scalar register pair that receives the lane mask of an instruction."""
    number = i.get("sdst", VCC)
    return VCC if number < 0 else number


def sources(b: Builder, i: Insn) -> Iterator[Source]:
    """Yield a vector instruction's sources in the order of the signature."""
    slots = enumerate(SLOTS[i.form.partition("_")[0]])
    for kind in i.op.sources:
        if kind == "level":
            yield i.target.level
        elif kind == "ocp":
            yield "gfx950" in i.target.has
        elif kind == "table":
            yield truth_table(i.fields)
        elif kind == "k32":
            yield b.const(32, i.literal or 0)
        elif kind == "old":
            yield old(b, i, i.op.results[0])
        elif kind == "m64":
            slot = next(slots, None)
            yield b.mask(VCC) if slot is None else source.mask(b, i, i[slot[1]])
        elif kind == "x32":
            yield mixed(b, i, *next(slots))
        else:
            number, name = next(slots)
            value = fetch(b, i, number, name, kind)
            yield typed(i, value, number, kind) if isinstance(value, Word) else value


def fetch(b: Builder, i: Insn, number: int, name: str, kind: str) -> Word | list[Word]:
    """Return source `number`, after SDWA or DPP: the field `name`, a register or constant, as type `kind`."""
    code = i[name]
    if number == 0 and i.form.endswith("DPP"):
        return modifiers.dpp_source(b, i, code, kind)
    value = source.vector(b, i, code, kind, name)
    return modifiers.sdwa_source(i, number, value) if i.form.endswith("SDWA") and isinstance(value, Word) else value


def typed(i: Insn, value: Word, number: int, kind: str) -> Word:
    """Return source `number`, after its modifiers, as a value of type `kind`.

    The modifiers are abs and neg for floats, and op_sel, which selects a half for 16-bit types."""
    if kind in ("p16", "h16"):
        return packed(i, value, number, kind)
    if kind in ("p64", "g64"):
        return packed_pair(i, value, number, kind)
    if kind[1:] == "16":
        value = chosen_half(value, i.get("op_sel") >> number & 1)
    return signs(value, i.get("abs") >> number & 1, i.get("neg") >> number & 1) if kind[0] == "f" else value


def chosen_half(value: Word, high: int) -> Word:
    """Return the upper half of 32 bits if `high` is 1, else the lower half."""
    return (value[31:16] if high else value).trunc(16)


def signs(value: Word, absolute: int, negative: int) -> Word:
    """Apply the abs and neg modifiers to a float: `absolute` and `negative` are 1 if they are set."""
    value = fp.magnitude(value) if absolute else value
    return fp.neg(value) if negative else value


def packed(i: Insn, value: Word, number: int, kind: str) -> Word:
    """Return the two halves of a VOP3P source.

    op_sel and op_sel_hi select the halves, neg and neg_hi change signs of floats.
    """
    halves = value[15:0], value[31:16]
    result = halves[i["op_sel"] >> number & 1] | halves[i["op_sel_hi"] >> number & 1] << 16
    changed = (i["neg"] >> number & 1) << 15 | (i["neg_hi"] >> number & 1) << 31
    return result ^ changed if kind == "h16" and changed else result


def packed_pair(i: Insn, value: Word, number: int, kind: str) -> Word:
    """Return the two 32-bit values of a VOP3P source.

    op_sel and op_sel_hi select the values, neg and neg_hi change signs of floats.
    """
    halves = value[31:0], value[63:32]
    result = halves[i["op_sel"] >> number & 1] | halves[i["op_sel_hi"] >> number & 1] << 32
    changed = (i["neg"] >> number & 1) << 31 | (i["neg_hi"] >> number & 1) << 63
    return result ^ changed if kind == "g64" and changed else result


def mixed(b: Builder, i: Insn, number: int, name: str) -> Word:
    """Return a source of v_mad_mix: a binary32 number, or with op_sel_hi the half that op_sel selects, widened.

    neg changes the sign; neg_hi takes the absolute value.
    """
    is_half = i["op_sel_hi"] >> number & 1
    value = source.single(b, i, i[name], "f16" if is_half else "f32", name)
    if is_half:
        # The multiply-adds with two roundings never keep denormals (Choice ``gcn/mad-f16-denormals``).
        env = "flush" if i.op.name.startswith("v_mad_mix") else None
        value = chosen_half(value, i["op_sel"] >> number & 1).fconvert("s", env)
    return signs(value, i["neg_hi"] >> number & 1, i["neg"] >> number & 1)


def old(b: Builder, i: Insn, kind: str) -> Word:
    """Return the old value of the destination register as a source of type `kind`."""
    n, wanted = i["vdst"], source.width(kind)
    value = source.vgpr(b, n, "vdst")
    if wanted == 64:
        return pair(value, source.vgpr(b, n + 1 & 0xFF, "vdst"))
    return value if wanted == 32 or kind in ("p16", "h16") else chosen_half(value, i.get("op_sel") >> 3 & 1)


def put(b: Builder, i: Insn, kind: str, value: Word | list[Word], where: Word | None) -> None:
    """Store a result of type `kind` in the destination register, in the lanes of the mask `where`."""
    n = i["vdst"]
    if not isinstance(value, Word):
        for k, part in enumerate(value):
            write(b, n + k & 0xFF, part, where)
        return
    if kind[0] == "f":
        value = modified(i, value)
    elif kind == "h16" and i.get("clamp"):
        low, high = (modified(i, x.trunc(16)).zext(32) for x in (value, value[31:16]))
        value = low | high << 16
    elif kind == "g64" and i.get("clamp"):
        low, high = (modified(i, x.trunc(32)).zext(64) for x in (value, value[63:32]))
        value = low | high << 32
    if value.width == 64:
        write(b, n, value.trunc(32), where)
        write(b, n + 1 & 0xFF, value[63:32].trunc(32), where)
    elif value.width == 16:
        write(b, n, half(b, i, value.zext(32)), where)
    elif value.width == 8:
        at = 8 * (i.get("op_sel") >> 2 & 3)
        kept = source.vgpr(b, n, "vdst") & ~(0xFF << at)
        write(b, n, kept | value.zext(32) << at, where)
    else:
        write(b, n, modifiers.sdwa_result(b, i, value) if i.form.endswith("SDWA") else value, where)


def write(b: Builder, n: int, value: Word, where: Word | None) -> None:
    """Write vector register `n` in the lanes of the mask `where`.

    While GPR indexing is on, `n` is relative to M0.
    """
    if b.mode.gpr_idx:
        b.set_v_indexed(n, source.offset_of(b, "vdst"), value)
    else:
        b.set_v(n, value, where)


def half(b: Builder, i: Insn, value: Word) -> Word:
    """Return the 32 bits that an instruction writes to the destination register for its 16-bit result `value`.

    On GFX9 they may contain the old value of the other half."""
    if i.form.endswith("SDWA"):
        return modifiers.sdwa_result(b, i, value)
    held = source.vgpr(b, i["vdst"], "vdst") if i.target.level == GFX9 else None
    if held is not None and (i.get("op_sel") >> 3 & 1 or i.op.name in WRITES_HIGH):
        return held[15:0] | value << 16
    if held is not None and i.op.name in PRESERVES_HIGH:
        return held & 0xFFFF0000 | value
    return value


def modified(i: Insn, value: Word) -> Word:
    """Apply the result modifiers omod and clamp, in this order.

    omod has no effect if MODE keeps denormal results or MODE.IEEE is set. Otherwise it flushes denormal results and
    turns -0 into +0.
    """
    t, mode = value.format, value.mode
    exponent = OMOD.get(i.get("omod"), 0)
    if exponent and not mode.ieee and not mode.keeps_denormals(t)[1]:
        value = value.fmul(value.const(fp.power(t, exponent)), "flush")
        value = fp.is_zero(value).select(0, value)
    if not i.get("clamp"):
        return value
    one = value.const(fp.power(t, 0))
    nan = value.const(0) if mode.dx10_clamp else value
    # As integers: numbers from 0 up sort like floats, and negative ones are below all of them.
    return fp.choose([(fp.is_nan(value), nan), (value.sle(0), value.const(0)), (one.slt(value), one)], value)
