"""The analysis of where the value of a load goes, which finds loads whose value is not used.

Compilers repeat loads: if a block of data is smaller than a work-group, several waves load it, and only one of them
stores a result. If another wave has stored to the loaded memory meanwhile, the loads race, but the loaded values have
no effect. Therefore the race of a load is *deferred* if its value can only get out of the wave by stores and atomics:
it counts as a race when a lane with that value executes such an instruction, and it is dropped when the wave ends. A
value has an effect at once if it decides whether an access to memory is executed, if it is an address, or if the
analysis cannot follow the code. If it decides a branch, or which lanes are active (EXEC), where the code up to the
branch's end only computes registers, as in the functions of a math library, then the computed values depend on it.

The semantics of the instructions determine which value depends on which other one (`symbolic`), as they do for the
check `init`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from softcard.engine.gcn.jit.basics import CodeRanges, holds, joined
from softcard.engine.gcn.races.symbolic import (
    FRAME,
    ONES,
    Code,
    Event,
    Expression,
    Location,
    Node,
    Point,
    Start,
    State,
    Unknown,
    Values,
    halves_of,
    is_same,
)
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.state import EXEC

if TYPE_CHECKING:
    from softcard.isa.gcn.semantics.matrix.table import Use

CROSSING: Final = frozenset({"v_at", "push", "lane", "bits", "mask", "active", "matrix", "private"})
"""The operations whose result in one lane may depend on the operands in other lanes."""
ACCESSES: Final = frozenset({"store", "atomic", "swap"})
"""The kinds of events by which a value gets out of its wave; their first expression is the address."""
EFFECTS: Final = ACCESSES | {"load", "effect"}
"""The kinds of events that must not depend on a branch that a deferred value decides."""
ADDS_LANE: Final = 1 << 23
"""The bit in a buffer resource's last dword that adds the lane to the index, as in the buffer of private memory."""
DEFERRED: Final = 128
"""The maximum number of pairs of instructions whose races a wave defers; further races are counted at once."""
ROWS: Final = 4096
"""The number of rows of the table of a kernel's flows."""
TRUE: Final = (1 << 256) - 1
"""The truth table of a mask of all lanes."""
COLUMNS: Final = tuple(sum(1 << row for row in range(256) if row >> number & 1) for number in range(8))
"""The columns of a truth table of eight masks: in each row, the masks have another combination of bits."""
ESCAPES: Final = 1
"""The word, in the table of flows, of a load whose value may have an effect other than by a store or an atomic.

The word 0 stands for a load whose value gets out of the wave only by stores and atomics, or not at all."""
PC_AT: Final = 2
CROSSES: Final = 2
"""The flag, in the table of flows, of an instruction that may store the value of other lanes than its own.

The pc of the instruction is in the bits from `PC_AT` on."""


class LaneValues(Values):
    """The operations interface on expressions, which preserves the values of inactive lanes: see `symbolic.Values`.

    After a write, a location of all lanes has the value written(EXEC, new value, old value). Reads of active lanes
    choose one of the values if the expressions of EXEC show which one these lanes have."""

    _lanes: Expression | None = None
    """EXEC at the present instruction; None if it is not computed yet."""

    @classmethod
    def first_state(cls, start: Start) -> State:
        """Return EXEC, if all waves begin with all lanes active."""
        return {("s", EXEC): ONES & 0xFFFF_FFFF, ("s", EXEC + 1): ONES >> 32} if start.has_full_waves else {}

    def begin(self, insn: Insn) -> None:
        """Set the instruction that the next operations belong to."""
        super().begin(insn)
        self._lanes = None

    @property
    def _active(self) -> Expression:
        if self._lanes is None:
            self._lanes = self.s64(EXEC)
        return self._lanes

    def _after_write(self, where: Location, v: Expression) -> Expression:
        lanes = self._active
        if lanes == ONES:
            return v
        old = self._in_all_lanes(where[1]) if where[0] == "v" else self._get(*where)
        while isinstance(old, Node) and old.op == "written" and is_within(old.args[0], lanes):
            old = old.args[2]
        return self.code.node("written", lanes, v, old)

    def _in_active_lanes(self, v: Expression) -> Expression:
        while isinstance(v, Node) and v.op == "written" and is_within(self._active, v.args[0]):
            v = v.args[1]
        return v

    def set_s64(self, n: int, v: Expression) -> None:
        """Write scalar registers n and n + 1; recognise the value of EXEC that the end of a branch restores."""
        if n == EXEC:
            self._lanes = None
            if isinstance(v, Node) and v.op == "or_":
                one, other = v.args[1:]
                v = other if is_within(one, other) else one if is_within(other, one) else simplified(v)
        super().set_s64(n, v)

    def set_s(self, n: int, v: Expression) -> None:
        """Write scalar register n."""
        if n in (EXEC, EXEC + 1):
            self._lanes = None
        super().set_s(n, v)

    def set_mask(self, n: int, m: Expression) -> None:
        """Write a lane mask to scalar registers n and n + 1, with 0 for inactive lanes."""
        super().set_mask(n, m if self._active == ONES else self._of("and_", 1, m, self.active()))

    def push(self, n: int, v: Expression, lane: Expression) -> None:
        """Write the value `v` of each lane to vector register n of the lane whose number is in `lane`."""
        self._use(lane)
        self._put(n, self.code.node("push", v, self._active, self._in_all_lanes(n)))

    def matrix(self, use: Use) -> None:
        """Compute a matrix instruction: each element of D depends on all of its operands."""
        made = self.code.node("matrix", *(self._in_all_lanes(row) for row in sorted(use.reads)))
        for row in use.d_rows:
            self._put(row, made)

    def _put(self, n: int, v: Expression) -> None:
        """Write vector register n in all lanes."""
        for each in [each for each in self.state if each[:2] == ("lane", n)]:
            del self.state[each]
        self._by_lane.discard(n)
        self.state["v", n] = v

    # ---- memory ------------------------------------------------------------------------------------------------------
    def load(self, space: str, bits: int, address: Expression, where: Expression | None = None) -> list[Expression]:
        """Load per-lane values from memory, in the lanes of the mask `where`."""
        self._decides(where)
        return super().load(space, bits, address, where)

    def _loaded(self, space: str, bits: int, address: Expression) -> list[Expression]:
        loaded = super()._loaded(space, bits, address)
        self.events[-1].exec = self._active
        if self._may_be_private(space, address):
            return [self.code.node("private", each, self.code.private) for each in loaded]
        return loaded

    def store(
        self, space: str, bits: int, address: Expression, values: Sequence[Expression], where: Expression | None = None
    ) -> None:
        """Store per-lane values to memory, in the lanes of the mask `where`."""
        self._decides(where)
        super().store(space, bits, address, values, where)

    def _stored(self, space: str, bits: int, address: Expression, values: Sequence[Expression]) -> None:
        super()._stored(space, bits, address, values)
        self.events[-1].exec = self._active
        if self._may_be_private(space, address):
            self.code.moved.update(values)
            self._hold(*values)

    def _get_private(self, place: Location) -> Expression:
        self.code.reads_frame = True
        return super()._get_private(place)

    def _put_private(self, place: Location, stored: Expression, where: Expression | None) -> None:
        if where is not None:
            stored = self._of("select", 32, where, stored, self._get(*place))
        self._hold(stored)
        super()._put_private(place, stored, where)

    def atomic(
        self,
        space: str,
        kind: str,
        bits: int,
        address: Expression,
        v: Expression,
        compare: Expression | None = None,
        where: Expression | None = None,
    ) -> Expression:
        """Perform an atomic operation of each lane in the mask `where`, lane after lane."""
        self._decides(where)
        result = super().atomic(space, kind, bits, address, v, compare, where)
        self.events[-1].exec = self._active
        if not self._may_be_private(space, address):
            return result
        operands = [each for each in (v, compare) if each is not None]
        self.code.moved.update(operands)
        self._hold(*operands)
        return self.code.node("private", result, self.code.private)

    def _private(self, space: str, address: Expression, bits: int) -> list[Location] | None:
        """Return the dwords of private memory at a constant address; None for other memory and computed addresses.

        The constant addresses of a kernel are relative to one frame: the flat aperture, or one buffer with one scalar
        offset. Those of another frame count as computed."""
        if not self.code.dispatch.scratch_lane_bytes:
            return None
        place, insn = self._slot(space, address), self.insn
        if place is None:
            return None
        if insn.form == "MUBUF":
            _, index, soffset, offset = place
            is_plain = not insn["idxen"] and not insn.get("addr64") and "dwordx" not in insn.name
            if type(index) is not int or not is_plain or bits > 32:
                return None
            frame, at = (*(self.s(insn["srsrc"] + each) for each in range(4)), soffset), index + offset
        else:
            frame, at = (), place[1]
        if self.code.frame is None:
            self.code.frame = frame
        is_in_frame = len(frame) == len(self.code.frame) and all(map(is_same, frame, self.code.frame))
        if not is_in_frame or at & 3 or at >= FRAME:
            return None
        return [("private", at + 4 * each) for each in range(max(1, bits // 32))]

    def _may_be_private(self, space: str, address: Expression) -> bool:
        """Return True if an access may be to private memory, as far as its address and its buffer show."""
        dispatch, insn = self.code.dispatch, self.insn
        if not dispatch.scratch_lane_bytes:
            return False
        if space == "flat":
            return isinstance(address, Node) or address >> 32 == dispatch.private_base >> 32
        if space != "global" or insn.form not in ("MUBUF", "MTBUF"):
            return False
        last = self.s(insn["srsrc"] + 3)
        return isinstance(last, Node) or last & ADDS_LANE != 0

    def _hold(self, *values: Expression) -> None:
        """Record that these values are in private memory."""
        self.code.phis.setdefault(self.code.private, set()).update(values)

    # ---- control -----------------------------------------------------------------------------------------------------
    def branch(self, c: Expression, target: int) -> None:
        """Branch to `target` if the condition is 1, else fall through."""
        super().branch(c, target)
        self.events[-1].kind = "branch"

    def barrier(self) -> None:
        """Record a barrier, which a branch may decide."""
        self._use(kind="effect")

    def trap(self, number: int) -> None:
        """Record a trap, which a branch may decide."""
        self._use(kind="effect")

    def hint(self, what: str, n: int = 0) -> None:
        """Record a hint, such as a pause or a message to the host, which a branch may decide; ignore s_nop."""
        if what != "nop":
            self._use(kind="effect")

    def order(self, what: str, n: int = 0) -> None:
        """Record a cache operation, which a branch may decide; ignore waits."""
        if what != "waitcnt":
            self._use(kind="effect")

    def set_hwreg(self, number: int, v: Expression) -> None:
        """Write the hardware register with this number, which a branch may decide."""
        super().set_hwreg(number, v)
        self._use(kind="effect")

    def scalar_store(self, address: Expression, values: Sequence[Expression], where: Expression | None = None) -> None:
        """Store dwords to a guest address, which a branch may decide."""
        super().scalar_store(address, values, where)
        self._use(kind="effect")

    def jump_to(self, target: Expression) -> None:
        """Jump to a computed address; raise `Unknown` if it is not constant.

        The code there may use any value, and it may return to code that uses the results of the kernel's functions."""
        if isinstance(target, Node):
            raise Unknown
        super().jump_to(target)

    def _decides(self, where: Expression | None) -> None:
        """Record that a value decides which lanes access memory."""
        if isinstance(where, Node):
            self._use(where)


def is_within(one: Expression, other: Expression) -> bool:
    """Return True if the expressions show that all lanes of one 64-bit mask are lanes of the other one."""
    if one is other or one == 0 or other == ONES:
        return True
    if isinstance(one, Node):
        parts = [*_parts(one, "and_")]
        if any(each is other for each in parts):
            return True
        if one.op == "or_" and all(is_within(each, other) for each in one.args[1:]):
            return True
        if any(each.op in ("and_", "or_") and is_within(each, other) for each in parts if each is not one):
            return True
    if isinstance(other, Node) and other.op == "or_" and any(is_within(one, each) for each in other.args[1:]):
        return True
    if isinstance(other, Node) and other.op == "and_":
        return all(is_within(one, each) for each in other.args[1:])
    return False


class _TooMany(Exception):
    """The exception for a mask that is computed from more masks than there are `COLUMNS`."""


class _Tables:
    """Truth tables of 64-bit lane masks that bit operations compute, with a column for each mask they begin with."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, Expression], int] = {}
        """The tables of the masks by their width and expression: 64 bits, or the lane's own bit."""
        self._count = 0
        """The number of masks that begin a computation."""

    def of(self, mask: Expression, width: int = 64) -> int:
        """Return the truth table of a mask."""
        if mask == 0 or (not isinstance(mask, Node) and mask == (1 << width) - 1):
            return TRUE if mask else 0
        known = self.known.get((width, mask))
        if known is not None:
            return known
        if not isinstance(mask, Node):
            made = self._column()
        elif mask.op == "bits":
            made = self.of(mask.args[0], 1)
        elif mask.op in ("mask", "active"):
            made = self.of(mask.args[0])
        elif mask.op not in ("and_", "or_", "xor", "not_") or mask.args[0] != width or halves_of(mask) is not None:
            made = self._column()
        else:
            tables = [self.of(each, width) for each in mask.args[1:]]
            first, last = tables[0], tables[-1]
            made = {"and_": first & last, "or_": first | last, "xor": first ^ last, "not_": first ^ TRUE}[mask.op]
        self.known[width, mask] = made
        return made

    def _column(self) -> int:
        if self._count == len(COLUMNS):
            raise _TooMany
        self._count += 1
        return COLUMNS[self._count - 1]


def simplified(mask: Node) -> Expression:
    """Return the first mask with the same lanes among those from which a 64-bit mask is computed, or the mask itself.

    Compilers compute the lanes after a branch as the union of the lanes that went either way."""
    tables = _Tables()
    try:
        table = tables.of(mask)
    except (_TooMany, RecursionError):
        return mask
    if table in (0, TRUE):
        return ONES if table else 0
    return next(each for (width, each), found in tables.known.items() if width == 64 and found == table)


def _parts(mask: Node, op: str) -> Iterator[Node]:
    """Yield the operands of a conjunction of masks, and those of its operands, as 64-bit masks."""
    work: list[Any] = [mask]
    while work:
        each = work.pop()
        if not isinstance(each, Node):
            continue
        if each.op in ("bits", "mask", "active"):
            work.append(each.args[0])
        else:
            yield each
            if each.op == op:
                work += each.args[1:]


# ---- flows -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Flow:
    """The instructions by which the value of a load gets out of its wave.

    `stores` has the pcs of stores and atomics that store the value or a value that depends on it. The flag with a pc is
    True if a lane may store the value of another lane. `escapes` is True if the value may also have other effects."""

    escapes: bool
    stores: dict[int, bool] = field(default_factory=dict)


ESCAPING: Final = Flow(escapes=True)


class Flows:
    """The flows of one kernel's loads. `code` is None if the analysis cannot follow the kernel."""

    def __init__(self, code: Code | None) -> None:
        self._code = code
        self._loads: dict[int, list[Event]] = defaultdict(list)
        self._events: list[Event] = []
        self._users: dict[Node, list[Node]] = defaultdict(list)
        self._ways: dict[Point, tuple[Point, ...] | None] = {}
        self._after: dict[Point, int] = {}
        """For each block, the blocks that all ways from it lead to, one bit for each; empty until it is needed."""
        if code is None:
            return
        self._events = [event for block in code.blocks.values() for event in block.events]
        for event in self._events:
            if event.kind == "load":
                self._loads[event.insn.pc].append(event)
        if code.reads_frame and code.moved:  # a computed address may be one of the constant ones
            takes = tuple(each for each in code.moved if isinstance(each, Node))
            self._events += [replace(event, kind="use", takes=takes) for event in self._events[:1]]
        for node in code.nodes:
            for each in _nodes_in(code.phis.get(node, ()) if node.op == "phi" else node.args):
                self._users[each].append(node)

    def of(self, pc: int) -> Flow:
        """Return the flow of the load at `pc`."""
        loads = self._loads.get(pc)
        if self._code is None or not loads:
            return ESCAPING
        found: dict[Node, bool] = {}
        """The expressions that depend on the loaded value, with True if it may be the value of another lane."""
        work = [(self._code.node("load", each, *load.node.args[1:]), load.insn.op.name.startswith("s_"))
                for load in loads if load.node is not None for each in range(max(1, load.bits // 32))]  # fmt: skip
        while work:
            while work:
                node, crosses = work.pop()
                crosses = crosses or node.op in CROSSING
                if node in found and found[node] >= crosses:
                    continue
                found[node] = crosses
                work += ((each, crosses) for each in self._users.get(node, ()))
            decided = self._decided(found)
            if decided is None:
                return ESCAPING
            work += ((each, True) for each in decided if not found.get(each))
        stores: dict[int, bool] = {}
        for event in self._events:
            is_access = event.kind in ACCESSES
            if (is_access or event.kind == "load") and event.exec in found:
                return ESCAPING
            if event.kind in ("exec", "branch"):
                continue  # see `_decided`
            for number, each in enumerate(event.takes):
                if not isinstance(each, Node) or each not in found:
                    continue
                if not is_access or number == 0:
                    return ESCAPING
                stores[event.insn.pc] = stores.get(event.insn.pc, False) or found[each]
        return Flow(False, stores)

    def _decided(self, found: Collection[Node]) -> list[Node] | None:
        """Return the values that depend on the direction of branches whose conditions are in `found`.

        Return None if such a branch decides more than values."""
        assert self._code is not None
        made: list[Node] = []
        for point, block in self._code.blocks.items():
            if any(event.kind == "branch" and any(each in found for each in event.takes) for event in block.events):
                ways = self._ways_of(point)
                if ways is None:
                    return None
                values = [each for way in ways for each in self._decided_at(way, {point, *ways})]
                if not values:
                    return None  # the branch decides about time only, as in a loop that waits
                made += values
        return made

    def _decided_at(self, point: Point, sources: Collection[Point]) -> Iterator[Node]:
        """Yield the values at the beginning of a block that depend on which of `sources` was the block before it."""
        assert self._code is not None
        block = self._code.blocks[point]
        states = [state for source, state in block.incoming.items() if source in sources]
        for where, each in block.state.items():
            if isinstance(each, Node) and each.op == "phi" and each.args == (*point, where):
                first, *others = [self._code.at(state, where) for state in states]
                if not all(is_same(first, other) for other in others):
                    yield each

    def _ways_of(self, point: Point) -> tuple[Point, ...] | None:
        """Return the blocks on all ways from a block to the one where its ways join, and that one.

        Return None if these blocks have other effects than on registers, if there is a loop among them, or if the ways
        do not join."""
        if point not in self._ways:
            self._ways[point] = self._found_ways(point)
        return self._ways[point]

    def _found_ways(self, point: Point) -> tuple[Point, ...] | None:
        assert self._code is not None
        blocks = self._code.blocks
        end = self._end_of(point)
        if end is None:
            return None
        inside: dict[Point, bool] = {}
        """The blocks on the ways; True when all blocks that follow have been visited, too."""

        def visit(block: Point) -> bool:
            """Visit a block and what follows up to the end; return False at a loop or an effect."""
            if block == end:
                return True
            if block in inside:
                return inside[block]
            inside[block] = False
            if any(event.kind in EFFECTS for event in blocks[block].events):
                return False
            inside[block] = all(visit(target) for target, _, _ in blocks[block].leads)
            return inside[block]

        is_plain = all(target != point and visit(target) for target, _, _ in blocks[point].leads)
        return (*inside, end) if is_plain and point not in inside else None

    def _end_of(self, point: Point) -> Point | None:
        """Return the first block that all ways from a block lead to; None if there is no such block."""
        assert self._code is not None
        blocks = self._code.blocks
        if not self._after:
            bits = {each: 1 << number for number, each in enumerate(blocks)}
            every = (1 << len(blocks)) - 1
            after = self._after = {each: bits[each] if not block.leads else every for each, block in blocks.items()}
            order = sorted(blocks, key=lambda each: -each[1])
            has_changed = True
            while has_changed:
                has_changed = False
                for each in order:
                    made = every
                    for target, _, _ in blocks[each].leads:
                        made &= after[target]
                    if blocks[each].leads and (made := made | bits[each]) != after[each]:
                        after[each] = made
                        has_changed = True
        points = list(blocks)
        follow = [points[number] for number in _bits_of(self._after[point]) if points[number] != point]
        return max(follow, key=lambda each: self._after[each].bit_count(), default=None)


def _bits_of(number: int) -> Iterator[int]:
    """Yield the numbers of the bits that are 1."""
    while number:
        yield (number & -number).bit_length() - 1
        number &= number - 1


def _nodes_in(args: Any) -> Iterator[Node]:
    """Yield the expressions among the arguments of an expression, which may be tuples."""
    for each in args:
        if isinstance(each, Node):
            yield each
        elif isinstance(each, tuple):
            yield from _nodes_in(each)


class FlowTable:
    """The requested flows of a kernel's loads, in the form that compiled code reads.

    Each row of `rows` is a pair of a load's pc and a word: `ESCAPES`, 0, or the pc of a store or an atomic with a flag
    (`CROSSES`). The last row of a load has `ESCAPES` or 0."""

    def __init__(self, dispatch: Start, fetch: Callable[[int], Insn], version: int) -> None:
        self.rows: npt.NDArray[np.uint64] = np.zeros((ROWS, 2), np.uint64)
        self.count = 0
        self._known: dict[int, Flow] = {}
        try:
            code = Code(dispatch, fetch, LaneValues)
        except (Unknown, RecursionError):
            code = None
        self._flows = Flows(code)
        words = {} if code is None else code.words
        self._version = version
        self._start = self._facts(dispatch)
        self._ranges: CodeRanges = joined({pc: np.array(each, "<u4").tobytes() for pc, each in words.items()})

    def is_valid(self, dispatch: Start) -> bool:
        """Return True if the table holds for a launch: the same is known of it, and memory has the analysed code."""
        memory = dispatch.memory
        is_alike = self._facts(dispatch) == self._start
        return is_alike and memory.version == self._version and holds(self._ranges, memory)

    @staticmethod
    def _facts(dispatch: Start) -> tuple[bool, bool]:
        """Return what the analysis assumes about a launch."""
        return dispatch.scratch_lane_bytes > 0, dispatch.has_full_waves

    def of(self, pc: int) -> Flow:
        """Return the flow of the load at `pc`, and add it to the table for compiled code."""
        found = self._known.get(pc)
        if found is None:
            found = self._flows.of(pc)
            rows = [(pc, store << PC_AT | CROSSES * crosses) for store, crosses in found.stores.items()]
            rows.append((pc, ESCAPES * found.escapes))
            if self.count + len(rows) > ROWS:
                found = ESCAPING
            else:
                self.rows[self.count : self.count + len(rows)] = rows
                self.count += len(rows)
            self._known[pc] = found
        return found


@dataclass(slots=True, eq=False)
class Running:
    """A launch whose waves run. `fetch` decodes its instructions; `table` is None if no flow was needed so far.

    Its waves' deferred races refer to the table, which therefore stays the same while the launch runs."""

    dispatch: Start
    fetch: Callable[[int], Insn]
    table: FlowTable | None


class ValueFlows:
    """The flows of the running kernel's loads. They are computed when they are needed, and cached by kernel."""

    def __init__(self) -> None:
        self.running: Running | None = None
        """The running launch; None if no kernel runs."""
        self._tables: dict[int, FlowTable] = {}

    def follow(self, dispatch: Start, fetch: Callable[[int], Insn]) -> None:
        """Make a launch the running one; `fetch` decodes its instructions."""
        known = self._tables.get(dispatch.entry)
        if known is not None and not known.is_valid(dispatch):
            del self._tables[dispatch.entry]
            known = None
        self.running = Running(dispatch, fetch, known)

    @property
    def table(self) -> FlowTable | None:
        """The table of the running kernel; None if none of its flows was needed so far."""
        return None if self.running is None else self.running.table

    def of(self, pc: int) -> Flow:
        """Return the flow of the running kernel's load at `pc`."""
        running = self.running
        if running is None:
            return ESCAPING
        if running.table is None:
            dispatch = running.dispatch
            running.table = FlowTable(dispatch, running.fetch, dispatch.memory.version)
            self._tables[dispatch.entry] = running.table
        return running.table.of(pc)
