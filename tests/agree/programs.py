"""Test cases of many instructions: straight runs with skips, loops, and calls, over few registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.unitstate import FLOAT_EXTENSIONS
from tests.agree.cases import csr_word, raw, reservation, single, user_names, word
from tests.agree.qemu import SCRATCH_BYTES, Case, Slot
from tests.agree.values import state
from tests.agree.words import CSR, KNOWN, PLAIN, SIZES, compressed, sample, usable_by_a_user, with_registers

BRANCHES = tuple(name for name, spec in KNOWN.items() if spec.flow == "branch")
FLOAT = tuple(name for name in PLAIN if KNOWN[name].extension in FLOAT_EXTENSIONS)
UNRESERVED = tuple(name for name in PLAIN if not name.startswith(("lr.", "sc.")))
"""Whether a store-conditional of another width or value succeeds is each implementation's own affair."""


@dataclass(frozen=True, slots=True)
class Roles:
    """Registers a program keeps: `pointer` and x2 point to the scratch memory, `counter` counts a loop down."""

    keeper: int
    counter: int
    link: int
    pointer: int
    pool: Sequence[int]
    """The registers its instructions mostly use."""
    more: frozenset[int] = frozenset()
    """Others that it keeps."""

    @classmethod
    def choose(cls, random: Random) -> Roles:
        """Distinct registers; the pointer is one that compressed loads can name."""
        keeper, counter, link = random.sample([n for n in range(1, 32) if n != 2 and not 8 <= n < 16], 3)
        pointer = random.randrange(8, 16)
        fixed = {keeper, counter, link, pointer, 2}
        pool = [*random.sample([n for n in range(1, 32) if n not in fixed], 4), pointer, 0]
        return cls(keeper, counter, link, pointer, pool)

    @property
    def fixed(self) -> set[int]:
        """What no instruction of a body may write."""
        return {self.keeper, self.counter, self.link, self.pointer, 2, *self.more}


def program(random: Random, slot: Slot, length: int = 12) -> Case:
    """Up to `length` random instructions, often in a loop, sometimes calling a function of as many."""
    roles = Roles.choose(random)
    code, rounds = body(random, roles, length), 1
    if random.random() < 0.25:
        function = body(random, roles, length) + word("jalr", rs1=roles.link)
        closing = 8 + 4  # the end of the loop, and the jump over the function
        code = word("jal", rd=roles.link, imm=4 + len(code) + closing) + code
        rounds = random.randrange(1, 5)
        code = looped(roles, code) + word("jal", imm=4 + len(function)) + function
    elif random.random() < 0.5:
        rounds = random.randrange(1, 5)
        code = looped(roles, code)
    before = state(random)
    x = list(before.x)
    x[roles.counter], x[roles.keeper] = rounds, slot.out
    x[roles.pointer] = x[2] = slot.scratch
    return Case(slot, code, replace(before, x=tuple(x)), roles.keeper)


def walk(random: Random, slot: Slot, is_simple: bool = False) -> Case:
    """A loop of one block that walks through the scratch memory with two pointers, by constants or a register.

    And often with an index beside a pointer that stays. A simple one is longer, and only goes forward, by constants.
    """
    roles = Roles.choose(random)
    rounds, by_register = random.randrange(1, 24), random.choice((0, 0, 2, roles.pointer))
    if is_simple:
        rounds, by_register = random.randrange(5, 60), 0
    parts, x_values = [], {roles.counter: rounds, roles.keeper: slot.out}
    for pointer in (roles.pointer, 2):
        steps = (0, 1, 2, 4, 4, 8) if is_simple else (0, 1, 2, 4, 8, -8)
        step = random.choice([step for step in steps if abs(step) * rounds <= SCRATCH_BYTES - 32])
        first = random.randrange(0, SCRATCH_BYTES - 32 - abs(step) * rounds + 1, 8)
        x_values[pointer] = slot.scratch + first + (abs(step) * rounds + 7 & ~7 if step < 0 else 0)
        if pointer == by_register:
            x_values[roles.link] = step % (1 << 64)
            move = word("add", rd=pointer, rs1=pointer, rs2=roles.link)
        else:
            move = word("addi", rd=pointer, rs1=pointer, imm=step)
        accesses = [_access(random, roles, pointer, step) for _ in range(random.randrange(1, 4))]
        accesses.insert(random.randrange(len(accesses) + 1), move)
        parts.append(accesses)
    if random.random() < 0.5 and not is_simple:
        more = random.sample([n for n in range(1, 32) if n not in {*roles.fixed, *roles.pool}], 3)
        roles = replace(roles, more=frozenset(more))
        parts.append(_indexed(random, roles, more, rounds, x_values, slot))
    others = [[_part(random, roles, memory=False)] for _ in range(random.randrange(4))]
    mixed = _mixed(random, [*parts, *others])
    before = state(random)
    x = tuple(x_values.get(n, value) for n, value in enumerate(before.x))
    return Case(slot, looped(roles, b"".join(mixed)), replace(before, x=x), roles.keeper)


def _indexed(
    random: Random, roles: Roles, registers: list[int], rounds: int, values: dict[int, int], slot: Slot
) -> list[bytes]:
    """Accesses of an array by an index, which is computed anew each round; `values` get what its registers hold."""
    base, index, place = registers
    shift = random.choice([shift for shift in range(4) if rounds + 1 << shift <= SCRATCH_BYTES - 48])
    first, start = random.randrange(0, SCRATCH_BYTES - 47 - (rounds + 1 << shift), 8), random.randrange(5)
    made = [word("slli", rd=place, rs1=index, imm=shift)]
    sides = random.sample((base, place), 2)
    made.append(word("add", rd=place, rs1=sides[0], rs2=sides[1]))
    if not shift and random.random() < 0.5:
        made = [word("add", rd=place, rs1=base, rs2=index)]
    if random.random() < 0.3:
        made.append(word("addi", rd=place, rs1=place, imm=8))
    made += [_access(random, roles, place, 1 << shift) for _ in range(random.randrange(1, 4))]
    made.insert(random.randrange(len(made) + 1), word("addi", rd=index, rs1=index, imm=1))
    values |= {base: slot.scratch + first - (start << shift), index: start}
    return made


def _mixed(random: Random, runs: list[list[bytes]]) -> list[bytes]:
    """The runs interleaved, each in its own order."""
    order = [run for run in runs for _ in run]
    random.shuffle(order)
    iterators = {id(run): iter(run) for run in runs}
    return [next(iterators[id(run)]) for run in order]


def _access(random: Random, roles: Roles, pointer: int, step: int) -> bytes:
    """A load or store, aligned in every round, of a register that may change."""
    aligned = [name for name, size in SIZES.items() if KNOWN[name].extension != "A" and step % size == 0]
    name = random.choice(aligned)
    register = random.choice([n for n in roles.pool if n != roles.pointer])
    operand = {"rs2": register} if name.startswith(("s", "fs")) else {"rd": register}
    return word(name, rs1=pointer, imm=random.randrange(0, 24, SIZES[name]), **operand)


def looped(roles: Roles, code: bytes) -> bytes:
    """`code`, repeated until the counter is zero."""
    code += word("addi", rd=roles.counter, rs1=roles.counter, imm=-1)
    return code + word("bne", rs1=roles.counter, imm=-len(code))


def body(random: Random, roles: Roles, length: int) -> bytes:
    """Random instructions that fall through at their end; some skip a few of the following ones."""
    parts = [_part(random, roles) for _ in range(random.randrange(2, length + 1))]
    for n in reversed(range(len(parts) - 1)):
        if random.random() < 0.15:
            skipped = sum(map(len, parts[n + 1 : n + 1 + random.randrange(1, 4)]))
            a, b = random.choice(roles.pool), random.choice(roles.pool)
            parts[n] = word(random.choice(BRANCHES), rs1=a, rs2=b, imm=4 + skipped)
    return b"".join(parts)


def _part(random: Random, roles: Roles, *, memory: bool = True) -> bytes:
    """One instruction that falls through and writes no fixed register."""
    tiny = tuple(compressed())
    while True:
        kind = random.random()
        name = random.choice(UNRESERVED if kind < 0.4 else FLOAT if kind < 0.75 else tiny if kind < 0.92 else CSR)
        insn = csr_word(random, name) if name in CSR else sample(random, name)
        if insn.length == 4:
            insn = with_registers(random, insn, roles.pool)
        fits = _keeps_rounding(insn) if insn.name in CSR else insn.spec.flow == "next" and usable_by_a_user(insn)
        if fits and insn.rd not in roles.fixed and (insn.name not in SIZES or (memory and _inside(insn, roles))):
            return raw(insn)


def _keeps_rounding(insn: Insn) -> bool:
    """Whether a csr instruction surely leaves a valid rounding mode in `frm`: later ones may be dynamic."""
    number, reads = insn.imm, insn.rs1 == 0 and insn.name not in ("csrrw", "csrrwi")
    immediate = insn.name.endswith("i")
    return reads or number == 1 or (immediate and (number == 3 or (insn.name == "csrrwi" and insn.rs1 < 5)))


def _inside(insn: Insn, roles: Roles) -> bool:
    """Whether a memory access goes through a pointer to the scratch memory and stays in it."""
    return insn.rs1 in (2, roles.pointer) and 0 <= insn.imm <= SCRATCH_BYTES - 8


def batch(seed: int | str, count: int) -> list[Case]:
    """`count` cases in slots from 0: every user mnemonic in turn, with reservations and programs in between."""
    every = user_names()
    cases = []
    for n in range(count):
        random, slot = Random(f"{seed}/{n}"), Slot(n)
        if n % 20 == 19:
            cases.append(reservation(random, slot))
        elif n % 4 == 3:
            cases.append(program(random, slot, random.choice((4, 12, 40))) if n % 8 == 3 else walk(random, slot))
        else:
            cases.append(single(random, slot, every[(n - n // 4) % len(every)]))
    return cases
