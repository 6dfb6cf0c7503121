"""What the JIT translates at once: the part of a guest function reachable without leaving it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Set
from dataclasses import dataclass, field

from understudy.engine.riscv.polling import is_poll
from understudy.ir.llvm import host_features
from understudy.ir.translator import translator_key
from understudy.isa.riscv.csr import VECTOR_WORDS
from understudy.isa.riscv.csrnames import VLENB
from understudy.isa.riscv.floatstate import EXTENSIONS
from understudy.isa.riscv.insn import Insn

LIMIT = 1000
"""Instructions in one region at most; compile time grows faster than size beyond that."""

MAX_SLACK = 64
"""Fuel that a region may keep back; checks that would need more compare with their budget."""

MASK64 = (1 << 64) - 1
Fetch = Callable[[int], Insn | None]


@dataclass(slots=True)
class Block:
    """A straight run of instructions and where it can go.

    `cost` counts the instructions that run here natively; a last instruction with flow "system" is left to the
    reference engine and not counted. `successors` are pcs, inside the region or not. `polls` tells that its last
    instruction goes back to the first successor for another round of polling.
    """

    start: int
    insns: list[tuple[int, Insn]] = field(default_factory=list)
    successors: tuple[int, ...] = ()
    cost: int = 0
    polls: bool = False

    @property
    def end(self) -> int:
        """First address behind the block."""
        pc, insn = self.insns[-1]
        return pc + insn.length


@dataclass(slots=True)
class Region:
    """Blocks by start address; `entries` may be entered from outside, `heads` are loop heads.

    `calls_itself` tells that a call goes to a block of the region, so that a return may well stay inside.
    `budget` gives for each block where fuel is checked the most instructions that can run before the next check, and
    `least` for every block the fewest. A check takes the fewest at once; ways that turn out longer pay on the edge
    where they part. `slack` is kept back from the fuel inside the region: a check is the sign of what is left.
    `counters`: the first of its counters, where instructions are counted (see `counters`).
    With `refills` memory is seen through a translation buffer, whose misses are mostly made good in line.
    Where vectors are used, registers have `vlen` bits, and `vtype` is most likely what it is at the entry.
    """

    entry: int
    blocks: dict[int, Block]
    entries: set[int]
    heads: set[int]
    budget: dict[int, int]
    spans: list[tuple[int, int]]
    calls_itself: bool = False
    least: dict[int, int] = field(default_factory=dict)
    slack: int = 0
    vlen: int = 0
    vtype: int = 0
    refills: bool = False
    counters: int | None = None

    def debt(self, start: int) -> int:
        """Fuel that is paid but not used yet where block `start` begins; nothing before a check or outside."""
        return 0 if start in self.budget else self.least.get(start, 0)

    @property
    def uses_vectors(self) -> bool:
        """Whether the width of vector registers matters."""
        every = (insn for block in self.blocks.values() for _, insn in block.insns)
        return any(insn.spec.extension in ("V", "Zve64d") or _of_vectors(insn) for insn in every)

    @property
    def vtypes(self) -> dict[int, int]:
        """vtype by the pc of the instruction that sets it."""
        every = (each for block in self.blocks.values() for each in block.insns)
        return {pc: insn.imm for pc, insn in every if insn.name in ("vsetvli", "vsetivli")}

    @property
    def polls(self) -> set[int]:
        """The instructions that go back for another round of polling."""
        return {block.insns[-1][0] for block in self.blocks.values() if block.polls}

    @property
    def size(self) -> int:
        """Number of instructions."""
        return sum(len(block.insns) for block in self.blocks.values())

    def holds(self, pc: int) -> bool:
        """Whether an instruction of the region starts at, or spans, `pc`."""
        return any(first <= pc < last for first, last in self.spans)


def is_call(insn: Insn) -> bool:
    """Whether control is expected to come back behind `insn`."""
    return insn.spec.flow in ("jump", "indirect") and insn.rd != 0


def flow_of(insn: Insn, native_float: bool) -> str:
    """Where control goes from `insn`; "system" where it is left to the reference engine."""
    extension = insn.spec.extension
    if not native_float and extension in (*EXTENSIONS, "Zve64d"):
        return "system"
    if extension == "Zfh" and "f16c" not in host_features():
        return "system"
    return "next" if _of_vectors(insn) else insn.spec.flow


def _of_vectors(insn: Insn) -> bool:
    """Whether `insn` is an access of a csr that is translated."""
    return insn.spec.extension == "Zicsr" and (insn.imm in VECTOR_WORDS or insn.imm == VLENB)


def discover(entry: int, fetch: Fetch, stops: Set[int] = frozenset(), native_float: bool = True) -> Region:
    """Find the region that starts at `entry`.

    `fetch(pc)` gives the decoded instruction or None where there is none that could run; `stops` are pcs that must
    be left to the caller (the return address).
    """
    insns: dict[int, Insn] = {}
    leaders, entries, work = {entry}, {entry}, [entry]
    while work:
        pc = work.pop()
        while pc not in insns and pc not in stops and len(insns) < LIMIT:
            insn = fetch(pc)
            if insn is None or pc + insn.length > MASK64:
                break  # what wraps around is not worth the trouble
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
    region = Region(entry, blocks, entries, heads, {}, _spans(insns), calls_itself)
    _budget(region)
    return region


def _targets(pc: int, insn: Insn, following: int, starts: set[int]) -> tuple[int, ...]:
    target = (pc + insn.imm) & MASK64
    if insn.spec.flow == "branch":
        return (target, following)
    if insn.spec.flow == "indirect" or (is_call(insn) and target not in starts):
        return ()
    return (target,)


def _spans(insns: dict[int, Insn]) -> list[tuple[int, int]]:
    spans: list[list[int]] = []
    for pc in sorted(insns):
        end = pc + insns[pc].length
        if spans and pc <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], end)
        else:
            spans.append([pc, end])
    return [(first, last) for first, last in spans]


def _budget(region: Region) -> None:
    """Longest and shortest run of instructions from each block to the next check; every cycle holds a loop head."""
    checks = region.heads | region.entries
    for start, block in region.blocks.items():
        if start in block.successors:  # so that a loop of one block needs exactly its own length
            checks.update(block.successors)
    longest: dict[int, int] = {}
    least = region.least
    for start in sorted(region.blocks, reverse=True):
        # Edges that are not to a check go to higher addresses only: backward edges end at loop heads.
        block = region.blocks[start]
        onward = [s if s in region.blocks and s not in checks else None for s in block.successors]
        longest[start] = block.cost + max((longest[s] for s in onward if s is not None), default=0)
        least[start] = block.cost + min((0 if s is None else least[s] for s in onward), default=0)
    region.budget = {start: longest[start] for start in checks if start in region.blocks}
    region.slack = max((most - least[start] for start, most in region.budget.items()), default=0)
    region.slack = min(region.slack, MAX_SLACK)


def region_key(part: Region, native_float: bool, tier: int, more: str = "") -> str:
    """The name under which a region's object is kept; `more`: what is written beside the meanings."""
    digest = hashlib.sha256(translator_key())
    seen = f"{part.vlen} {part.vtype:x} {part.refills} {part.counters}{more}"
    digest.update(f"{part.entry:x} {native_float} {tier} {seen} {sorted(part.entries)}".encode())
    for start, block in sorted(part.blocks.items()):
        words = " ".join(f"{insn.word:x}" for _, insn in block.insns)
        digest.update(f"{start:x} {block.successors} {words};".encode())
    return digest.hexdigest()
