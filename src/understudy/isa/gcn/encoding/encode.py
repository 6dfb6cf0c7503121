"""From fields to words: decoding read backwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from understudy.core.errors import WireError
from understudy.isa.gcn.encoding.decode import LANE_NAMES, SEGMENTS
from understudy.isa.gcn.encoding.formats import Format, format_of
from understudy.isa.gcn.encoding.operands import VGPR0
from understudy.isa.gcn.insn import Insn, Op
from understudy.isa.gcn.operations.table import PROMOTED
from understudy.isa.gcn.target import GFX8, GFX9, Target

__all__ = ["encode", "encode_insn", "names_of"]

_SCALED: Final = {"sbase": 2, "srsrc": 4, "ssamp": 4}


def encode_insn(insn: Insn) -> bytes:
    """The machine code of a decoded instruction; bits that decoding ignores are 0."""
    return encode(insn.target, insn.op, insn.form, insn.fields, insn.literal)


def encode(target: Target, op: Op, form: str, fields: Mapping[str, int], literal: int | None = None) -> bytes:
    """The machine code of `op` in a form with these fields, named as in `Insn`; 0 where not given.

    `WireError` for a field the form does not have or a value that does not fit.
    """
    fmt = find_format(target, op, form)
    raw = _raw(target, op, form, fields)
    if form != "EXP":
        raw["op"] = opcode(target, op, form)
    if form == "FLAT" and target.level == GFX9:
        raw["seg"] = SEGMENTS.index(op.family)
    code = fmt.pattern.encode(raw).to_bytes(fmt.size, "little")
    return code if literal is None else code + (literal & 0xFFFF_FFFF).to_bytes(4, "little")


def find_format(target: Target, op: Op, form: str) -> Format:
    """The encoding that `form` means for `op`."""
    try:
        return format_of(target.level, form, "flat" if op.family == "flat" else "global")
    except KeyError:
        raise WireError(f"{target} has no {form} encoding") from None


def names_of(fmt: Format) -> frozenset[str]:
    """The fields of an encoding, by their names in `Insn`."""
    names = {field.name for field in fmt.pattern.fields} - {"op", "s0", "s1", "sd"}
    return frozenset(names)


def opcode(target: Target, op: Op, form: str) -> int:
    """The opcode of `op` as that form has it."""
    code = op.opcodes[target.level]
    return code + PROMOTED[target.level].get(op.family, 0) if form in ("VOP3A", "VOP3B") else code


def _raw(target: Target, op: Op, form: str, fields: Mapping[str, int]) -> dict[str, int]:
    """From what fields mean to what the bits hold."""
    raw = dict(fields)
    for name, scale in _SCALED.items():
        if name in raw:
            if raw[name] % scale:
                raise WireError(f"{name} must begin at a multiple of {scale}, not {raw[name]}")
            raw[name] //= scale
    if form == "VOP3A" and "sdst" in raw:
        raw["vdst"] = raw.pop("sdst")
    if form in ("VOP2", "VOPC") and op.name not in LANE_NAMES:
        raw["src1"] = _vector("src1", raw.get("src1", VGPR0))
    if form.endswith("_DPP"):
        raw |= {name: _vector(name, raw[name]) for name in ("src0", "src1") if name in raw}
    elif form.endswith("_SDWA"):
        _raw_sdwa(target, form, raw)
    return raw


def _vector(name: str, code: int) -> int:
    if code < VGPR0:
        raise WireError(f"{name} must be a vector register in this encoding")
    return code - VGPR0


def _raw_sdwa(target: Target, form: str, raw: dict[str, int]) -> None:
    for name, scalar in (("src0", "s0"), ("src1", "s1")):
        if name not in raw:
            continue
        if raw[name] >= VGPR0 or target.level == GFX8:
            raw[name] = _vector(name, raw[name])
        else:
            raw[scalar] = 1
    if form == "VOPC_SDWA":
        sdst = raw.pop("sdst", -1)
        if target.level == GFX9:
            raw |= {"sd": int(sdst >= 0), "sdst": max(sdst, 0)}
        elif sdst >= 0:
            raise WireError("an SDWA comparison writes VCC before GFX9")
