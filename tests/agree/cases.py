"""Test cases of one instruction, or a reserved pair of them, with a state in which it is likely to go wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from softcard.ir import softfloat
from softcard.isa.riscv.decode import encode
from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.unitstate import FLOAT_EXTENSIONS
from tests.agree.qemu import SCRATCH_BYTES, Case, Slot
from tests.agree.values import MASK64, related, state
from tests.agree.words import (
    CONTROL,
    CSR,
    FENCES,
    FLOAT_CSRS,
    PLAIN,
    SIZES,
    compressed,
    sample,
    usable_by_a_user,
)

MEMORY = tuple(SIZES)
MARKERS = (1, 2, 4, 8)


def raw(insn: Insn) -> bytes:
    """The bytes of an instruction."""
    return insn.word.to_bytes(insn.length, "little")


def word(name: str, **fields: int) -> bytes:
    """The bytes of a base instruction."""
    return encode(name, **fields).to_bytes(4, "little")


def registers(insn: Insn) -> set[int]:
    """All register numbers an instruction names, of both files."""
    return {insn.rd, insn.rs1, insn.rs2, insn.rs3}


def csr_word(random: Random, name: str) -> Insn:
    """A csr instruction on a float csr."""
    while True:
        insn = sample(random, name)
        other = insn.word & 0x000F_FFFF | random.choice(FLOAT_CSRS) << 20
        return replace(insn, word=other, imm=other >> 20)


def user_names() -> tuple[str, ...]:
    """Every mnemonic that a Linux program can run, base and compressed."""
    tiny = tuple(alias for alias, insns in compressed().items() if any(map(usable_by_a_user, insns)))
    return (*PLAIN, *CONTROL, *CSR, *(name for name in FENCES if name not in PLAIN), *tiny)


# Registers that fit an instruction.


def relate(random: Random, insn: Insn, x: list[int], f: list[int]) -> None:
    """Now and then make the operands of an instruction equal, near each other, or cancel each other out."""
    if insn.spec.extension in FLOAT_EXTENSIONS:
        t = "d" if insn.name.endswith((".d", ".d.w", ".d.l")) else "h" if insn.spec.extension == "Zfh" else "s"
        low = {"h": 0xFFFF, "s": 0xFFFF_FFFF, "d": MASK64}[t]
        box = MASK64 ^ low
        if random.random() < 0.4:
            f[insn.rs2] = box | related(random, t, f[insn.rs1] & low)
        if random.random() < 0.5:
            product = softfloat.mul(t, f[insn.rs1] & low, f[insn.rs2] & low, 0)[0]
            f[insn.rs3] = box | related(random, t, product)
    elif random.random() < 0.3 and insn.rs2:
        x[insn.rs2] = (x[insn.rs1] + random.choice((0, 0, 0, 1, -1))) & MASK64


def aim(random: Random, insn: Insn, slot: Slot, x: list[int]) -> None:
    """Let rs1 + imm point to an aligned place in the scratch memory."""
    size = SIZES[insn.name]
    x[insn.rs1] = (slot.scratch + random.randrange(0, SCRATCH_BYTES, size) - insn.imm) & MASK64


def pick(random: Random, taken: set[int]) -> int:
    """An integer register other than x0 and `taken`."""
    return random.choice([n for n in range(1, 32) if n not in taken])


# One instruction.


def single(random: Random, slot: Slot, name: str, legal: Callable[[Insn], bool] = usable_by_a_user) -> Case:
    """One instruction of a mnemonic; control transfers skip, or come back to, instructions that leave marks."""
    while True:
        insn = csr_word(random, name) if name in CSR else sample(random, name)
        if insn.spec.flow in ("branch", "jump", "indirect"):
            made = control(random, slot, insn)
        else:
            made = straight(random, slot, insn) if legal(insn) and not (insn.name in SIZES and not insn.rs1) else None
        if made is not None:
            return made


def straight(random: Random, slot: Slot, insn: Insn) -> Case:
    """An instruction that falls through."""
    before = state(random)
    x, f = list(before.x), list(before.f)
    keeper = pick(random, registers(insn))
    relate(random, insn, x, f)
    if insn.name in SIZES:
        aim(random, insn, slot, x)
    x[0], x[keeper] = 0, slot.out
    return Case(slot, raw(insn), replace(before, x=tuple(x), f=tuple(f)), keeper)


def shadows(register: int) -> list[bytes]:
    """Two-byte instructions (c.addi) whose sum in a register tells which of them ran."""
    return [(register << 7 | n << 2 | 1).to_bytes(2, "little") for n in MARKERS]


def control(random: Random, slot: Slot, insn: Insn) -> Case | None:
    """A control transfer to one of the marks behind it or before it; None where `insn` cannot reach one.

    Forwards: insn, four marks. Backwards: a jump to insn, two marks, a jump to the end, insn, two marks.
    """
    backwards = random.random() < 0.3
    at = 12 if backwards else 0
    targets = (4, 6, 8) if backwards else tuple(insn.length + 2 * n for n in range(5))
    target = random.choice(targets)
    if insn.length == 4:
        fields = {"rd": insn.rd, "rs1": insn.rs1, "rs2": insn.rs2}
        used = {"branch": ("rs1", "rs2"), "jump": ("rd",), "indirect": ("rd", "rs1")}[insn.spec.flow]
        imm = insn.imm if insn.spec.flow == "indirect" else target - at
        code = word(insn.name, imm=imm, **{name: fields[name] for name in used})
    elif insn.spec.flow == "indirect":
        imm, code = insn.imm, raw(insn)
    else:
        fitting = [i for i in compressed()[insn.alias] if i.imm + at in targets]
        if not fitting:
            return None
        insn = random.choice(fitting)
        imm, code = insn.imm, raw(insn)
    before = state(random)
    x = list(before.x)
    keeper = pick(random, registers(insn))
    shadowed = shadows(pick(random, {keeper}))
    if backwards:
        end = at + insn.length + 4
        code = (
            word("jal", imm=12)
            + shadowed[0]
            + shadowed[1]
            + word("jal", imm=end - 8)
            + code
            + shadowed[2]
            + shadowed[3]
        )
    else:
        code += b"".join(shadowed)
    relate(random, insn, x, list(before.f))
    if insn.spec.flow == "indirect":
        if not insn.rs1:
            return None
        x[insn.rs1] = (slot.code + target - imm + random.getrandbits(1)) & MASK64
    x[0], x[keeper] = 0, slot.out
    return Case(slot, code, replace(before, x=tuple(x)), keeper)


def reservation(random: Random, slot: Slot) -> Case:
    """lr, perhaps something between, sc of the same width to the same or another place."""
    t = random.choice("wd")
    size = SIZES[f"lr.{t}"]
    keeper, first, second, value, loaded, result = random.sample(range(1, 32), 6)
    before = state(random)
    x = list(before.x)
    x[first] = x[second] = slot.scratch + random.randrange(0, SCRATCH_BYTES, 8)
    if random.random() < 0.2:
        x[second] = x[first] ^ 8
    between = random.choice(("", "", "same", "other", "load", "lr", "sc"))
    code = word(f"lr.{t}", rd=loaded, rs1=first)
    if between == "same":
        code += word("sw" if size == 4 else "sd", rs1=first, rs2=loaded)
    elif between == "other":
        code += word("sw" if size == 4 else "sd", rs1=first, rs2=value)
    elif between == "load":
        code += word(f"l{t}", rd=loaded, rs1=second)
    elif between == "lr":
        code += word(f"lr.{t}", rd=loaded, rs1=second)
    elif between == "sc":
        code += word(f"sc.{t}", rd=random.choice((0, loaded)), rs1=first, rs2=loaded)
    code += word(f"sc.{t}", rd=result, rs1=second, rs2=value)
    x[keeper] = slot.out
    return Case(slot, code, replace(before, x=tuple(x)), keeper)
