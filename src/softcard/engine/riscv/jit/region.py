"""Regions, the unit of translation: code that can be reached from an address without leaving the guest function."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Set
from dataclasses import dataclass, field

from softcard.engine.riscv.polling import is_poll
from softcard.ir.llvm import host_features
from softcard.ir.translator import translator_key
from softcard.isa.riscv.csr import VECTOR_WORDS
from softcard.isa.riscv.csrnames import VLENB
from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.unitstate import FLOAT_EXTENSIONS

LIMIT = 1000
"""The maximum number of instructions in a region; for larger ones compile time grows faster than size."""

MAX_SLACK = 64
"""The maximum amount of fuel that a region may reserve (see `Region.slack`).

Fuel checks that would need more compare the fuel with their budget.
"""

MASK64 = (1 << 64) - 1
Fetch = Callable[[int], Insn | None]


@dataclass(slots=True)
class Block:
    """A basic block: instructions without a branch between them, and its successors.

    `cost` is the number of instructions that are executed natively; a last instruction with flow "system" runs on the
    reference engine and is not counted. `successors` are pcs, inside the region or not. `polls` is true if the block
    ends a polling loop: its last instruction branches back to the first successor.
    """

    start: int
    insns: list[tuple[int, Insn]] = field(default_factory=list)
    successors: tuple[int, ...] = ()
    cost: int = 0
    polls: bool = False

    @property
    def end(self) -> int:
        """The first address after the block."""
        pc, insn = self.insns[-1]
        return pc + insn.length


@dataclass(slots=True)
class Region:
    """A set of basic blocks that is translated as one function.

    - `blocks`: the blocks by start address.
    - `entries`: the addresses of blocks that may be entered from outside. `heads`: the addresses of loop heads.
    - `calls_itself`: True if a call goes to a block of the region, so that a return may stay inside.
    - `budget`: for each block with a fuel check, the largest number of instructions that can run before the next check.
    - `least`: for every block, the smallest such number. A fuel check subtracts this number at once; longer paths pay
      the rest on the edge at which they diverge.
    - `slack`: the amount that is subtracted from the fuel inside the region, so that a check only tests the sign of the
      rest.
    - `counters`: the number of the region's first counter, if instructions are counted (see `counters`).
    - `misaligned`: True if loads and stores may have any address.
    - `refills`: True if memory is seen through a simulated translation buffer, most of whose misses are handled inline.
    - `vlen`: the width of vector registers, if vectors are used. `vtype`: its most likely value at the entry.
    """

    entry: int
    blocks: dict[int, Block]
    entries: set[int]
    heads: set[int]
    budget: dict[int, int]
    address_ranges: list[tuple[int, int]]
    calls_itself: bool = False
    least: dict[int, int] = field(default_factory=dict)
    slack: int = 0
    vlen: int = 0
    vtype: int = 0
    refills: bool = False
    misaligned: bool = False
    counters: int | None = None

    def debt(self, start: int) -> int:
        """Return the fuel that is already subtracted but not used yet at the start of a block.

        The result is 0 for a block that begins with a fuel check, and for an address outside the region.
        """
        return 0 if start in self.budget else self.least.get(start, 0)

    @property
    def uses_vectors(self) -> bool:
        """True if the region's code depends on the width of vector registers."""
        every = (insn for block in self.blocks.values() for _, insn in block.insns)
        return any(insn.spec.extension in ("V", "Zve64d") or _of_vectors(insn) for insn in every)

    @property
    def vtypes(self) -> dict[int, int]:
        """The values that instructions set vtype to, by pc."""
        every = (each for block in self.blocks.values() for each in block.insns)
        return {pc: insn.imm for pc, insn in every if insn.name in ("vsetvli", "vsetivli")}

    @property
    def polls(self) -> set[int]:
        """The pcs of the instructions that branch back to begin another iteration of a polling loop."""
        return {block.insns[-1][0] for block in self.blocks.values() if block.polls}

    @property
    def size(self) -> int:
        """The number of instructions in the region."""
        return sum(len(block.insns) for block in self.blocks.values())

    def holds(self, pc: int) -> bool:
        """Return True if an instruction of the region starts at `pc` or spans it."""
        return any(first <= pc < last for first, last in self.address_ranges)


def is_call(insn: Insn) -> bool:
    """Return True if `insn` is a call: control is expected to return to the instruction after it."""
    return insn.spec.flow in ("jump", "indirect") and insn.rd != 0


def flow_of(insn: Insn, native_float: bool) -> str:
    """Return the kind of control flow of `insn`; "system" if the reference engine executes it."""
    extension = insn.spec.extension
    if not native_float and extension in (*FLOAT_EXTENSIONS, "Zve64d"):
        return "system"
    if extension == "Zfh" and "f16c" not in host_features():
        return "system"
    return "next" if _of_vectors(insn) else insn.spec.flow


def _of_vectors(insn: Insn) -> bool:
    """Return True if `insn` accesses a vector CSR that translated code handles."""
    return insn.spec.extension == "Zicsr" and (insn.imm in VECTOR_WORDS or insn.imm == VLENB)


def discover(entry: int, fetch: Fetch, stops: Set[int] = frozenset(), native_float: bool = True) -> Region:
    """Return the region that starts at `entry`.

    `fetch(pc)` returns the decoded instruction, or None if the code there is invalid. `stops` are pcs that the region
    must not contain (the return address).
    """
    insns: dict[int, Insn] = {}
    leaders, entries, work = {entry}, {entry}, [entry]
    while work:
        pc = work.pop()
        while pc not in insns and pc not in stops and len(insns) < LIMIT:
            insn = fetch(pc)
            if insn is None or pc + insn.length > MASK64:
                break  # code that wraps around the address space is not translated
            insns[pc] = insn
            following = (pc + insn.length) & MASK64
            flow = flow_of(insn, native_float)
            if flow == "next":
                pc = following
                continue
            if flow == "branch" or (flow == "jump" and not is_call(insn)):
                target = (pc + insn.imm) & MASK64
                leaders.add(target)
                work.append(target)
            if flow == "branch":
                leaders.add(following)
                pc = following
                continue
            if flow == "system" or is_call(insn):
                leaders.add(following)
                entries.add(following)
                work.append(following)
            break
    return _assemble(entry, insns, leaders, entries, native_float)


def _assemble(entry: int, insns: dict[int, Insn], leaders: set[int], entries: set[int], native_float: bool) -> Region:
    blocks: dict[int, Block] = {}
    heads: set[int] = set()
    starts = leaders & insns.keys()
    calls_itself = False
    for start in sorted(starts):
        block = Block(start)
        pc = start
        while pc in insns:
            insn = insns[pc]
            block.insns.append((pc, insn))
            following = (pc + insn.length) & MASK64
            flow = flow_of(insn, native_float)
            if flow != "next":
                system = flow == "system"
                block.successors = () if system else _targets(pc, insn, following, starts)
                calls_itself |= is_call(insn) and bool(block.successors)
                block.cost = len(block.insns) - system
                block.polls = is_poll(pc, insn, insns.get)
                break
            pc = following
            if pc in leaders or pc not in insns:
                block.successors = (pc,)
                block.cost = len(block.insns)
                break
        heads.update(target for target in block.successors if target <= block.insns[-1][0] and target in insns)
        blocks[start] = block
    entries = {pc for pc in entries if pc in blocks}
    region = Region(entry, blocks, entries, heads, {}, _address_ranges(insns), calls_itself)
    _budget(region)
    return region


def _targets(pc: int, insn: Insn, following: int, starts: set[int]) -> tuple[int, ...]:
    target = (pc + insn.imm) & MASK64
    if insn.spec.flow == "branch":
        return (target, following)
    if insn.spec.flow == "indirect" or (is_call(insn) and target not in starts):
        return ()
    return (target,)


def _address_ranges(insns: dict[int, Insn]) -> list[tuple[int, int]]:
    address_ranges: list[list[int]] = []
    for pc in sorted(insns):
        end = pc + insns[pc].length
        if address_ranges and pc <= address_ranges[-1][1]:
            address_ranges[-1][1] = max(address_ranges[-1][1], end)
        else:
            address_ranges.append([pc, end])
    return [(first, last) for first, last in address_ranges]


def _budget(region: Region) -> None:
    """Compute the longest and shortest path from each block to the next fuel check, in instructions.

    Every cycle contains a loop head.
    """
    checks = region.heads | region.entries
    for start, block in region.blocks.items():
        if start in block.successors:  # so that the budget of a one-block loop is its length
            checks.update(block.successors)
    longest: dict[int, int] = {}
    least = region.least
    for start in sorted(region.blocks, reverse=True):
        # Edges to blocks without a check go to higher addresses only: backward edges end at loop heads.
        block = region.blocks[start]
        onward = [s if s in region.blocks and s not in checks else None for s in block.successors]
        longest[start] = block.cost + max((longest[s] for s in onward if s is not None), default=0)
        least[start] = block.cost + min((0 if s is None else least[s] for s in onward), default=0)
    region.budget = {start: longest[start] for start in checks if start in region.blocks}
    region.slack = max((most - least[start] for start, most in region.budget.items()), default=0)
    region.slack = min(region.slack, MAX_SLACK)


def region_key(part: Region, native_float: bool, tier: int, more: str = "") -> str:
    """Return the key of a region's compiled object in the cache.

    `more` contains the names of the checks whose code it contains.
    """
    digest = hashlib.sha256(translator_key())
    seen = f"{part.vlen} {part.vtype:x} {part.refills} {part.misaligned} {part.counters}{more}"
    digest.update(f"{part.entry:x} {native_float} {tier} {seen} {sorted(part.entries)}".encode())
    for start, block in sorted(part.blocks.items()):
        words = " ".join(f"{insn.word:x}" for _, insn in block.insns)
        digest.update(f"{start:x} {block.successors} {words};".encode())
    return digest.hexdigest()
