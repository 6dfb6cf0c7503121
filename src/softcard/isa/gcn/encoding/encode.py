"""Encoding of fields to words, the inverse of decoding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from softcard.core.errors import WireError
from softcard.isa.gcn.encoding.decode import ACC_NAMES, LANE_NAMES, SEGMENTS
from softcard.isa.gcn.encoding.formats import MATRIX_FORMS, Format, format_of
from softcard.isa.gcn.encoding.operands import ACC0, REGISTERS, VGPR0
from softcard.isa.gcn.encoding.shape import WITH_ACC, data_fields, slots
from softcard.isa.gcn.insn import Insn, Op
from softcard.isa.gcn.operations.table import PROMOTED
from softcard.isa.gcn.target import GFX8, GFX9, GFX90A, Target

__all__ = ["encode", "encode_insn", "names_of"]

_SCALED: Final = {"sbase": 2, "srsrc": 4, "ssamp": 4}


def encode_insn(insn: Insn) -> bytes:
    """Return the machine code of a decoded instruction; bits that decoding ignores are 0."""
    return encode(insn.target, insn.op, insn.form, insn.fields, insn.literal)


def encode(target: Target, op: Op, form: str, fields: Mapping[str, int], literal: int | None = None) -> bytes:
    """Return the machine code of `op` in encoding `form`; `fields` are named as in `Insn`, and missing ones are 0.

    Raise `WireError` for a field that the encoding does not have or a value that does not fit."""
    fmt = find_format(target, op, form)
    raw = _raw(target, op, form, fields)
    if form != "EXP":
        raw["op"] = opcode(target, op, form)
    if form == "FLAT" and target.level == GFX9:
        raw["seg"] = SEGMENTS.index(op.family)
    code = fmt.pattern.encode(raw).to_bytes(fmt.size, "little")
    return code if literal is None else code + (literal & 0xFFFF_FFFF).to_bytes(4, "little")


def find_format(target: Target, op: Op, form: str) -> Format:
    """Return the encoding of the operation `op` in the form `form` on `target`."""
    try:
        return format_of(target.encoding, form, "flat" if op.family == "flat" else "global")
    except KeyError:
        raise WireError(f"{target} has no {form} encoding") from None


def names_of(fmt: Format) -> frozenset[str]:
    """Return the fields of an encoding, by their names in `Insn`."""
    names = {field.name for field in fmt.pattern.fields} - {"op", "s0", "s1", "sd", "acc", "acc0", "acc1", "acc_cd"}
    return frozenset(names)


def opcode(target: Target, op: Op, form: str) -> int:
    """Return the opcode of the operation `op` in the form `form` on `target`."""
    code = op.opcodes[target.level]
    return code + PROMOTED[target.level].get(op.family, 0) if form in ("VOP3A", "VOP3B") else code


def _raw(target: Target, op: Op, form: str, fields: Mapping[str, int]) -> dict[str, int]:
    """Return the raw bits for field values: the inverse of `decode._normalize`."""
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
    elif form in MATRIX_FORMS:
        _raw_matrix(target, op, raw)
    elif form in WITH_ACC:
        _raw_data(target, op, form, raw)
    if op.name in ACC_NAMES:
        for slot in slots(op, form):
            if slot.kind in ("a", "asrc"):
                raw[slot.field] = max(raw.get(slot.field, 0) - REGISTERS, 0)
    return raw


def _raw_data(target: Target, op: Op, form: str, raw: dict[str, int]) -> None:
    """Set the bit `acc` in `raw` and convert the data registers to raw register numbers.

    Raise `WireError` unless the data registers are all vector registers or all accumulation registers."""
    used = [
        name for name in data_fields(op, form) if name in raw and not (name == "vdst" and _is_without_result(op, raw))
    ]
    files = {raw[name] >= REGISTERS for name in used}
    if len(files) > 1:
        raise WireError("the data registers must be either all vector registers or all accumulation registers")
    if files == {True}:
        if target.encoding < GFX90A:
            raise WireError(f"{target} has no accumulation registers in memory instructions")
        raw["acc"] = 1
    raw |= {name: raw[name] & REGISTERS - 1 for name in data_fields(op, form) if name in raw}


def _is_without_result(op: Op, raw: Mapping[str, int]) -> bool:
    """Return True if an operation returns nothing: an atomic operation whose flag glc is not set."""
    return "/glc" in op.operands and not raw.get("glc")


def _raw_matrix(target: Target, op: Op, raw: dict[str, int]) -> None:
    """Set the bits for accumulation registers in `raw`: one for D and C together, one for each of A and B."""
    is_d = raw["vdst"] >= REGISTERS
    is_c = is_d if op.name.startswith("v_smfmac") or raw["src2"] < VGPR0 else raw["src2"] >= ACC0
    if is_c != is_d:
        raise WireError("the result and the addend must be either both vector registers or both accumulation registers")
    if target.encoding >= GFX90A:
        raw["acc_cd"] = int(is_d)
    elif not is_d:
        raise WireError(f"the result must be accumulation registers on {target}")
    raw["vdst"] &= REGISTERS - 1
    for name, bit in (("src0", "acc0"), ("src1", "acc1"), ("src2", "")):
        if bit:
            raw[bit] = int(raw[name] >= ACC0)
        if raw[name] >= ACC0:
            raw[name] -= REGISTERS


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
        if target.level >= GFX9:
            raw |= {"sd": int(sdst >= 0), "sdst": max(sdst, 0)}
        elif sdst >= 0:
            raise WireError("an SDWA comparison can write only VCC before GFX9")
