"""Register-resident loops, which keep all vector registers that they name in host registers.

They are innermost loops with few registers. Their instructions need no registers in memory: they neither read
other lanes nor use computed register numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from softcard.engine.gcn.jit.basics import BlockKey
from softcard.engine.gcn.jit.float_control import DEFAULT, of_mode
from softcard.engine.gcn.jit.liveness import Liveness
from softcard.engine.gcn.jit.region import Block, Region
from softcard.engine.gcn.jit.strip import ends
from softcard.isa.gcn.state import LANES

CHUNK: Final = 16
"""The number of lanes that one vector register holds, on hosts with enough registers for such loops."""
ROOM: Final = 28
"""The number of lane vectors of `CHUNK` lanes that a host can keep in registers, besides temporaries."""
LONGEST: Final = 64
"""The maximum number of instructions of a loop: each is emitted once for every lane vector."""


@dataclass(slots=True, eq=False)
class ResidentLoop:
    """A register-resident loop: its blocks, those that are entered from outside, and the registers that it names.

    While the loop is emitted, `stored` collects the registers that it has written, and `exits` collects the
    blocks to which it exits."""

    number: int
    places: frozenset[BlockKey]
    entries: list[BlockKey]
    registers: frozenset[int]
    stored: set[int] = field(default_factory=set)
    exits: set[BlockKey] = field(default_factory=set)

    def variable(self, n: int, chunk: int, prefix: str = "") -> str:
        """Return the name of the variable that holds lane vector number `chunk` of register n.

        `prefix` distinguishes the wave's registers from shadow registers.
        """
        return f"%{prefix}held{n}.{chunk}"


def resident_loops(region: Region, liveness: Liveness, lanes: int) -> list[ResidentLoop]:
    """Return the register-resident loops of a region, for lane vectors of `lanes` lanes."""
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
    found: list[ResidentLoop] = []
    for head, body in sorted(bodies.items()):
        registers = _registers(region, body)
        if body & bodies.keys() == {head} and registers and _fits(region, liveness, body, registers, LANES // lanes):
            entries = [each for each in sorted(body) if each in region.entries or set(before[each]) - body]
            found.append(ResidentLoop(len(found), frozenset(body), entries, registers))
    return found


def _following(block: Block) -> list[BlockKey]:
    last = block.nodes[-1]
    following = [] if block.next is None else [block.next]
    if last.effects.flow in ("branch", "jump"):
        following.append((last.effects.target, last.after))
    return following


def _body(head: BlockKey, latch: BlockKey, before: dict[BlockKey, list[BlockKey]], region: Region) -> set[BlockKey]:
    """Return the blocks of the loop with a back edge from block `latch` to block `head`.

    Return an empty set if it is not a loop. `before` has the predecessors of each block.
    """
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
    """Return the vector registers that a loop names."""
    nodes = [node.effects for place in body for node in region.blocks[place].nodes]
    return frozenset().union(*(found.v_reads | found.v_writes for found in nodes))


def _fits(region: Region, liveness: Liveness, body: set[BlockKey], registers: frozenset[int], chunks: int) -> bool:
    """Return True if the registers of the loop with the blocks `body` fit into host registers.

    No instruction may need registers in memory, and there must be enough host registers for the live registers,
    each of which needs `chunks` lane vectors."""
    blocks = [region.blocks[place] for place in body]
    nodes = [node for block in blocks for node in block.nodes]
    if len(nodes) > LONGEST:
        return False
    # LLVM may move code across two settings of the host's float control.
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
