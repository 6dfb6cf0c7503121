"""Random instruction words of every mnemonic, found through nothing but `encode` and `decode`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from random import Random

from softcard.core.errors import SoftcardError
from softcard.isa.riscv.decode import SPECS, decode, encode
from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.isa import ALL
from softcard.isa.riscv.table import FURTHER, HALFWORDS
from softcard.isa.riscv.unitstate import FLOAT_EXTENSIONS
from tests.agree.qemu import SCRATCH_BYTES

KNOWN = {**SPECS, **{row.name: row.what for row in FURTHER}}
"""What is known of every mnemonic that is no vector instruction's."""
UNCOMPARED = ("ctzw", *(name for name, spec in KNOWN.items() if spec.extension == "Zicond"))
"""What qemu-riscv64 7.2 has not, or wrong: there ctzw looks beyond the low word where that is zero."""

SIZES = {
    **{f"l{t}": size for t, size in zip(("b", "bu", "h", "hu", "w", "wu", "d"), (1, 1, 2, 2, 4, 4, 8), strict=True)},
    "sb": 1,
    "sh": 2,
    "sw": 4,
    "sd": 8,
    "flh": 2,
    "fsh": 2,
    "flw": 4,
    "fld": 8,
    "fsw": 4,
    "fsd": 8,
    **{name: 4 if name.endswith(".w") else 8 for name in SPECS if SPECS[name].extension == "A"},
}
"""Bytes that a mnemonic loads or stores at rs1 + imm."""

CSR = tuple(name for name in SPECS if name.startswith("csrr"))
CONTROL = tuple(name for name, spec in SPECS.items() if spec.flow in ("branch", "jump", "indirect"))
PLAIN = tuple(name for name, spec in KNOWN.items() if spec.flow == "next" and name not in UNCOMPARED)
SYSTEM = tuple(name for name, spec in SPECS.items() if spec.flow == "system")
FENCES = tuple(name for name in SPECS if name.startswith("fence"))
FLOAT_CSRS = (1, 2, 3)
"""fflags, frm, fcsr."""


def decoded(word: int) -> Insn | None:
    """The instruction in `word`, or None where there is none."""
    try:
        return decode(word, ALL)
    except SoftcardError:
        return None


@cache
def free_bits(name: str) -> tuple[int, ...]:
    """Bits of a base instruction's word that may be 0 or 1 without making it another."""
    word = encode(name)
    near = ((bit, decoded(word ^ 1 << bit)) for bit in range(32))
    return tuple(bit for bit, insn in near if insn is not None and insn.name == name and not insn.alias)


@cache
def compressed() -> dict[str, tuple[Insn, ...]]:
    """Every 16-bit instruction there is, by compressed mnemonic."""
    found: dict[str, list[Insn]] = {}
    for word in range(1 << 16):
        if word & 3 != 3:
            insn = decoded(word)
            if insn is not None and insn.length == 2:
                found.setdefault(insn.alias, []).append(insn)
    return {alias: tuple(insns) for alias, insns in found.items()}


def names() -> tuple[str, ...]:
    """All base mnemonics, then all compressed ones."""
    return (*KNOWN, *(parcel.name for parcel in HALFWORDS))


def sample(random: Random, name: str) -> Insn:
    """A random instruction of a base or compressed mnemonic; all fields are random, some all ones or zeros."""
    if name not in KNOWN:
        return random.choice(compressed()[name])
    while True:
        word, keep = encode(name), random.choice((0, 0, 0, 0, 0, -1, 0xFE0F_FFFF, 0x000F_FFFF))
        for bit in free_bits(name):
            word ^= (random.getrandbits(1) if keep == 0 or keep >> bit & 1 else keep == 0x000F_FFFF) << bit
        insn = decoded(word)
        if insn is not None and insn.name == name:
            return insn


def with_registers(random: Random, insn: Insn, pool: Sequence[int]) -> Insn:
    """The same base instruction with registers of the pool, and a small immediate where it is a memory access."""
    for at in (7, 15, 20, 27):
        other = decoded(insn.word & ~(31 << at) | random.choice(pool) << at)
        same = other is not None and (other.name, other.imm, other.rm) == (insn.name, insn.imm, insn.rm)
        if same and other is not None and (at != 27 or insn.rs3):
            insn = other
    if insn.name in SIZES and insn.spec.extension != "A":
        source = {"rs2": insn.rs2} if insn.name.startswith(("s", "fs")) else {"rd": insn.rd}
        imm = random.randrange(0, SCRATCH_BYTES, SIZES[insn.name])
        return decode(encode(insn.name, imm=imm, rs1=insn.rs1, **source), ALL)
    return insn


def usable_by_a_user(insn: Insn) -> bool:
    """Whether a Linux program may run `insn`, with an outcome that does not depend on the machine."""
    if insn.name in CSR:
        return insn.imm in FLOAT_CSRS
    if insn.spec.extension in FLOAT_EXTENSIONS and insn.rm in (5, 6):
        return False  # a reserved static rounding mode, or a function code: those are below 5
    return insn.spec.flow != "system" or insn.name in FENCES
