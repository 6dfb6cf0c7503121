"""Loops whose vector registers the host can hold in its own while they run: all chunks of each at once.

Innermost loops of few registers, in which nothing looks at registers in memory: no other lanes, no computed numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from understudy.engine.gcn.jit.basics import BlockKey
from understudy.engine.gcn.jit.float_control import DEFAULT, of_mode
from understudy.engine.gcn.jit.liveness import Liveness
from understudy.engine.gcn.jit.region import Block, Region
from understudy.engine.gcn.jit.strip import ends
from understudy.isa.gcn.state import LANES

CHUNK: Final = 16
"""Lanes of a chunk on hosts that have enough registers."""
ROOM: Final = 28
"""Chunks of registers that such a host holds, beside what instructions need in between."""
LONGEST: Final = 64
"""Instructions of a loop: each is written once for every chunk."""


@dataclass(slots=True, eq=False)
class HeldLoop:
    """Blocks of a loop, those of them that are entered from elsewhere, and the registers that they name.

    What is found out while they are written: registers that strips have stored, and places where the loop is left for.
    """

    number: int
    places: frozenset[BlockKey]
    entries: list[BlockKey]
    registers: frozenset[int]
    stored: set[int] = field(default_factory=set)
    exits: set[BlockKey] = field(default_factory=set)

    def variable(self, n: int, chunk: int, prefix: str = "") -> str:
        """The variable of a chunk of a register."""
        return f"%{prefix}held{n}.{chunk}"


def held_loops(region: Region, liveness: Liveness, lanes: int) -> list[HeldLoop]:
    """Those of a region, where chunks have so many lanes."""
    if lanes < CHUNK:
        return []
    before: dict[BlockKey, list[BlockKey]] = {place: [] for place in region.blocks}
    for place, block in region.blocks.items():
        for following in _following(block):
            if following in before:
                before[following].append(place)
    bodies: dict[BlockKey, set[BlockKey]] = {}
    for head, earlier in before.items():
        for latch in earlier:
            if latch[0] >= head[0]:
                body = _body(head, latch, before, region)
                if body:
                    bodies.setdefault(head, set()).update(body)
    found: list[HeldLoop] = []
    for head, body in sorted(bodies.items()):
        registers = _registers(region, body)
        if body & bodies.keys() == {head} and registers and _fits(region, liveness, body, registers, LANES // lanes):
            entries = [each for each in sorted(body) if each in region.entries or set(before[each]) - body]
            found.append(HeldLoop(len(found), frozenset(body), entries, registers))
    return found


def _following(block: Block) -> list[BlockKey]:
    last = block.nodes[-1]
    following = [] if block.next is None else [block.next]
    if last.effects.flow in ("branch", "jump"):
        following.append((last.effects.target, last.after))
    return following


def _body(head: BlockKey, latch: BlockKey, before: dict[BlockKey, list[BlockKey]], region: Region) -> set[BlockKey]:
    """What leads to the latch without passing the head, and is reached from there: nothing where no way leads back."""
    body, work = {head}, [latch]
    while work:
        place = work.pop()
        if place not in body:
            body.add(place)
            work += before[place]
    reached, work = {head}, [head]
    while work:
        following = {each for each in _following(region.blocks[work.pop()]) if each in body} - reached
        reached |= following
        work += following
    return reached if latch in reached else set()


def _registers(region: Region, body: set[BlockKey]) -> frozenset[int]:
    """Vector registers that are named in a loop."""
    nodes = [node.effects for place in body for node in region.blocks[place].nodes]
    return frozenset().union(*(found.v_reads | found.v_writes for found in nodes))


def _fits(region: Region, liveness: Liveness, body: set[BlockKey], registers: frozenset[int], chunks: int) -> bool:
    """Whether nothing needs registers to be in memory, and the host can hold what strips leave to others."""
    blocks = [region.blocks[place] for place in body]
    nodes = [node for block in blocks for node in block.nodes]
    if len(nodes) > LONGEST:
        return False
    # Nothing tells LLVM that what stands between two settings of the host's float control belongs there.
    for block in blocks:
        setting = of_mode(block.place[1])
        if any(setting.joined(node.effects.environment or DEFAULT) is None for node in block.nodes):
            return False
    for node in nodes:
        found = node.effects
        if node.is_step or found.across or found.indexes or found.flow in ("barrier", "sleep", "indirect"):
            return False
        if found.hwreg_written is not None:
            return False
    named = sum(1 << n for n in registers)
    lives = [liveness.before(block, index) for block in blocks for index in ends(block.nodes)]
    return max(((live.active | live.inactive) & named).bit_count() for live in lives) * chunks <= ROOM
