"""What surrounds a meaning: fetch the sources, apply modifiers, call it, store the results.

Every form has a frame here. An operation without a signature does all this itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from understudy.isa.gcn.algebra import Value
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.semantics import dpp, fp, sdwa, source
from understudy.isa.gcn.state import EXEC, VCC
from understudy.isa.gcn.target import GFX7, GFX9

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
"""The source fields of each form, in the order of the signature. SDWA and DPP forms have those of their base form."""

SCALAR_FORMS: Final = frozenset({"SOP1", "SOP2", "SOPC", "SOPK", "SOPP", "SMRD", "SMEM"})

KEEPS_HIGH: Final = frozenset({
    "v_mac_f16", "v_madmk_f16", "v_madak_f16", "v_mad_f16", "v_mad_u16", "v_mad_i16", "v_fma_f16", "v_div_fixup_f16",
    "v_min3_f16", "v_min3_i16", "v_min3_u16", "v_max3_f16", "v_max3_i16", "v_max3_u16", "v_med3_f16", "v_med3_i16",
    "v_med3_u16", "v_add_i16", "v_sub_i16", "v_mad_mixlo_f16", "v_fma_mixlo_f16",
})  # fmt: skip
"""16-bit results that leave the other half of the register alone on GFX9; others clear it (``gcn/high-half``)."""

WRITES_HIGH: Final = frozenset({"v_mad_mixhi_f16", "v_fma_mixhi_f16"})
"""Results that always go to the upper half."""

OMOD: Final = {1: 1, 2: 2, 3: -1}
"""omod: the power of two that a result is multiplied by."""


def execute(o: Any, i: Insn) -> None:
    """Execute one instruction: the only door from the engines to the meanings."""
    if o.mode.vskip and i.form not in SCALAR_FORMS:
        o.hint("nop")
    elif i.op.signature is None:
        i.op.meaning(o, i)
    elif i.form in SCALAR_FORMS:
        scalar(o, i)
    else:
        vector(o, i)


# ---- scalar forms ----------------------------------------------------------------------------------------------------
def scalar(o: Any, i: Insn) -> None:
    """SOP1, SOP2, SOPC, SOPK."""
    results = i.op.meaning(o, *scalar_sources(o, i))
    for kind, value in zip(i.op.results, results if isinstance(results, tuple) else (results,), strict=True):
        if kind == "scc":
            o.set_scc(value)
        elif kind == "exec":
            o.set_s64(EXEC, value)
        elif kind[1:] == "64":
            o.set_s64(i["sdst"], value)
        else:
            o.set_s(i["sdst"], value)


def scalar_sources(o: Any, i: Insn) -> Iterator[Any]:
    """The sources in the order of the signature."""
    slots = iter(SLOTS[i.form])
    for kind in i.op.sources:
        if kind == "scc":
            yield o.scc()
        elif kind == "exec":
            yield o.s64(EXEC)
        elif kind == "old":
            yield source.scalar(o, i, i["sdst"], next(kind for kind in i.op.results if kind not in ("scc", "exec")))
        elif kind == "simm":
            yield o.const(32, (i["simm16"] & 0xFFFF ^ 0x8000) - 0x8000)
        elif kind == "uimm":
            yield o.const(32, i["simm16"] & 0xFFFF)
        elif kind == "k32":
            yield o.const(32, i.literal or 0)
        else:
            yield source.scalar(o, i, i[next(slots)], kind)


# ---- vector forms ----------------------------------------------------------------------------------------------------
def vector(o: Any, i: Insn) -> None:
    """VOP1, VOP2, VOPC, VOP3A, VOP3B, VOP3P, with SDWA or DPP."""
    where = dpp.enabled(o, i) if i.form.endswith("DPP") else None
    meaning = i.op.meaning
    if i.op.clamped and i.get("clamp") and i.target.level > GFX7:
        meaning = i.op.clamped
    results = meaning(o, *sources(o, i))
    for kind, value in zip(i.op.results, results if isinstance(results, tuple) else (results,), strict=True):
        if kind in ("m64", "exec"):
            bits = value if where is None else o.and_(1, value, where)
            o.set_mask(EXEC if kind == "exec" else mask_destination(i), bits)
        else:
            put(o, i, kind, value, where)


def mask_destination(i: Insn) -> int:
    """The scalar register pair that a lane mask goes to."""
    number = i.get("sdst", VCC)
    return VCC if number < 0 else number


def sources(o: Any, i: Insn) -> Iterator[Any]:
    """The sources in the order of the signature."""
    slots = enumerate(SLOTS[i.form.partition("_")[0]])
    for kind in i.op.sources:
        if kind == "level":
            yield i.target.level
        elif kind == "k32":
            yield o.const(32, i.literal or 0)
        elif kind == "old":
            yield old(o, i, i.op.results[0])
        elif kind == "m64":
            slot = next(slots, None)
            yield o.mask(VCC) if slot is None else source.mask(o, i, i[slot[1]])
        elif kind == "x32":
            yield mixed(o, i, *next(slots))
        else:
            number, name = next(slots)
            yield typed(o, i, fetch(o, i, number, name, kind), number, kind)


def fetch(o: Any, i: Insn, number: int, name: str, kind: str) -> Any:
    """Source `number` as it stands in its register or constant, after SDWA or DPP."""
    code = i[name]
    if number == 0 and i.form.endswith("DPP"):
        return dpp.source(o, i, code, kind)
    value = source.vector(o, i, code, kind, name)
    return sdwa.source(o, i, number, value) if i.form.endswith("SDWA") else value


def typed(o: Any, i: Insn, value: Any, number: int, kind: str) -> Any:
    """Narrow a source to its type; floats get abs and neg, halves what op_sel says."""
    if kind in ("p16", "h16"):
        return packed(o, i, value, number, kind)
    if kind[1:] == "16":
        if i.get("op_sel") >> number & 1:
            value = o.lshr(32, value, o.const(32, 16))
        value = o.trunc(16, 32, value)
    if kind[0] == "f":
        t = fp.FORMAT[source.width(kind)]
        if i.get("abs") >> number & 1:
            value = fp.magnitude(o, t, value)
        if i.get("neg") >> number & 1:
            value = fp.neg(o, t, value)
    return value


def packed(o: Any, i: Insn, value: Value, number: int, kind: str) -> Value:
    """The two halves of a VOP3P source: op_sel and op_sel_hi pick them, neg and neg_hi change signs of floats."""
    word = {0: o.and_(32, value, o.const(32, 0xFFFF)), 1: o.lshr(32, value, o.const(32, 16))}
    lower, upper = word[i["op_sel"] >> number & 1], word[i["op_sel_hi"] >> number & 1]
    result = o.or_(32, lower, o.shl(32, upper, o.const(32, 16)))
    signs = (i["neg"] >> number & 1) << 15 | (i["neg_hi"] >> number & 1) << 31
    return o.xor(32, result, o.const(32, signs)) if kind == "h16" and signs else result


def mixed(o: Any, i: Insn, number: int, name: str) -> Value:
    """A source of v_mad_mix: binary32, or with op_sel_hi the half that op_sel picks; neg_hi makes it absolute."""
    is_half = i["op_sel_hi"] >> number & 1
    value = source.vector(o, i, i[name], "f16" if is_half else "f32", name)
    if is_half:
        value = o.lshr(32, value, o.const(32, 16)) if i["op_sel"] >> number & 1 else value
        # The multiply-adds with two roundings never keep denormals (Choice ``gcn/mad-f16-denormals``).
        env = "flush" if i.op.name.startswith("v_mad_mix") else None
        value = o.fconvert("s", "h", o.trunc(16, 32, value), env)
    if i["neg_hi"] >> number & 1:
        value = fp.magnitude(o, "s", value)
    return fp.neg(o, "s", value) if i["neg"] >> number & 1 else value


def old(o: Any, i: Insn, kind: str) -> Value:
    """What the destination held."""
    n = i["vdst"]
    wanted = source.width(kind)
    if wanted == 64:
        return source.pair(o, source.vgpr(o, n, "vdst"), source.vgpr(o, n + 1 & 0xFF, "vdst"))
    value = source.vgpr(o, n, "vdst")
    if wanted == 32 or kind in ("p16", "h16"):
        return value
    if i.get("op_sel") >> 3 & 1:
        value = o.lshr(32, value, o.const(32, 16))
    return o.trunc(16, 32, value)


def put(o: Any, i: Insn, kind: str, value: Any, where: Value | None) -> None:
    """Store a result of type `kind` in the destination register."""
    n = i["vdst"]
    if kind[0] == "f":
        value = modified(o, i, fp.FORMAT[source.width(kind)], value)
    elif kind == "h16" and i.get("clamp"):
        low, high = o.trunc(16, 32, value), o.trunc(16, 32, o.lshr(32, value, o.const(32, 16)))
        low, high = (o.zext(32, 16, modified(o, i, "h", x)) for x in (low, high))
        value = o.or_(32, low, o.shl(32, high, o.const(32, 16)))
    if source.width(kind) == 64:
        write(o, n, source.low(o, value), where)
        write(o, n + 1 & 0xFF, source.high(o, value), where)
    elif source.width(kind) > 64:
        for k, part in enumerate(value):
            write(o, n + k & 0xFF, part, where)
    elif kind[1:] == "16" and kind not in ("p16", "h16"):
        write(o, n, half(o, i, o.zext(32, 16, value)), where)
    elif i.form.endswith("SDWA"):
        write(o, n, sdwa.result(o, i, value), where)
    else:
        write(o, n, value, where)


def write(o: Any, n: int, value: Value, where: Value | None) -> None:
    """Write a vector register, relative to M0 where GPR indexing is on."""
    if o.mode.gpr_idx:
        o.set_v_indexed(n, source.offset_of(o, "vdst"), value)
    elif where is None:
        o.set_v(n, value)
    else:
        o.set_v(n, value, where)


def half(o: Any, i: Insn, value: Value) -> Value:
    """The 32 bits that a register gets from a 16-bit result."""
    if i.form.endswith("SDWA"):
        return sdwa.result(o, i, value)
    held = source.vgpr(o, i["vdst"], "vdst") if i.target.level == GFX9 else None
    if held is not None and (i.get("op_sel") >> 3 & 1 or i.op.name in WRITES_HIGH):
        return o.or_(32, o.and_(32, held, o.const(32, 0xFFFF)), o.shl(32, value, o.const(32, 16)))
    if held is not None and i.op.name in KEEPS_HIGH:
        return o.or_(32, o.and_(32, held, o.const(32, 0xFFFF0000)), value)
    return value


def modified(o: Any, i: Insn, t: str, value: Value) -> Value:
    """omod, then clamp.

    omod does nothing where MODE keeps denormal results or IEEE is on; else it flushes them and makes -0 a +0.
    """
    w = fp.WIDTH[t]
    exponent = OMOD.get(i.get("omod"), 0)
    if exponent and not o.mode.ieee and not o.mode.keeps(t)[1]:
        value = o.fmul(t, value, o.const(w, fp.power(t, exponent)), "flush")
        value = o.select(w, fp.is_zero(o, t, value), o.const(w, 0), value)
    if not i.get("clamp"):
        return value
    zero, one = o.const(w, 0), o.const(w, fp.power(t, 0))
    nan = zero if o.mode.dx10_clamp else value
    # As integers: numbers from 0 up sort like floats, and negative ones are below all of them.
    rules = ((fp.is_nan(o, t, value), nan), (o.sle(w, value, zero), zero), (o.slt(w, one, value), one))
    return fp.choose(o, t, *rules, value)
