"""Cases that no operating system would survive: faults, floats switched off, lower privileges, odd csrs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from softcard.isa.riscv import csr, csrnames
from softcard.isa.riscv.decode import length
from softcard.isa.riscv.state import RESERVED_ADDRESS, RESERVED_VALUE, Hart, M, S, U
from tests.agree.bench import Prepare
from tests.agree.cases import single, straight
from tests.agree.programs import program, walk
from tests.agree.qemu import CODE, DATA, DATA_SLOT, SCRATCH_BYTES, SLOTS, Case, Slot
from tests.agree.values import MASK64, integer
from tests.agree.words import KNOWN, SIZES, decoded, sample

DATA_END = DATA + SLOTS * DATA_SLOT
ADDRESSES = (0, 1, CODE - 8, DATA - 4, DATA_END - 8, 1 << 31, (1 << 32) - 8, 1 << 32, 1 << 63, MASK64 - 7, MASK64)
"""Places beside memory, and at the ends of what engines reach directly."""
CSRS = (*sorted(csr.RULES), *sorted(csr.TRIGGERS)[:2], 0x7C0)
"""Every csr there is, and some that are not."""
SETTABLE = (csrnames.STVEC, csrnames.MEDELEG, csrnames.MSCRATCH, csrnames.SCOUNTEREN, csrnames.MCAUSE, csrnames.SEPC)


@dataclass(frozen=True, slots=True)
class Try:
    """A case, the instructions it may run, and what is done to the hart before."""

    case: Case
    fuel: int
    prepare: Prepare


def any_case(random: Random, slot: Slot, name: str) -> Case:
    """One instruction of any mnemonic, legal or not."""
    spec = KNOWN.get(name)
    if spec is None or spec.flow != "system":
        if name == "c.ebreak":
            return straight(random, slot, sample(random, name))
        return single(random, slot, name, legal=lambda insn: True)
    insn = sample(random, name)
    if spec.extension == "Zicsr" and random.random() < 0.9:
        known = decoded(insn.word & 0xFFFFF | random.choice(CSRS) << 20)
        insn = known if known is not None else insn
    return straight(random, slot, insn)


def tries(random: Random, slot: Slot, name: str, count: int) -> list[Try]:
    """One instruction of a mnemonic in `count` states."""
    case = any_case(random, slot, name)
    first = decoded(int.from_bytes(case.code[:4], "little") & (MASK64 if length(case.code[0]) == 4 else 0xFFFF))
    assert first is not None
    out = []
    for _ in range(count):
        other = again(random, case, name)
        pointers = {first.rs1} if first.name in SIZES or first.spec.flow == "indirect" else set()
        out.append(Try(disturbed(random, other, pointers), random.choice((1, 2, 1000)), prepared(random, other, name)))
    return out


def again(random: Random, case: Case, name: str) -> Case:
    """The same code with other operands: only registers that are no addresses change."""
    fresh = any_case(random, case.slot, name)
    places = {n for n, value in enumerate(case.before.x) if _is_address(case, value)}
    x = tuple(case.before.x[n] if n in places else value for n, value in enumerate(fresh.before.x))
    return replace(case, before=replace(fresh.before, x=x)) if 0 < len(places) < 32 else case


def _is_address(case: Case, value: int) -> bool:
    return any(base - 4096 <= value < base + 4096 for base in (case.slot.code, case.slot.data))


def program_tries(random: Random, slot: Slot, count: int) -> list[Try]:
    """One program in `count` states, stopped anywhere."""
    if random.random() < 0.5:
        return tries_of(random, walk(random, slot), count, 0.4)
    return tries_of(random, program(random, slot, random.choice((4, 12, 40))), count, 0.15)


def tries_of(random: Random, case: Case, count: int, chance: float) -> list[Try]:
    """A program in `count` states; each of its pointers is a bad one by so much chance."""
    scratch = range(case.slot.scratch, case.slot.scratch + SCRATCH_BYTES)
    pointers = {n for n, value in enumerate(case.before.x) if value in scratch}
    out = []
    for _ in range(count):
        fuel = random.choice((random.randrange(1, 60), random.randrange(1, 600), 1000))
        out.append(Try(disturbed(random, case, pointers, chance), fuel, prepared(random, case, "")))
    return out


def disturbed(random: Random, case: Case, pointers: set[int], chance: float = 0.3) -> Case:
    """The case with a bad pointer or rounding mode, now and then."""
    x, fcsr = list(case.before.x), case.before.fcsr
    for n in pointers - {0, case.keeper}:
        if random.random() < chance:
            x[n] = bad_pointer(random, x[n])
    if random.random() < 0.15:
        fcsr = fcsr & 31 | random.randrange(4, 8) << 5
    return (
        replace(case, before=replace(case.before, x=tuple(x), fcsr=fcsr)) if x[case.keeper] == case.slot.out else case
    )


def bad_pointer(random: Random, pointer: int) -> int:
    """A pointer that is misaligned, wild, or close enough to the end of a page or of memory to run over it."""
    choice = random.randrange(6)
    if choice == 0:
        return (pointer + random.randrange(1, 8)) & MASK64
    if choice == 1:
        return integer(random)
    if choice == 2:
        return random.choice(ADDRESSES)
    end = (pointer | 0xFFF) + 1 if choice == 3 else DATA_END
    return end - 8 * random.randrange(20)


def prepared(random: Random, case: Case, name: str) -> Prepare:
    """Float state, privilege, csrs and reservation for one run, the same for every engine."""
    first = decoded(int.from_bytes(case.code[:4], "little"))
    system = bool(name) and (name not in KNOWN or KNOWN[name].flow == "system")
    status = random.choice((3, 3, 3, 3, 2, 1, 0)) << 13
    privilege = random.choice((M, S, U)) if system else random.choice((M, M, M, U))
    values = {csrnames.MTVEC: random.choice((0, case.slot.code + 4, integer(random)))}
    if system:
        status |= random.getrandbits(23) & (csr.TVM | csr.TW | csr.TSR | csr.MPP | csr.SPP | csr.MPIE | csr.SPIE)
        values |= {number: integer(random) for number in SETTABLE}
        values[csrnames.MEPC] = random.choice((case.slot.code + len(case.code), integer(random)))
    reservation = None
    if first is not None and first.name.startswith("sc.") and random.random() < 0.7:
        reservation = case.before.x[first.rs1], _word(random, case, case.before.x[first.rs1], SIZES[first.name])

    def prepare(hart: Hart) -> None:
        csr.write(hart, csrnames.MSTATUS, status, M)
        for number, value in values.items():
            csr.write(hart, number, value, M)
        hart.privilege = privilege
        if reservation is not None:
            hart.words[RESERVED_ADDRESS], hart.words[RESERVED_VALUE] = reservation

    return prepare


def _word(random: Random, case: Case, address: int, size: int) -> int:
    """What memory holds at an address of the scratch memory; sometimes something else."""
    at = address - case.slot.scratch
    if random.random() < 0.2 or not 0 <= at <= len(case.before.memory) - size:
        return integer(random)
    return int.from_bytes(case.before.memory[at : at + size], "little")
