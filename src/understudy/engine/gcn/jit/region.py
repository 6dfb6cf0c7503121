"""What is translated together: the code that can be reached from an entry without a computed jump.

A place in a region is an address together with the word MODE, since MODE decides what a float instruction means and
the wave's copy of SH_MEM_CONFIG what a pointer is: code that switches denormals on and off around a division is
translated under both.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import Any, Final

from understudy.core.checks import LANES
from understudy.core.errors import UnderstudyError
from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.jit.basics import BlockKey, Fetch
from understudy.engine.gcn.jit.effects import Effects, effects
from understudy.ir.integers import IntegerOps
from understudy.isa.gcn.hwreg import HW_MODE
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.semantics.execute import execute
from understudy.isa.gcn.state import CHECKED, MODE_BITS, Mode

LIMIT: Final = 1200
"""Instructions of a region."""
CHECKED_LIMIT: Final = 100
"""Likewise where each of them is looked at, by so much code that what it takes to compile grows with the square."""


@dataclass(slots=True, eq=False)
class Node:
    """One instruction at one place. `after` is MODE behind it where it is known to change it."""

    insn: Insn
    effects: Effects
    after: int
    watches: frozenset[str] = frozenset()
    """Checks that look at what orders accesses of memory: what acquires is the reference engine's then.

    So is each access, for that of lanes.
    """
    is_step: bool = field(init=False)
    """Whether it is not part of translated code: the reference engine executes it, or code of its own."""

    def __post_init__(self) -> None:
        found = self.effects
        crosses = found.meets_itself and found.phases == 1 and any(kind != "store" for kind, _ in found.accesses)
        # Where LDS is looked after any of several accesses may be left: only stores can be done once more.
        twice = bool(self.after & CHECKED) and found.phases > 1 and not found.is_repeatable
        is_each = LANES in self.watches and bool(found.loads | found.stores)
        watched = is_each or (bool(self.watches) and self._acquires)
        self.is_step = crosses or twice or watched or found.reference or found.environment is None

    @property
    def _acquires(self) -> bool:
        """Whether it may acquire what others have released, or is an access that translated code does not look at."""
        found = self.effects
        is_atomic = any(kind in ("atomic", "single") for kind, _ in found.accesses)
        is_coherent = bool(found.loads) and bool(self.insn.get("glc"))
        is_rare = "scalar" in found.stores or "gds" in found.loads | found.stores
        return is_atomic or is_coherent or is_rare or any(what.startswith("wbinvl1") for what, _ in found.orders)

    @property
    def waits_for_stores(self) -> bool:
        """Whether it waits until stores are over, and somebody looks at that."""
        vmcnt = self.insn.target.vmcnt
        return bool(self.watches) and any(what == "waitcnt" and not vmcnt(n) for what, n in self.effects.orders)

    @property
    def is_site(self) -> bool:
        """Whether code of its own executes it, which looks at what decides its meaning (`threaded.site`)."""
        return self.insn.op.told is not None and self.insn.told is None

    @property
    def exit(self) -> int:
        """How translated code hands over to what executes it."""
        return layout.SITE if self.is_site else layout.STEP


@dataclass(slots=True, eq=False)
class Block:
    """Instructions that run one after the other; `next` is where it goes on without a branch."""

    place: BlockKey
    nodes: list[Node] = field(default_factory=list)
    next: BlockKey | None = None


@dataclass(slots=True, eq=False)
class Region:
    """Blocks by place. `entries` are the places where it can be entered, `heads` those where fuel is looked at."""

    start: BlockKey
    blocks: dict[BlockKey, Block]
    entries: list[BlockKey]
    heads: set[BlockKey]

    def needs(self) -> dict[BlockKey, int]:
        """How many instructions may run from each block on until fuel is looked at again: every loop has a head."""
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
        """Whether no instruction leads out of it."""
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
    def words(self) -> tuple[tuple[int, int, tuple[int, ...]], ...]:
        """All code that was read: what a translation depends on."""
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
    watches: frozenset[str] = frozenset(),
    limit: int = LIMIT,
) -> Region:
    """The region that begins at `start`. Words that are no instruction end it; running into them is a fault then.

    So do `cold` places: code that begins there is left out. `watches`: see `Node`. `limit`: instructions at most.
    """
    nodes = _walk(start, fetch, cold, watches, limit)
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


def _walk(
    start: BlockKey, fetch: Fetch, cold: Set[BlockKey], watches: frozenset[str], limit: int
) -> dict[BlockKey, Node]:
    nodes: dict[BlockKey, Node] = {}
    work = [start]
    while work and len(nodes) < limit:
        place = work.pop()
        while place not in nodes and place not in cold and len(nodes) < limit:
            pc, mode = place
            try:
                insn = fetch(pc)
            except UnderstudyError:
                break
            node = node_of(insn, mode, watches)
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


def node_of(insn: Insn, mode: int, watches: frozenset[str] = frozenset()) -> Node:
    """An instruction with its effects where MODE is `mode`; `watches`: see `Node`."""
    found = effects(insn, Mode.decode(mode))
    after: int | None = mode
    if found.hwreg_written == HW_MODE:
        after = _mode_after(insn, mode)
        if after is None:  # code for it is looked up, as that behind a computed jump is
            found.flow = "indirect"
    return Node(insn, found, mode if after is None else after, watches)


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
    """MODE is only known when the code runs."""


class _Integers(IntegerOps):
    """Those of meanings that write hardware registers."""

    def not_(self, w: int, a: int) -> int:
        return ~a & ((1 << w) - 1)


class _Static:
    """Evaluates what depends on nothing but the instruction and MODE; all else is not known (None)."""

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
    """MODE behind an instruction that writes it, if that is known now."""
    static: Any = _Static(mode)
    try:
        execute(static, insn)
    except _Unknown:
        return None
    return int(static.bits)
