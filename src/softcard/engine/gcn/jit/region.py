"""Regions, the units of translation: all code that can be reached from an entry without a computed jump.

A block's key is its address together with MODE. MODE decides the semantics of float instructions, and the
size of pointers (by the wave's copy of SH_MEM_CONFIG). Code that switches denormals on and off around a
division is therefore translated once for each of the two values of MODE."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import Any, Final

from softcard.core.errors import SoftcardError
from softcard.engine.gcn.effects import Effects, effects
from softcard.engine.gcn.instrumentation import NO_HOOKS, HookPoints
from softcard.engine.gcn.jit import layout
from softcard.engine.gcn.jit.basics import BlockKey, Fetch
from softcard.ir.integers import IntegerOps
from softcard.isa.gcn.coherence import acquires, is_coherent_load, is_group_load, is_scoped_store, writes_back
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.semantics.execute import execute
from softcard.isa.gcn.state import CHECKED, HW_MODE, MODE_BITS, Mode

LIMIT: Final = 1200
"""The maximum number of instructions of a region."""
CHECKED_LIMIT: Final = 100
"""The maximum number of instructions of a region with checks.

Checks add so much code that compile time grows with the square.
"""


@dataclass(slots=True, eq=False)
class Node:
    """One instruction at one address, translated under one value of MODE.

    `after` is the value of MODE after the instruction, or its old value if the new one is known only at run
    time."""

    insn: Insn
    effects: Effects
    after: int
    points: HookPoints = NO_HOOKS
    """The hook points of the enabled checks; the reference engine executes the instructions at most of them."""
    is_step: bool = field(init=False)
    """True if the instruction is not part of the region's code, but is executed outside of it.

    The reference engine or an inline cache executes it.
    """

    def __post_init__(self) -> None:
        found = self.effects
        crosses = found.meets_itself and found.phases == 1 and any(kind != "store" for kind, _ in found.accesses)
        # Under the check of LDS each of several accesses may exit: only stores can be repeated.
        twice = bool(self.after & CHECKED) and found.phases > 1 and not found.is_repeatable
        is_hooked = self.points is not NO_HOOKS and self._is_hooked(self.points)
        self.is_step = crosses or twice or is_hooked or found.reference or found.environment is None

    def _is_hooked(self, points: HookPoints) -> bool:
        """Return True if a check observes the instruction, so that the reference engine must execute it.

        Only that engine calls the observers of checks."""
        found = self.effects
        if points.accesses and (found.memory or found.loads or found.stores):
            return True
        if (points.barriers and found.flow == "barrier") or (points.ends and found.flow == "end"):
            return True
        return (points.waits and bool(found.orders)) or (points.order and self._acquires)

    @property
    def _acquires(self) -> bool:
        """True if the instruction may acquire a vector clock that another wave has released, or write caches back.

        It is also True for stores with a scope, and for accesses that translated code does not check for races."""
        found = self.effects
        is_atomic = any(kind in ("atomic", "single") for kind, _ in found.accesses)
        is_coherent = bool(found.loads) and (is_coherent_load(self.insn) or is_group_load(self.insn))
        is_rare = "scalar" in found.stores or "gds" in found.loads | found.stores
        is_scoped = bool(found.stores) and is_scoped_store(self.insn)
        is_ordering = any(acquires(self.insn, what) or writes_back(self.insn, what) for what, _ in found.orders)
        return is_atomic or is_coherent or is_rare or is_scoped or is_ordering

    @property
    def waits_for_stores(self) -> bool:
        """True if the instruction waits until stores are complete, and a check observes that."""
        vmcnt = self.insn.target.vmcnt
        return self.points.order and any(what == "waitcnt" and not vmcnt(n) for what, n in self.effects.orders)

    @property
    def has_inline_cache(self) -> bool:
        """True if the instruction has an inline cache keyed by scalar registers (`threaded.inline_cache`)."""
        return self.insn.op.selectors is not None and self.insn.selectors is None

    @property
    def exit(self) -> int:
        """The exit code for an instruction that translated code does not execute.

        It selects either the inline cache of the instruction or the reference engine."""
        return layout.SPECIALISE if self.has_inline_cache else layout.STEP


@dataclass(slots=True, eq=False)
class Block:
    """A basic block; `next` is its fall-through successor."""

    place: BlockKey
    nodes: list[Node] = field(default_factory=list)
    next: BlockKey | None = None


@dataclass(slots=True, eq=False)
class Region:
    """A region: its blocks by key.

    `entries` are the keys of its entries. `heads` are the keys of blocks that begin with a fuel check."""

    start: BlockKey
    blocks: dict[BlockKey, Block]
    entries: list[BlockKey]
    heads: set[BlockKey]

    def needs(self) -> dict[BlockKey, int]:
        """Return, for each block, the maximum number of instructions executed from its start to the next fuel check.

        Every loop contains a block with a fuel check."""
        found: dict[BlockKey, int] = {}
        for place in sorted(self.blocks, reverse=True):
            block = self.blocks[place]
            last = block.nodes[-1]
            following = [block.next] if block.next else []
            if last.effects.flow in ("branch", "jump"):
                following.append((last.effects.target, last.after))
            rest = (found[each] for each in following if each in found and each not in self.heads)
            found[place] = len(block.nodes) + max(rest, default=0)
        return found

    @property
    def is_closed(self) -> bool:
        """True if no instruction exits from the region."""
        nodes = [node for block in self.blocks.values() for node in block.nodes]
        inside = {node.insn.pc for node in nodes}
        for node in nodes:
            flow = node.effects.flow
            if flow == "indirect" or (flow in ("branch", "jump") and node.effects.target not in inside):
                return False
            if flow not in ("jump", "end") and node.insn.next_pc not in inside:
                return False
        return True

    @property
    def named_vectors(self) -> int:
        """The vector registers that instructions name, as a bit mask."""
        nodes = (node.effects for block in self.blocks.values() for node in block.nodes)
        return sum(1 << n for n in set[int]().union(*(found.v_reads | found.v_writes for found in nodes)))

    @property
    def words(self) -> tuple[tuple[int, int, tuple[int, ...]], ...]:
        """All code that the translation has read, as (address, MODE, words); it is part of the key of cached code."""
        return tuple(
            sorted(
                (node.insn.pc, node.after, node.insn.words) for block in self.blocks.values() for node in block.nodes
            )
        )


def discover(
    start: BlockKey,
    fetch: Fetch,
    cold: Set[BlockKey] = frozenset(),
    *,
    points: HookPoints = NO_HOOKS,
    limit: int = LIMIT,
) -> Region:
    """Return the region that begins at `start`, of at most `limit` instructions.

    The region ends at words that cannot be decoded; executing them is a fault at run time. It also ends at blocks
    in `cold`, which it does not include. `points` are the hook points of the enabled checks."""
    nodes = _walk(start, fetch, cold, points, limit)
    leaders, entries, heads = {start}, {start}, {start}
    for (pc, mode), node in nodes.items():
        following, found = (node.insn.next_pc, node.after), node.effects
        if found.flow in ("branch", "jump"):
            target = (found.target, mode)
            leaders |= {target, following}
            if found.target <= pc:
                heads.add(target)
        if node.is_step or found.flow in ("barrier", "sleep", "indirect"):
            leaders.add(following)
            entries.add(following)
        if node.is_step or node.after != mode:
            leaders |= {(pc, mode), following}
    blocks = {place: _block(place, nodes, leaders) for place in sorted(leaders) if place in nodes}
    return Region(start, blocks, sorted(place for place in entries if place in blocks), heads | entries)


def _walk(start: BlockKey, fetch: Fetch, cold: Set[BlockKey], points: HookPoints, limit: int) -> dict[BlockKey, Node]:
    nodes: dict[BlockKey, Node] = {}
    work = [start]
    while work and len(nodes) < limit:
        place = work.pop()
        while place not in nodes and place not in cold and len(nodes) < limit:
            pc, mode = place
            try:
                insn = fetch(pc)
            except SoftcardError:
                break
            node = node_of(insn, mode, points)
            nodes[place] = node
            found = node.effects
            if found.flow in ("branch", "jump"):
                work.append((found.target, mode))
            if found.flow in ("end", "jump"):
                break
            place = (insn.next_pc, node.after)
            if found.flow == "indirect":
                break
    return nodes


def node_of(insn: Insn, mode: int, points: HookPoints = NO_HOOKS) -> Node:
    """Return an instruction with its effects under MODE `mode`; `points` are the checks' hook points."""
    found = effects(insn, Mode.decode(mode))
    after: int | None = mode
    if found.hwreg_written == HW_MODE:
        after = _mode_after(insn, mode)
        if after is None:  # the next code is looked up as after a computed jump
            found.flow = "indirect"
    return Node(insn, found, mode if after is None else after, points)


def _block(place: BlockKey, nodes: dict[BlockKey, Node], leaders: set[BlockKey]) -> Block:
    block = Block(place)
    while True:
        node = nodes[place]
        block.nodes.append(node)
        place = (node.insn.next_pc, node.after)
        if node.effects.flow != "next" or node.is_step:
            block.next = None if node.effects.flow in ("end", "jump", "indirect") else place
            return block
        if place in leaders or place not in nodes:
            block.next = place
            return block


class _Unknown(Exception):
    """The exception that signals that MODE is known only at run time."""


class _Integers(IntegerOps):
    """The integer operations that the semantics of instructions that write hardware registers use."""

    def not_(self, w: int, a: int) -> int:
        return ~a & ((1 << w) - 1)


class _Static:
    """An operations interface for values that depend only on the instruction and MODE.

    Values that depend on anything else are None."""

    def __init__(self, mode: int) -> None:
        self.mode = Mode.decode(mode)
        self.bits = mode
        self._integers = _Integers()

    def hwreg(self, number: int) -> int | None:
        return self.bits & MODE_BITS if number == HW_MODE else None

    def set_hwreg(self, number: int, v: int | None) -> None:
        if v is None:
            raise _Unknown
        self.bits = self.bits & ~MODE_BITS | v

    def s(self, n: int) -> None:
        return None

    s64 = s

    def scc(self) -> None:
        return None

    def aperture(self, which: str) -> None:
        return None

    def set_s(self, n: int, v: int | None) -> None:
        pass

    def __getattr__(self, name: str) -> Callable[..., int | None]:
        operation = getattr(self._integers, name)
        return lambda *values: None if None in values else operation(*values)


def _mode_after(insn: Insn, mode: int) -> int | None:
    """Return MODE after an instruction that writes it; None if it is known only at run time."""
    static: Any = _Static(mode)
    try:
        execute(static, insn)
    except _Unknown:
        return None
    return int(static.bits)
