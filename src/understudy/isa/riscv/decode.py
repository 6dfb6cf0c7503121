"""Decoding; also the public names of encoding and assembling."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from understudy.isa.riscv.assembler import assemble, encode
from understudy.isa.riscv.insn import IllegalInstruction, Insn, Spec
from understudy.isa.riscv.isa import REFSI, Isa
from understudy.isa.riscv.table import BASE, FURTHER, PARCELS, SPECS, VECTOR

__all__ = ["SPECS", "IllegalInstruction", "assemble", "decode", "encode", "length"]


def length(parcel: int) -> int:
    """Bytes of the instruction that starts with this 16-bit parcel: 2 or 4 (longer ones do not exist here)."""
    return 4 if parcel & 3 == 3 else 2


@lru_cache(maxsize=1 << 16)
def decode(word: int, isa: Isa = REFSI) -> Insn:
    """The instruction in `word`: a 16-bit parcel where the low two bits are not 3, else 32 bits.

    Raises `IllegalInstruction` for reserved and unknown encodings, and for instructions that `isa` has not.
    """
    if word & 3 != 3:
        insn = _decode_parcel(word & 0xFFFF)
        _check(insn.alias, "C", word & 0xFFFF, isa)
        _check(insn.alias, insn.spec.extension, word & 0xFFFF, isa)
        return insn
    word &= 0xFFFF_FFFF
    row = BASE.find(word) or VECTOR.find(word) or FURTHER.find(word)
    if row is None:
        raise _refusal(word, isa)
    _check(row.name, row.what.extension, word, isa)
    return _insn(row.what, word, 4, row.pattern.decode(word))


def _check(name: str, extension: str, word: int, isa: Isa) -> None:
    if extension not in isa:
        shown = f"{word:#0{10 if word & 3 == 3 else 6}x}"
        message = f"illegal instruction {shown}: no such encoding in {isa.name}, {name} is of {extension}"
        raise IllegalInstruction(message, word=word)


def _decode_parcel(parcel: int) -> Insn:
    row = PARCELS.find(parcel)
    if row is None:
        raise IllegalInstruction(f"illegal instruction {parcel:#06x}: no compressed form", word=parcel)
    values, expansion = row.pattern.decode(parcel), row.what
    fields = {to: values[field] for to, field in expansion.copied.items()}
    return _insn(expansion.spec, parcel, 2, fields | expansion.fixed, row.name)


def _insn(spec: Spec, word: int, size: int, fields: Mapping[str, int], alias: str = "") -> Insn:
    def get(name: str) -> int:
        return fields.get(name, 0)

    registers = (get("rd"), get("rs1"), get("rs2"), get("rs3"))
    return Insn(spec, word, size, *registers, get("imm"), get("rm"), get("aq"), get("rl"), get("vm"), alias)


def _refusal(word: int, isa: Isa) -> Exception:
    if word & 0x1F == 0x1F:
        return IllegalInstruction(f"illegal instruction {word:#010x}: longer than 32 bits", word=word)
    return IllegalInstruction(f"illegal instruction {word:#010x}: no such encoding in {isa.name}", word=word)
