"""Detection of polling loops: loops that only read memory until another hart has changed it.

The rule depends on the code alone, so that every engine returns a polling hart at the same instruction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from softcard.isa.riscv.insn import Insn

LONGEST: Final = 32
"""The maximum number of instructions of a polling loop."""
_LOADS: Final = {"lb": 1, "lbu": 1, "lh": 2, "lhu": 2, "lw": 4, "lwu": 4, "ld": 8}
_STORES: Final = {"sb": 1, "sh": 2, "sw": 4, "sd": 8}
"""The number of bytes that each instruction stores."""
_COUNTS: Final = ("amoadd.", "amoxor.")
_STEPS: Final = {"addi", "addiw", "slli", "slliw"}
"""The instructions that may advance a counter or a growing delay of a polling loop."""
_PLAIN: Final = {"I", "M", "A", "Zbc", "Zba", "Zbb", "Zbs", "Zicond"}
_FRAME: Final = (2, 8)
"""The registers that point to a function's own memory: sp and s0."""

Place = tuple[int, ...]
"""A location: a register, a part of the function's own memory, or other memory.

A register is its number. A part of the function's own memory is a base register, an offset and a number of bytes. All
other memory is `MEMORY`.
"""
MEMORY: Final[Place] = ()
"""The location that stands for all other memory."""


class Value(NamedTuple):
    """The value of a location in an iteration of a loop.

    It is described by the locations from which it was computed, with their values at the beginning of the iteration.
    """

    sources: frozenset[Place]
    counts: bool
    """True if the value was computed only by instructions in `_STEPS`, as counters are."""
    certain: bool = True
    """True if the value was written on every path to the current point."""


def is_poll(pc: int, insn: Insn, fetch: Callable[[int], Insn | None]) -> bool:
    """Return True if `insn`, at `pc`, branches back for another iteration of a polling loop.

    `fetch` returns the instruction at a pc. The conditions are:

    - It is a branch or jump back over at most `LONGEST` instructions, all of them integer instructions.
    - At least one of these instructions is a load or an atomic.
    - None of them is a call, a computed jump, an atomic addition or exclusive or, or a store outside of the
      function's stack frame.
    - No location accumulates over the iterations, so that each iteration repeats the previous one except for the
      values that it reads from memory. A counter is allowed if no access depends on it and another condition can
      end the loop."""
    if insn.spec.flow not in ("branch", "jump") or insn.rd or not -4 * LONGEST <= insn.imm <= 0:
        return False
    body = _body(pc, insn, fetch)
    return body is not None and _Loop(pc, pc + insn.imm, body).polls()


def _body(pc: int, insn: Insn, fetch: Callable[[int], Insn | None]) -> dict[int, Insn] | None:
    """Return the instructions of the loop that `insn`, at `pc`, closes; None if one of them excludes polling."""
    body: dict[int, Insn] = {}
    loads = False
    at = pc + insn.imm
    while at <= pc:
        step = insn if at == pc else fetch(at)
        if step is None or len(body) == LONGEST or step.spec.extension not in _PLAIN:
            return None
        if step.name in _STORES and step.rs1 not in _FRAME:
            return None
        if step.rs2 and step.name.startswith(_COUNTS):
            return None
        if step.spec.flow != "next" and (step.spec.flow not in ("branch", "jump") or step.rd):
            return None
        if step.rd in _FRAME:
            return None
        loads |= _loads(step)
        body[at] = step
        at += step.length
    return body if loads and pc in body else None


class _Loop:
    """The analysis of a loop from `head` to the branch or jump at `last`: values of locations at each instruction."""

    def __init__(self, last: int, head: int, body: dict[int, Insn]) -> None:
        self._last = last
        self._head = head
        self._body = body
        self._before: dict[int, dict[Place, Value]] = {head: {}}
        self._end: dict[Place, Value] | None = None
        """The values of locations at the end of an iteration, which are those at the beginning of the next one."""
        self._read: set[Place] = set()
        """The locations that an iteration reads with their value from the iteration before."""

    def polls(self) -> bool:
        """Return True if all iterations do the same work, so that the loop only polls memory."""
        slots = {(n.rs1, n.imm, _size(n)) for n in self._body.values() if _size(n) and n.rs1 in _FRAME}
        if any(_overlap(one, other) for one in slots for other in slots):
            return False
        self._follow()
        if self._end is None or self._last not in self._before:
            return False
        end, counters = self._end, set()
        for place, value in end.items():
            if place in value.sources or (not value.certain and place in self._read):
                if not (value.counts and value.certain):
                    return False
                counters.add(place)
        return not _is_circular(end) and (not counters or self._loads_apart_from(counters))

    def _follow(self) -> None:
        """Compute the values of locations on all paths through the loop."""
        work = [self._head]
        while work:
            at = work.pop()
            for following, state in self._after(at):
                if following == self._head:
                    self._end = _join(self._end, state)
                elif following in self._body:
                    known = self._before.get(following)
                    self._before[following] = joined = _join(known, state)
                    if joined != known:
                        work.append(following)

    def _after(self, at: int) -> list[tuple[int, dict[Place, Value]]]:
        """Return the successors of the instruction at `at`, each with the values of locations there."""
        insn, state = self._body[at], self._before[at]
        following, target = at + insn.length, at + insn.imm
        if insn.spec.flow == "jump":
            return [(target, state)]
        value = self._value(insn, state)
        if insn.spec.flow == "branch":
            return [(following, state), (target, state)]
        if insn.name in _STORES:
            return [(following, state | {(insn.rs1, insn.imm, _STORES[insn.name]): value})]
        return [(following, state | {(insn.rd,): value} if insn.rd else state)]

    def _value(self, insn: Insn, state: dict[Place, Value]) -> Value:
        """Return the value that an instruction computes."""
        if insn.name in _STORES:
            return self._constant(state, (insn.rs2,))
        if insn.name in _LOADS and insn.rs1 in _FRAME:
            return self._constant(state, (insn.rs1, insn.imm, _LOADS[insn.name]))
        sources = self._operands(insn, state)
        if _loads(insn):
            return Value(sources | {MEMORY}, False)
        return Value(sources, insn.name in _STEPS or not sources)

    def _operands(self, insn: Insn, state: dict[Place, Value]) -> frozenset[Place]:
        return self._constant(state, (insn.rs1,)).sources | self._constant(state, (insn.rs2,)).sources

    def _constant(self, state: dict[Place, Value], place: Place) -> Value:
        if place == (0,):
            return Value(frozenset(), True)
        value = state.get(place)
        if value is not None and value.certain:
            return value
        self._read.add(place)
        sources = frozenset([place])
        return Value(sources, True) if value is None else Value(value.sources | sources, False)

    def _loads_apart_from(self, counters: set[Place]) -> bool:
        """Return True if no access depends on the locations `counters`, and a loaded value can end the loop."""
        may_end = False
        for at, state in self._before.items():
            insn = self._body[at]
            if _loads(insn) and counters & self._operands(insn, state):
                return False
            if insn.spec.flow == "branch" and (at == self._last or at + insn.imm not in self._body):
                may_end |= any(place == MEMORY or len(place) > 1 for place in self._operands(insn, state))
        return may_end


def _loads(insn: Insn) -> bool:
    return insn.name in _LOADS or (insn.spec.extension == "A" and not insn.name.startswith("sc."))


def _size(insn: Insn) -> int:
    return _LOADS.get(insn.name, 0) or _STORES.get(insn.name, 0)


def _overlap(one: Place, other: Place) -> bool:
    return one != other and one[0] == other[0] and one[1] < other[1] + other[2] and other[1] < one[1] + one[2]


def _join(one: dict[Place, Value] | None, other: dict[Place, Value]) -> dict[Place, Value]:
    """Merge the values of locations where two paths join; None stands for a path that was not taken yet."""
    if one is None:
        return other
    joined = {}
    for place in one.keys() | other.keys():
        unwritten = Value(frozenset([place]), True)
        first, second = one.get(place, unwritten), other.get(place, unwritten)
        if first == second:
            joined[place] = first
            continue
        sources = frozenset().union(*(value.sources for value in (first, second) if value is not unwritten))
        certain = first.certain and second.certain and unwritten not in (first, second)
        joined[place] = Value(sources, first.counts and second.counts and first.sources == second.sources, certain)
    return joined


def _is_circular(end: dict[Place, Value]) -> bool:
    """Return True if some location depends on itself through other locations after some iterations."""
    left = {place: {each for each in value.sources if each in end and each != place} for place, value in end.items()}
    while left:
        free = [place for place, sources in left.items() if not sources & left.keys()]
        if not free:
            return True
        for place in free:
            del left[place]
    return False
