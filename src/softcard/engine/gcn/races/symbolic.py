"""Symbolic execution of a kernel's code, which yields the origin of each register's value as an expression.

One expression stands for the value in any lane. With `Values`, a write replaces a register's value for all lanes,
regardless of EXEC. Therefore, if lanes of one wave diverge without a branch, only the later of two writes is recorded.
`value_flow.LaneValues` preserves the values of inactive lanes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from softcard.core.errors import SoftcardError
from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.reference.lane_integer import LaneIntegers
from softcard.isa.gcn.algebra import FloatAlgebra, WaveIntegers
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.semantics.execute import execute
from softcard.isa.gcn.state import EXEC, HW_MODE, Mode

if TYPE_CHECKING:
    from softcard.isa.gcn.semantics.matrix.table import Use

MOST_STEPS: Final = 20_000
"""The maximum number of instructions to execute for a kernel; each iteration of a loop counts."""
MOST_CALLS: Final = 8
"""The maximum depth of nested calls that is followed."""
MOST_CHANGES: Final = 4
"""The number of changes of a location's value at a merge of control flow after which it remains a phi."""
ENDS: Final = frozenset({"s_branch", "s_endpgm", "s_setpc_b64"})
"""Names of instructions after which control flow does not fall through."""
SH_MEM_BASES: Final = 15
"""The number of the hardware register with the upper 16 bits of the bases of both flat apertures.

The private aperture's are in the low half, the LDS aperture's in the high half.
"""
VECTOR_MODE: Final = 3 << 27
"""The bits of MODE that make vector register numbers relative to M0 (GPR_IDX_EN) and skip instructions (VSKIP)."""
WHOLE_REGISTER: Final = 31 << 11
"""The immediate of an s_setreg instruction that writes all bits of a hardware register."""
FRAME: Final = 1 << 24
"""The bound below which an address in private memory counts as an offset of a single stack frame."""
WIDTHS: Final = {"h": 16, "s": 32, "d": 64}
ONES: Final = (1 << 64) - 1
_INTEGERS: Final = LaneIntegers()
_INTEGER: Final = {name for name in dir(WaveIntegers) if not name.startswith("_")}
_FLOAT: Final = {name for name in dir(FloatAlgebra) if not name.startswith("_")}


class Node:
    """An expression: an operation and its arguments. Arguments that are numbers are constants.

    Equal operations with equal arguments share one object.
    """

    __slots__ = ("args", "op")

    def __init__(self, op: str, args: tuple[Any, ...]) -> None:
        self.op = op
        self.args = args

    def __repr__(self) -> str:
        return f"{self.op}({', '.join(map(repr, self.args))})"


MERGED: Final = Node("merged", ())
"""The placeholder of a value that depends on the path."""
Expression: TypeAlias = "Node | int"
Location = tuple[Any, ...]
"""The type of a location: a register, a lane of a register, or a dword of private memory."""
State = dict[Location, Expression]
Point = tuple[tuple[int, ...], int]
"""The type of a program point: the return addresses of the active calls, and a pc."""


@dataclass(slots=True)
class Event:
    """An effect of an instruction: its `kind` and the expressions that it uses (`takes`).

    The `kind` is "load" (address), "store" (address, values), "atomic" (address, operands), "swap" (a
    compare-and-swap: address, new value, comparand), "exec" (a write of EXEC), or "use" (values that have other effects
    outside of registers and private memory). `node` is the first result of a load or swap."""

    kind: str
    insn: Insn
    takes: tuple[Expression, ...]
    node: Node | None = None
    space: str = ""
    bits: int = 0
    exec: Expression = 0
    """The new value of EXEC, for a write of EXEC."""


@dataclass(slots=True)
class Block:
    """A basic block: its events in order, and its successors.

    `leads` has, for each successor, its program point, the branch condition, and the value of the condition for
    which the branch goes there. `incoming` has the register states at the ends of the predecessors. `state` has
    the merged state: for each location, the value if all predecessors agree on it, otherwise a phi."""

    state: State = field(default_factory=dict)
    incoming: dict[Point | None, State] = field(default_factory=dict)
    changes: Counter[Location] = field(default_factory=Counter)
    """The number of changes of each location's value at the block's entry; it limits the iteration."""
    events: list[Event] = field(default_factory=list)
    leads: list[tuple[Point, Expression, int]] = field(default_factory=list)


class Unknown(Exception):
    """The exception for code that cannot be followed, such as a computed register number or too many calls."""


class Start(Protocol):
    """The initial state of a launch's waves: see `engine.gcn.api.Dispatch`."""

    @property
    def entry(self) -> int:
        """The address of the first instruction."""

    @property
    def memory(self) -> GpuMemory:
        """The memory that holds the code and the arguments."""

    @property
    def sgprs(self) -> npt.NDArray[np.uint32]:
        """The initial values of the first scalar registers."""

    @property
    def argument_sgprs(self) -> range:
        """The numbers of the scalar registers that hold preloaded kernel arguments."""

    @property
    def shared_base(self) -> int:
        """The address at which the flat aperture of LDS begins."""

    @property
    def private_base(self) -> int:
        """The address at which the flat aperture of private memory begins."""

    @property
    def scratch_lane_bytes(self) -> int:
        """The number of bytes of private memory of a work-item."""

    @property
    def has_full_waves(self) -> bool:
        """True if all waves begin with all lanes active."""


class Code:
    """The symbolically executed code of a kernel. `phis` has the possible values of each phi node.

    `values` is the class of the operations interface with which instructions are executed. `words` receives the words
    of all instructions that are executed, by pc, also those before an instruction that cannot be followed."""

    def __init__(
        self,
        dispatch: Start,
        fetch: Callable[[int], Insn],
        values: type[Values] | None = None,
        words: dict[int, tuple[int, ...]] | None = None,
    ) -> None:
        self.dispatch = dispatch
        self._known: dict[tuple[Any, ...], Node] = {}
        self.blocks: dict[Point, Block] = {}
        self.phis: dict[Node, set[Expression]] = {}
        self.private = self.node("phi", "private")
        """The value of private memory at any computed address, for values that track it; `phis` has what is stored."""
        self.frame: tuple[Expression, ...] | None = None
        """The base of the kernel's constant addresses in private memory; None before the first access."""
        self.moved: set[Expression] = set()
        """The values that the kernel stores to computed addresses that may be in private memory."""
        self.reads_frame = False
        """True if the kernel loads from constant addresses of private memory."""
        self.words: dict[int, tuple[int, ...]] = {} if words is None else words
        self._evaluated: dict[int, dict[Node, int]] = defaultdict(dict)
        """The values of expressions, by the seed of their variables' values."""
        self._fetch = fetch
        self._values = values or Values
        self._begins: set[int] = set()
        """The addresses to which branches of the code lead."""
        self._scanned: set[int] = set()
        self._steps = 0
        self._run(((), dispatch.entry))

    def node(self, op: str, *args: Any) -> Node:
        """Return the expression of operation `op` on `args`; equal operations share one object."""
        key = op, *args
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Node(op, args)
        return found

    @property
    def nodes(self) -> Iterable[Node]:
        """All expressions of the code."""
        return self._known.values()

    def _run(self, entry: Point) -> None:
        work = [entry]
        state = self._values.first_state(self.dispatch)
        self.blocks[entry] = Block(state=state, incoming={None: state})
        while work:
            point = min(work, key=lambda each: (-len(each[0]), each[1]))  # most branches lead forward
            work.remove(point)
            self._scan(point[1])
            for target, state in self._execute(point):
                block = self.blocks.setdefault(target, Block())
                is_first = not block.incoming
                block.incoming[point] = state
                if (self._join(target, block) or is_first) and target not in work:
                    work.append(target)
        for point, block in self.blocks.items():
            for where, each in block.state.items():
                if isinstance(each, Node) and each.op == "phi" and each.args == (*point, where):
                    found = {self.at(state, where) for state in block.incoming.values()}
                    self.phis[each] = found - {each}

    def _scan(self, pc: int) -> None:
        """Collect the targets of all branches in the code from `pc` on."""
        work = [pc]
        while work:
            at = work.pop()
            while at not in self._scanned and len(self._scanned) < MOST_STEPS:
                self._scanned.add(at)
                try:
                    insn = self._fetch(at)
                except SoftcardError:
                    break
                if insn.name.startswith(("s_branch", "s_cbranch")) and insn.form == "SOPP":
                    target = insn.next_pc + 4 * ((insn["simm16"] & 0xFFFF ^ 0x8000) - 0x8000)
                    self._begins |= {target, insn.next_pc}
                    work.append(target)
                if insn.name in ENDS:
                    break
                at = insn.next_pc

    def _join(self, point: Point, block: Block) -> bool:
        """Merge the states of a block's predecessors, and return True if the block's state has changed."""
        before, changes, has_changed = block.state, block.changes, False
        first, *others = block.incoming.values()
        made = State(first)
        # Most locations have one value on all paths: only the others are merged.
        for state in others:
            for where, value in state.items():
                if where not in made or made[where] is not value:
                    made[where] = MERGED
        for state in others:
            for where in first.keys() - state.keys():
                made[where] = MERGED
        for where, value in made.items():
            if value is MERGED:
                made[where] = value = self._merged(point, where, list(block.incoming.values()), changes)
            elif changes and changes.get(where, 0) >= MOST_CHANGES:
                made[where] = value = self.node("phi", *point, where)
            last = before.get(where)
            if value is not last and not (last is not None and is_same(value, last)):
                changes[where] += 1
                has_changed = True
        block.state = made
        return has_changed

    def _merged(self, point: Point, where: Location, states: Sequence[State], changes: Counter[Location]) -> Expression:
        """Return the merged value of a location at a block's entry.

        It is the value of all predecessors if they agree, otherwise a phi. `states` are the states of the
        predecessors."""
        values = [self.at(state, where) for state in states]
        phi = self.node("phi", *point, where)
        first, *others = [each for each in values if each is not phi]  # a loop that changes nothing gives phi
        is_one = changes.get(where, 0) < MOST_CHANGES and all(is_same(first, each) for each in others)
        return first if is_one else phi

    def at(self, state: State, where: Location) -> Expression:
        """Return the value of a location in a state.

        A lane of a register that was not written singly there has the value of the whole register."""
        if where in state:
            return state[where]
        if where[0] != "lane":
            return self.first(where)
        _, n, lane = where
        register = state["v", n] if ("v", n) in state else self.first(("v", n))
        return self.node("lane", register, lane) if isinstance(register, Node) else register

    def first(self, where: Location) -> Node:
        """Return the expression of the unknown value that a location has at the kernel's entry."""
        return self.node("first", where)

    def _execute(self, point: Point) -> Iterable[tuple[Point, State]]:
        """Execute a block symbolically, and return its successors, each with the register state there."""
        calls, pc = point
        block = self.blocks[point]
        block.events, block.leads = [], []
        values = self._values(self, dict(block.state), calls, block.events)
        while True:
            self._steps += 1
            if self._steps > MOST_STEPS:
                raise Unknown
            try:
                insn = self._fetch(pc)
                self.words[pc] = insn.words
                values.begin(insn)
                execute(cast("Any", values), insn)
            except (SoftcardError, TypeError, ValueError, AttributeError, KeyError) as error:
                raise Unknown from error
            if values.leads is None and insn.next_pc in self._begins:
                values.leads = [((calls, insn.next_pc), 1, 1)]
            if values.leads is not None:
                block.leads = values.leads
                return [(target, values.state) for target, _, _ in block.leads]
            pc = insn.next_pc

    def pair(self, low: Expression, high: Expression) -> Expression:
        """Return the 64-bit value of two 32-bit halves."""
        return Values(self, {}, (), []).pair(low, high)

    def is_same_dword(self, one: Expression, other: Expression) -> bool:
        """Return True if two addresses are in the same dword, as far as a test with several sets of values can tell.

        Each test assigns values to the variables of both expressions and compares the results."""
        return one is other or all((self.value(one, seed) ^ self.value(other, seed)) & ~3 == 0 for seed in range(8))

    def value(self, expression: Expression, seed: int) -> int:
        """Return the value of an expression if its variables have pseudo-random values, which `seed` determines."""
        known = self._evaluated[seed]

        def of(each: Expression) -> int:
            if not isinstance(each, Node):
                return each
            if each not in known:
                known[each] = _value(each, [of(arg) if isinstance(arg, Node) else arg for arg in each.args], seed)
            return known[each]

        return of(expression)


def _value(node: Node, args: list[Any], seed: int) -> int:
    if node.op in _INTEGER:
        return int(getattr(_INTEGERS, node.op)(*args))
    number = hash((node.op, *map(str, args), seed)) & ONES
    if node.op in _FLOAT:
        return number & (1 << WIDTHS.get(args[0], 1)) - 1
    return number & (ONES if node.op in ("bits", "result64") else 1 if node.op in ("mask", "active") else 0xFFFF_FFFF)


class Values:
    """The operations interface on expressions, for the symbolic execution of instructions.

    `state` holds the values of registers and private memory; other effects become events.
    """

    mode = Mode()

    def __init__(self, code: Code, state: State, calls: tuple[int, ...], events: list[Event]) -> None:
        self.code = code
        self.state = state
        self.calls = calls
        self.events = events
        self.leads: list[tuple[Point, Expression, int]] | None = None
        self.insn: Insn
        self._accesses = 0
        """The number of accesses to memory that the instruction has made; each one has its own result."""
        self._by_lane = {where[1] for where in state if where[0] == "lane"}
        """The vector registers of which single lanes were written."""

    @classmethod
    def first_state(cls, start: Start) -> State:
        """Return the values of registers that are known at the kernel's entry."""
        return {}

    def begin(self, insn: Insn) -> None:
        """Set the instruction that the next operations belong to."""
        self.insn = insn
        self._accesses = 0

    def __getattr__(self, name: str) -> Callable[..., Expression]:
        if name in _INTEGER or name in _FLOAT:
            return partial(self._of, name)
        raise AttributeError(name)

    def _of(self, op: str, *args: Any, **options: Any) -> Expression:
        if options:
            args = *args, *options.values()
        if op in _INTEGER and not any(isinstance(each, Node) for each in args):
            return int(getattr(_INTEGERS, op)(*args))
        return self.code.node(op, *args)

    def _use(self, *values: Expression | None, kind: str = "use") -> None:
        self.events.append(Event(kind, self.insn, tuple(each for each in values if isinstance(each, Node))))

    def _get(self, *where: Any) -> Expression:
        return self.state[where] if where in self.state else self.code.first(where)

    # ---- 64 bits of two times 32 -------------------------------------------------------------------------------------
    def or_(self, w: int, a: Expression, b: Expression) -> Expression:
        """Return the bitwise or of two values.

        If they are the low and the high half of one 64-bit value, return that value."""
        for low, high in ((a, b), (b, a)):
            halves = pair_of(low, high) if w == 64 else None
            if halves is not None:
                whole = _whole(*halves)
                if whole is not None:
                    return whole
        return self._of("or_", w, a, b)

    def trunc(self, to: int, w: int, a: Expression) -> Expression:
        """Return the low `to` bits of a value.

        If they are the low or the high half of a value that was combined from two halves, return that half."""
        if to == 32 and w == 64 and isinstance(a, Node):
            halves = halves_of(a)
            if halves is not None:
                return halves[0]
            if a.op == "lshr" and a.args[2] == 32 and isinstance(a.args[1], Node):
                halves = halves_of(a.args[1])
                if halves is not None:
                    return halves[1]
        return self._of("trunc", to, w, a)

    def pair(self, low: Expression, high: Expression) -> Expression:
        """Return the 64-bit value of two 32-bit halves."""
        upper = self._of("shl", 64, self._of("zext", 64, 32, high), 32)
        return self.or_(64, self._of("zext", 64, 32, low), upper)

    def _parts(self, v: Expression) -> tuple[Expression, Expression]:
        return self.trunc(32, 64, v), self.trunc(32, 64, self._of("lshr", 64, v, 32))

    # ---- scalar state ------------------------------------------------------------------------------------------------
    def s(self, n: int) -> Expression:
        """Return scalar register n."""
        return self._get("s", n)

    def set_s(self, n: int, v: Expression) -> None:
        """Write scalar register n."""
        self.state["s", n] = v
        if n in (EXEC, EXEC + 1):
            self._use(v, kind="exec")
            self.events[-1].exec = self.s64(EXEC)

    def s64(self, n: int) -> Expression:
        """Return scalar registers n and n + 1 as 64 bits."""
        return self.pair(self.s(n), self.s(n + 1))

    def set_s64(self, n: int, v: Expression) -> None:
        """Write scalar registers n and n + 1."""
        low, high = self._parts(v)
        self.state["s", n], self.state["s", n + 1] = low, high
        if n == EXEC:
            self._use(v, kind="exec")
            self.events[-1].exec = v

    def scc(self) -> Expression:
        """Return SCC, the scalar condition code."""
        return self._get("scc")

    def set_scc(self, v: Expression) -> None:
        """Write SCC."""
        self.state[("scc",)] = v

    def hwreg(self, number: int) -> Expression:
        """Return the value of the hardware register with this number."""
        dispatch = self.code.dispatch
        if number == SH_MEM_BASES:
            return dispatch.private_base >> 48 | dispatch.shared_base >> 48 << 16
        return self.code.node("hwreg", number)

    def set_hwreg(self, number: int, v: Expression) -> None:
        """Write the hardware register with this number.

        Raise `Unknown` if the write may change how vector instructions execute: see `VECTOR_MODE`."""
        insn = self.insn
        if number == HW_MODE and insn.name not in ("s_set_gpr_idx_off", "s_cbranch_g_fork", "s_cbranch_join"):
            field = insn["simm16"] & 0xFFFF if insn.name.startswith("s_setreg") else WHOLE_REGISTER
            first, count = field >> 6 & 0x1F, (field >> 11 & 0x1F) + 1
            if ((1 << count) - 1 << first) & VECTOR_MODE:
                raise Unknown
        self._use(v)

    def time(self, kind: str) -> Expression:
        """Return the expression of a clock's value."""
        return self.code.node("result64", self.insn.pc, *self.calls)

    def aperture(self, which: str) -> int:
        """Return the base or the last byte of a flat aperture, as `which` selects."""
        dispatch = self.code.dispatch
        base = dispatch.shared_base if which.startswith("shared") else dispatch.private_base
        return base | (0xFFFF_FFFF if which.endswith("limit") else 0)

    def s_indexed(self, n: int, offset: Expression, w: int = 32) -> Expression:
        """Return the scalar register whose number is n plus a computed offset."""
        raise Unknown

    set_s_indexed = v_indexed = set_v_indexed = s_indexed

    def matrix(self, use: Use) -> None:
        """Raise `Unknown`, since no expressions exist for the results of a matrix instruction."""
        raise Unknown

    # ---- lanes -------------------------------------------------------------------------------------------------------
    def _after_write(self, where: Location, v: Expression) -> Expression:
        """Return the value of a register or memory location of all lanes after the active lanes have written `v`."""
        return v

    def _in_active_lanes(self, v: Expression) -> Expression:
        """Return the value that the active lanes read from a location with the value `v`."""
        return v

    def v(self, n: int) -> Expression:
        """Return vector register n; lanes that were written singly are part of the expression."""
        return self._in_active_lanes(self._in_all_lanes(n))

    def _in_all_lanes(self, n: int) -> Expression:
        """Return vector register n, also for inactive lanes."""
        found = self._get("v", n)
        if n not in self._by_lane:
            return found
        lanes = tuple(sorted((where[2], each) for where, each in self.state.items() if where[:2] == ("lane", n)))
        return self.code.node("lanes", found, lanes) if lanes else found

    def set_v(self, n: int, v: Expression, where: Expression | None = None) -> None:
        """Write vector register n; if `where` is given, only in the lanes of that mask."""
        if where is not None:
            v = self._of("select", 32, where, v, self.v(n))
        v = self._after_write(("v", n), v)
        if n in self._by_lane:
            self._by_lane.remove(n)
            for each in [each for each in self.state if each[:2] == ("lane", n)]:
                del self.state[each]
        if isinstance(v, Node) and v.op == "lanes":
            v, lanes = v.args
            self._by_lane.add(n)
            self.state.update((("lane", n, lane), each) for lane, each in lanes)
        self.state["v", n] = v

    def lane(self, n: int, lane: Expression) -> Expression:
        """Return vector register n of one lane."""
        where = "lane", n, lane
        if where in self.state:
            return self.state[where]
        self._use(lane)
        return self.code.node("lane", self._in_all_lanes(n), lane)

    def set_lane(self, n: int, lane: Expression, v: Expression) -> None:
        """Write vector register n of one lane."""
        if isinstance(lane, Node):
            raise Unknown
        self._by_lane.add(n)
        self.state["lane", n, lane] = v

    def mask(self, n: int) -> Expression:
        """Return the lane mask in scalar registers n and n + 1."""
        return self.lane_bits(self.s64(n))

    def set_mask(self, n: int, m: Expression) -> None:
        """Write a lane mask to scalar registers n and n + 1."""
        self.set_s64(n, self.code.node("bits", m))

    def lane_bits(self, b: Expression) -> Expression:
        """Convert 64 bits to a lane mask."""
        if b in (0, ONES):
            return int(b == ONES)
        return b.args[0] if isinstance(b, Node) and b.op == "bits" else self.code.node("mask", b)

    def lane_id(self) -> Expression:
        """Return the expression of the lane's own number."""
        return self.code.node("lane_id")

    def active(self) -> Expression:
        """Return EXEC as a lane mask."""
        return self.code.node("active", self.s64(EXEC))

    def v_at(self, n: int, lane: Expression) -> Expression:
        """Return, for each lane, the value of vector register n in the lane whose number is in `lane`."""
        self._use(lane)
        return self.code.node("v_at", self._in_all_lanes(n), lane)

    def push(self, n: int, v: Expression, lane: Expression) -> None:
        """Write the value `v` of each lane to vector register n of the lane whose number is in `lane`."""
        self._use(lane)
        self.set_v(n, self.code.node("push", v, lane))

    # ---- memory ------------------------------------------------------------------------------------------------------
    def load(self, space: str, bits: int, address: Expression, where: Expression | None = None) -> list[Expression]:
        """Load per-lane values from memory."""
        places = self._private(space, address, bits)
        if places is None:
            return self._loaded(space, bits, address)
        found = [self._get_private(each) for each in places]
        return found if bits >= 32 else [self.code.node("piece", bits, *found)]

    def _access(self) -> int:
        """Return the number of the next access to memory within the instruction."""
        self._accesses += 1
        return self._accesses

    def _loaded(self, space: str, bits: int, address: Expression) -> list[Expression]:
        point = self._access(), self.insn.pc, *self.calls
        made = [self.code.node("load", each, *point) for each in range(max(1, bits // 32))]
        self.events.append(Event("load", self.insn, (address,), made[0], space, bits))
        return list[Expression](made)

    def store(
        self,
        space: str,
        bits: int,
        address: Expression,
        values: Sequence[Expression],
        where: Expression | None = None,
    ) -> None:
        """Store per-lane values to memory."""
        places = self._private(space, address, bits)
        if places is None:
            self._stored(space, bits, address, values)
            return
        for place, value in zip(places, values, strict=True):
            stored = value if bits >= 32 else self.code.node("piece", bits, value, self._get(*place))
            self._put_private(place, stored, where)

    def _stored(self, space: str, bits: int, address: Expression, values: Sequence[Expression]) -> None:
        """Record a store to memory that is not followed."""
        self.events.append(Event("store", self.insn, (address, *values), None, space, bits))

    def _get_private(self, place: Location) -> Expression:
        """Return the value that the active lanes load from a dword of private memory."""
        return self._in_active_lanes(self._get(*place))

    def _put_private(self, place: Location, stored: Expression, where: Expression | None) -> None:
        """Store a dword to a dword of private memory, in the lanes of the mask `where`."""
        self.state[place] = self._after_write(place, stored)

    def _private(self, space: str, address: Expression, bits: int) -> list[Location] | None:
        """Return the dwords of private memory that an access of `bits` bits refers to, or None for other memory."""
        slot = self._slot(space, address)
        if slot is None:
            return None
        return [(*slot[:-1], slot[-1] + 4 * each) for each in range(max(1, bits // 32))]

    def _slot(self, space: str, address: Expression) -> tuple[Any, ...] | None:
        """Return the dword of private memory that an address refers to, or None for other memory."""
        insn = self.insn
        if space == "flat" and type(address) is int:
            low = address & 0xFFFF_FFFF
            return ("flat", low) if address - low == self.code.dispatch.private_base and low < FRAME else None
        if insn.form == "MUBUF" and space == "global":
            first = insn["srsrc"]
            if all(self.s(first + each) is self.code.first(("s", each)) for each in (2, 3)):
                index = self.v(insn["vaddr"]) if insn["offen"] else 0
                soffset = self.s(insn["soffset"]) if insn["soffset"] < 128 else insn["soffset"]
                return "buffer", index, soffset, insn["offset"]
        return None

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
        """Perform an atomic operation of each lane, lane after lane."""
        node = self.code.node(f"result{bits}", self._access(), self.insn.pc, *self.calls)
        if kind == "cmpswap" and compare is not None:
            self.events.append(Event("swap", self.insn, (address, v, compare), node, space, bits))
        else:
            takes = (address, v) if compare is None else (address, v, compare)
            self.events.append(Event("atomic", self.insn, takes, None, space, bits))
        return node

    def scalar_load(self, dwords: int, address: Expression, where: Expression | None = None) -> list[Expression]:
        """Load dwords from a guest address.

        Loads of one of the kernel's arguments always return the same expression."""
        at = self._argument(address)
        if at is None:
            return self._loaded("global", 32 * dwords, address)
        first, offset = at
        return [self._argument_value(first, offset + 4 * each) for each in range(dwords)]

    def _argument(self, address: Expression) -> tuple[int, int] | None:
        """Return the base and the constant offset whose sum is an address, or None.

        The base is the number of the first register of a pair that the launch has set to the address of a memory
        block, such as that of the kernel's arguments. A preloaded argument is not such a base: it may point to memory
        that kernels write."""
        base, offset = address, 0
        if isinstance(base, Node) and base.op == "and_" and type(base.args[2]) is int:
            base = base.args[1]
        if isinstance(base, Node) and base.op == "add" and type(base.args[2]) is int:
            base, offset = base.args[1], base.args[2]
        halves = halves_of(base) if isinstance(base, Node) else None
        low = None if halves is None else halves[0]
        if isinstance(low, Node) and low.op == "first" and low.args[0][0] == "s":
            number = low.args[0][1]
            is_block = number not in self.code.dispatch.argument_sgprs
            if is_block and halves is not None and halves[1] is self.code.first(("s", number + 1)):
                return number, offset
        return None

    def _argument_value(self, first: int, offset: int) -> Expression:
        """Return the dword at `offset` of the launch's memory block to which register `first` points.

        If the block is the queue's block of GFX7 and GFX8, the upper halves of the aperture bases are returned as
        numbers."""
        dispatch = self.code.dispatch
        if offset in (0x40, 0x44) and first + 1 < len(dispatch.sgprs):
            base = int(dispatch.sgprs[first]) | int(dispatch.sgprs[first + 1]) << 32
            with suppress(SoftcardError):
                found = int.from_bytes(dispatch.memory.read(base + offset, 4), "little")
                upper = (dispatch.shared_base if offset == 0x40 else dispatch.private_base) >> 32
                if found and found == upper:
                    return found
        return self.code.node("argument", first, offset)

    def scalar_store(self, address: Expression, values: Sequence[Expression], where: Expression | None = None) -> None:
        """Store dwords to a guest address."""
        self._use(address, *values)

    def scalar_atomic(
        self,
        space: str,
        kind: str,
        bits: int,
        address: Expression,
        v: Expression,
        compare: Expression | None = None,
        where: Expression | None = None,
    ) -> Expression:
        """Execute one scalar atomic operation."""
        return self.atomic(space, kind, bits, address, v, compare)

    # ---- control -----------------------------------------------------------------------------------------------------
    def branch(self, c: Expression, target: int) -> None:
        """Branch to `target` if the condition is 1, else fall through."""
        ways = ((self.calls, self.insn.next_pc), 0), ((self.calls, target), 1)
        self.leads = [(way, c, number) for way, number in ways if isinstance(c, Node) or number == c]
        self._use(c)

    def jump(self, target: int) -> None:
        """Jump to a constant address."""
        self.leads = [((self.calls, target), 1, 1)]

    def jump_to(self, target: Expression) -> None:
        """Jump to a computed address: call a function or return from one."""
        if isinstance(target, Node):  # an unknown callee may use all registers
            self._use(target, *(each for where, each in self.state.items() if where[0] == "v"))
            self.leads = []
        elif self.calls and target == self.calls[-1]:
            self.leads = [((self.calls[:-1], target), 1, 1)]
        else:
            calls = (*self.calls, self.insn.next_pc) if self.insn.name == "s_swappc_b64" else self.calls
            if len(calls) > MOST_CALLS:
                raise Unknown
            self.leads = [((calls, target), 1, 1)]

    def end(self) -> None:
        """End the wave."""
        self.leads = []

    def barrier(self) -> None:
        """Ignore a barrier: values do not depend on it."""

    def order(self, what: str, n: int = 0) -> None:
        """Ignore a wait or a cache operation: values do not depend on it."""

    def hint(self, what: str, n: int = 0) -> None:
        """Ignore an execution hint (such as a pause): values do not depend on it."""

    def trap(self, number: int) -> None:
        """Ignore a trap: values do not depend on it."""


def is_same(one: Expression, other: Expression) -> bool:
    """Return True if two expressions are the same node or the same number."""
    return one is other or (type(one) is int and one == other)


def pair_of(low: Expression, high: Expression) -> tuple[Expression, Expression] | None:
    """Return the two halves of the 64-bit value that an or of `low` and `high` computes.

    Return None unless `low` is an extended low half and `high` a shifted high half."""
    if not (isinstance(low, Node) and low.op == "zext" and low.args[:2] == (64, 32)):
        return None
    if not (isinstance(high, Node) and high.op == "shl" and high.args[2] == 32):
        return None
    upper = high.args[1]
    if isinstance(upper, Node) and upper.op == "zext" and upper.args[:2] == (64, 32):
        return low.args[2], upper.args[2]
    return None


def halves_of(whole: Node) -> tuple[Expression, Expression] | None:
    """Return the two 32-bit halves that a 64-bit value was combined from, or None."""
    if whole.op != "or_" or whole.args[0] != 64:
        return None
    return pair_of(whole.args[1], whole.args[2]) or pair_of(whole.args[2], whole.args[1])


def _whole(low: Expression, high: Expression) -> Expression | None:
    """Return the 64-bit value whose halves are `low` and `high`, or None if they belong to different values."""
    if not (isinstance(low, Node) and isinstance(high, Node) and low.op == high.op == "trunc"):
        return None
    whole, upper = low.args[2], high.args[2]
    is_upper = isinstance(upper, Node) and upper.op == "lshr" and upper.args[1] is whole and upper.args[2] == 32
    return whole if is_upper and low.args[:2] == high.args[:2] == (32, 64) else None
