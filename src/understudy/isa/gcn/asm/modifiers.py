"""What stands behind the operands of an instruction's text: clamps, selections, offsets, flags."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from understudy.isa.gcn.asm import macros
from understudy.isa.gcn.encoding.operands import LANE_PATTERNS, SELECT, UNUSED
from understudy.isa.gcn.encoding.shape import slots
from understudy.isa.gcn.insn import Insn, Op
from understudy.isa.gcn.target import GFX9

OMOD: Final = ("", "mul:2", "mul:4", "div:2")
# fmt: off
DATA_FORMATS: Final = (
    "INVALID", "8", "16", "8_8", "32", "16_16", "10_11_11", "11_11_10", "10_10_10_2", "2_10_10_10", "8_8_8_8", "32_32",
    "16_16_16_16", "32_32_32", "32_32_32_32", "RESERVED_15",
)
NUMBER_FORMATS: Final = {
    7: ("UNORM", "SNORM", "USCALED", "SSCALED", "UINT", "SINT", "SNORM_OGL", "FLOAT"),
    8: ("UNORM", "SNORM", "USCALED", "SSCALED", "UINT", "SINT", "RESERVED_6", "FLOAT"),
}
# fmt: on


def modifiers(insn: Insn) -> Iterator[str]:
    """The modifiers that differ from what an assembler assumes."""
    write = _BY_FORM.get(insn.form)
    return write(insn) if write else iter(())


def _bits(name: str, value: int, count: int) -> str:
    return f"{name}:[{','.join(str(value >> k & 1) for k in range(count))}]"


def source_count(op: Op, form: str) -> int:
    """How many source fields the operation uses in that form."""
    return sum(slot.field in ("src0", "src1", "src2") for slot in slots(op, form))


def _vop3(insn: Insn) -> Iterator[str]:
    if any(slot.kind == "attr" for slot in slots(insn.op, insn.form)):
        yield from ("high",) if insn["src0"] >> 8 & 1 else ()
    if insn.get("op_sel"):
        count = source_count(insn.op, insn.form)
        if shown := insn["op_sel"] & (1 << count) - 1 | insn["op_sel"] >> 3 << count:
            yield _bits("op_sel", shown, count + 1)
    yield from _output(insn)


def _output(insn: Insn) -> Iterator[str]:
    if insn.get("clamp"):
        yield "clamp"
    if insn.get("omod"):
        yield OMOD[insn["omod"]]


def _vop3p(insn: Insn) -> Iterator[str]:
    count = source_count(insn.op, insn.form)
    everything = (1 << count) - 1
    if insn["op_sel"] & everything:
        yield _bits("op_sel", insn["op_sel"], count)
    if "mix" in insn.op.name:
        if insn["op_sel_hi"] & everything:
            yield _bits("op_sel_hi", insn["op_sel_hi"], count)
    else:
        if insn["op_sel_hi"] & everything != everything:
            yield _bits("op_sel_hi", insn["op_sel_hi"], count)
        for name, field in (("neg_lo", "neg"), ("neg_hi", "neg_hi")):
            if insn[field] & everything:
                yield _bits(name, insn[field], count)
    yield from _output(insn)


def _sdwa(insn: Insn) -> Iterator[str]:
    yield from _output(insn)
    if insn.form != "VOPC_SDWA":
        yield f"dst_sel:{SELECT[insn['dst_sel']]}"
        yield f"dst_unused:{UNUSED[insn['dst_unused']]}"
    yield f"src0_sel:{SELECT[insn['src0_sel']]}"
    if insn.form != "VOP1_SDWA":
        yield f"src1_sel:{SELECT[insn['src1_sel']]}"


def _dpp(insn: Insn) -> Iterator[str]:
    yield LANE_PATTERNS[insn["dpp_ctrl"]]
    yield f"row_mask:{insn['row_mask']:#x}"
    yield f"bank_mask:{insn['bank_mask']:#x}"
    if insn["bound_ctrl"]:
        yield "bound_ctrl:1"


def two_offsets(op: Op) -> bool:
    """Whether a DS operation accesses two places, each with an offset of its own."""
    return op.name.startswith(("ds_read2", "ds_write2", "ds_wrxchg2"))


def _ds(insn: Insn) -> Iterator[str]:
    if insn.op.name == "ds_nop":
        return
    if two_offsets(insn.op):
        for name in ("offset0", "offset1"):
            if insn[name]:
                yield f"{name}:{insn[name]}"
    elif offset := insn["offset0"] | insn["offset1"] << 8:
        level = insn.target.level
        yield f"offset:{macros.swizzle(offset, level) if insn.op.name == 'ds_swizzle_b32' else offset}"
    if insn["gds"]:
        yield "gds"


def _flags(insn: Insn, *names: str) -> Iterator[str]:
    return (name for name in names if insn.get(name))


def _smem(insn: Insn) -> Iterator[str]:
    shown = {slot.field for slot in slots(insn.op, insn.form)}
    if "offset" in shown and insn.get("soffset_en") and insn["imm"]:
        yield f"offset:{insn['offset']:#x}"
    if {"sdata", "offset"} <= shown:
        yield from _flags(insn, "glc", "nv")


def _flat(insn: Insn) -> Iterator[str]:
    if insn.get("offset"):
        yield f"offset:{insn['offset']}"
    yield from _flags(insn, "glc", "slc", "tfe", "lds", "nv")


def _mubuf(insn: Insn) -> Iterator[str]:
    if not slots(insn.op, insn.form):
        return
    yield from _flags(insn, "addr64", "idxen", "offen")
    if insn["offset"]:
        yield f"offset:{insn['offset']}"
    yield from _flags(insn, "glc", "slc", "tfe", "lds")


def buffer_format(insn: Insn) -> str:
    """Data and number format of a typed access, "" for what an assembler assumes (8, UNORM)."""
    names = NUMBER_FORMATS[min(insn.target.level, 8)]
    shown = [f"BUF_DATA_FORMAT_{DATA_FORMATS[insn['dfmt']]}"] if insn["dfmt"] != 1 else []
    shown += [f"BUF_NUM_FORMAT_{names[insn['nfmt']]}"] if insn["nfmt"] else []
    return f"format:[{','.join(shown)}]" if shown else ""


def _mtbuf(insn: Insn) -> Iterator[str]:
    if shown := buffer_format(insn):
        yield shown
    yield from _mubuf(insn)


def _mimg(insn: Insn) -> Iterator[str]:
    if insn["dmask"]:
        yield f"dmask:{insn['dmask']:#x}"
    yield from _flags(insn, "unorm", "glc", "slc")
    if insn["r128"]:
        yield "a16" if insn.target.level == GFX9 else "r128"
    yield from _flags(insn, "tfe", "lwe", "da", "d16")


_BY_FORM: Final[Mapping[str, Callable[[Insn], Iterator[str]]]] = {
    "VOP3A": _vop3, "VOP3B": _vop3, "VOP3P": _vop3p, "SMEM": _smem, "SMRD": _smem, "DS": _ds, "FLAT": _flat,
    "MUBUF": _mubuf, "MTBUF": _mtbuf, "MIMG": _mimg,
    "VOP1_SDWA": _sdwa, "VOP2_SDWA": _sdwa, "VOPC_SDWA": _sdwa, "VOP1_DPP": _dpp, "VOP2_DPP": _dpp,
    "EXP": lambda insn: _flags(insn, "done", "compr", "vm"),
}  # fmt: skip
