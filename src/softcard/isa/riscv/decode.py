"""Decoding of RISC-V instructions. Errors name ratified instructions that are not modelled."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from softcard.isa.riscv.assembler import assemble, encode
from softcard.isa.riscv.insn import IllegalInstruction, Insn, Spec
from softcard.isa.riscv.isa import REFSI, Isa
from softcard.isa.riscv.table import BASE, FURTHER, HALFWORDS, SPECS, VECTOR

__all__ = ["SPECS", "IllegalInstruction", "assemble", "decode", "encode", "length"]


def length(halfword: int) -> int:
    """Return the size in bytes of the instruction whose first two bytes are `halfword`: 2 or 4.

    Longer instructions are not supported."""
    return 4 if halfword & 3 == 3 else 2


@lru_cache(maxsize=1 << 16)
def decode(word: int, isa: Isa = REFSI) -> Insn:
    """Return the decoded instruction that `word` holds.

    The instruction has 16 bits if the low two bits of `word` are not 3, and 32 bits otherwise. Raise
    `IllegalInstruction` for reserved and unknown encodings, and for instructions that `isa` does not contain.
    """
    if word & 3 != 3:
        insn = _decode_halfword(word & 0xFFFF)
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
        message = f"illegal instruction {shown}: {isa.name} has no such encoding, {name} belongs to {extension}"
        raise IllegalInstruction(message, word=word)


def _decode_halfword(halfword: int) -> Insn:
    row = HALFWORDS.find(halfword)
    if row is None:
        raise IllegalInstruction(
            f"illegal instruction {halfword:#06x}: no compressed instruction has this encoding", word=halfword
        )
    values, expansion = row.pattern.decode(halfword), row.what
    fields = {to: values[field] for to, field in expansion.copied.items()}
    return _insn(expansion.spec, halfword, 2, fields | expansion.fixed, row.name)


def _insn(spec: Spec, word: int, size: int, fields: Mapping[str, int], alias: str = "") -> Insn:
    def get(name: str) -> int:
        return fields.get(name, 0)

    registers = (get("rd"), get("rs1"), get("rs2"), get("rs3"))
    return Insn(spec, word, size, *registers, get("imm"), get("rm"), get("aq"), get("rl"), get("vm"), alias)


def _refusal(word: int, isa: Isa) -> Exception:
    if word & 0x1F == 0x1F:
        return IllegalInstruction(
            f"illegal instruction {word:#010x}: instructions longer than 32 bits are not modelled", word=word
        )
    name = unmodelled(word)
    note = f": {name} is not modelled" if name else f": {isa.name} has no such encoding"
    return IllegalInstruction(f"illegal instruction {word:#010x}{note}", word=word)


_FUNCTION: Final = 0xFE00_707F
_UNARY: Final = 0xFFF0_707F
_ALL: Final = 0xFFFF_FFFF
_BLOCK: Final = 0xFFF0_7FFF
_ATOMIC: Final = 0xF800_707F
_PAIR: Final = 0xFE00_7FFF
UNMODELLED: Final = (
    ("cbo.inval", "Zicbom", _BLOCK, 0x0000_200F),
    ("cbo.clean", "Zicbom", _BLOCK, 0x0010_200F),
    ("cbo.flush", "Zicbom", _BLOCK, 0x0020_200F),
    ("cbo.zero", "Zicboz", _BLOCK, 0x0040_200F),
    ("wrs.nto", "Zawrs", _ALL, 0x00D0_0073),
    ("wrs.sto", "Zawrs", _ALL, 0x01D0_0073),
    ("amocas.w", "Zacas", _ATOMIC, 0x2800_202F),
    ("amocas.d", "Zacas", _ATOMIC, 0x2800_302F),
    ("amocas.q", "Zacas", _ATOMIC, 0x2800_402F),
    ("fli.s", "Zfa", _UNARY, 0xF010_0053),
    ("fli.d", "Zfa", _UNARY, 0xF210_0053),
    ("pack", "Zbkb", _FUNCTION, 0x0800_4033),
    ("packh", "Zbkb", _FUNCTION, 0x0800_7033),
    ("packw", "Zbkb", _FUNCTION, 0x0800_403B),
    ("brev8", "Zbkb", _UNARY, 0x6870_5013),
    ("xperm4", "Zbkx", _FUNCTION, 0x2800_2033),
    ("xperm8", "Zbkx", _FUNCTION, 0x2800_4033),
    ("aes64ds", "Zknd", _FUNCTION, 0x3A00_0033),
    ("aes64dsm", "Zknd", _FUNCTION, 0x3E00_0033),
    ("aes64im", "Zknd", _UNARY, 0x3000_1013),
    ("aes64es", "Zkne", _FUNCTION, 0x3200_0033),
    ("aes64esm", "Zkne", _FUNCTION, 0x3600_0033),
    ("aes64ks1i", "Zkne", 0xFF00_707F, 0x3100_1013),
    ("aes64ks2", "Zkne", _FUNCTION, 0x7E00_0033),
    ("sha256sum0", "Zknh", _UNARY, 0x1000_1013),
    ("sha256sum1", "Zknh", _UNARY, 0x1010_1013),
    ("sha256sig0", "Zknh", _UNARY, 0x1020_1013),
    ("sha256sig1", "Zknh", _UNARY, 0x1030_1013),
    ("sha512sum0", "Zknh", _UNARY, 0x1040_1013),
    ("sha512sum1", "Zknh", _UNARY, 0x1050_1013),
    ("sha512sig0", "Zknh", _UNARY, 0x1060_1013),
    ("sha512sig1", "Zknh", _UNARY, 0x1070_1013),
    ("sm3p0", "Zksh", _UNARY, 0x1080_1013),
    ("sm3p1", "Zksh", _UNARY, 0x1090_1013),
    ("hfence.vvma", "H", _PAIR, 0x2200_0073),
    ("hfence.gvma", "H", _PAIR, 0x6200_0073),
    ("sinval.vma", "Svinval", _PAIR, 0x1600_0073),
    ("sfence.w.inval", "Svinval", _ALL, 0x1800_0073),
    ("sfence.inval.ir", "Svinval", _ALL, 0x1810_0073),
)
"""The ratified instructions that are not modelled: mnemonic, extension, and mask and value of the fixed bits."""


def unmodelled(word: int) -> str:
    """Return a text such as ``cbo.zero of Zicboz`` for a ratified instruction that is not modelled, else ""."""
    return next((f"{name} of {extension}" for name, extension, mask, bits in UNMODELLED if word & mask == bits), "")
