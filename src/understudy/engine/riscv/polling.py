"""Which loops poll: they do nothing but look at memory again and again, until another hart has changed it.

The rule is about the code alone, so that every engine hands a polling hart back at the same instruction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from understudy.isa.riscv.insn import Insn

LONGEST: Final = 32
"""Instructions of a polling loop at most."""
_LOADS: Final = {"lb": 1, "lbu": 1, "lh": 2, "lhu": 2, "lw": 4, "lwu": 4, "ld": 8}
_STORES: Final = {"sb": 1, "sh": 2, "sw": 4, "sd": 8}
"""Bytes of each."""
_COUNTS: Final = ("amoadd.", "amoxor.")
_STEPS: Final = {"addi", "addiw", "slli", "slliw"}
"""What counters and pauses that grow are made with."""
_PLAIN: Final = {"I", "M", "A", "Zbc", "Zba", "Zbb", "Zbs", "Zicond"}
_FRAME: Final = (2, 8)
"""Registers that hold the place of a function's own memory: sp and s0."""

Place = tuple[int, ...]
"""A register (its number), memory of the function's own (base register, offset, bytes), or `MEMORY`."""
MEMORY: Final[Place] = ()
"""All other memory."""


class Value(NamedTuple):
    """What a place holds: the places that it was made from, as they were when a round began."""

    sources: frozenset[Place]
    counts: bool
    """Whether it was made by a few steps only."""
    certain: bool = True
    """Whether it was written on every way here."""


def is_poll(pc: int, insn: Insn, fetch: Callable[[int], Insn | None]) -> bool:
    """Whether `insn`, at `pc`, goes back for another round of polling.

    That is a branch or jump back over at most `LONGEST` instructions, all of them integer instructions. Some load or
    are atomics; none is a store but to the function's own memory, a call, a computed jump or an atomic that counts.
    No place brings anything from one round to the next that the rounds add up to: so each round does what the one
    before did, but for what is in memory. A counter may go on beside that, where no access depends on it and
    something else may end the loop. `fetch` gives the instruction at a pc.
    """
    if insn.spec.flow not in ("branch", "jump") or insn.rd or not -4 * LONGEST <= insn.imm <= 0:
        return False
    body = _body(pc, insn, fetch)
    return body is not None and _Loop(pc, pc + insn.imm, body).polls()


def _body(pc: int, insn: Insn, fetch: Callable[[int], Insn | None]) -> dict[int, Insn] | None:
    """The instructions of the loop; None if one of them rules polling out."""
    body: dict[int, Insn] = {}
    looks = False
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
        looks |= _looks(step)
        body[at] = step
        at += step.length
    return body if looks and pc in body else None


class _Loop:
    """A loop from `head` to the branch or jump at `last`: what each place holds before each instruction."""

    def __init__(self, last: int, head: int, body: dict[int, Insn]) -> None:
        self._last = last
        self._head = head
        self._body = body
        self._before: dict[int, dict[Place, Value]] = {head: {}}
        self._end: dict[Place, Value] | None = None
        """What places hold when the next round begins."""
        self._read: set[Place] = set()
        """Places that are read as the round before left them."""

    def polls(self) -> bool:
        """Whether rounds do the same again and again."""
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
        return not _is_circular(end) and (not counters or self._looks_beside(counters))

    def _follow(self) -> None:
        """Find what places hold, on all ways through the loop."""
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
        """Where an instruction leads, and what places hold then."""
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
        """What an instruction makes of what it reads."""
        if insn.name in _STORES:
            return self._held(state, (insn.rs2,))
        if insn.name in _LOADS and insn.rs1 in _FRAME:
            return self._held(state, (insn.rs1, insn.imm, _LOADS[insn.name]))
        sources = self._operands(insn, state)
        if _looks(insn):
            return Value(sources | {MEMORY}, False)
        return Value(sources, insn.name in _STEPS or not sources)

    def _operands(self, insn: Insn, state: dict[Place, Value]) -> frozenset[Place]:
        return self._held(state, (insn.rs1,)).sources | self._held(state, (insn.rs2,)).sources

    def _held(self, state: dict[Place, Value], place: Place) -> Value:
        if place == (0,):
            return Value(frozenset(), True)
        value = state.get(place)
        if value is not None and value.certain:
            return value
        self._read.add(place)
        sources = frozenset([place])
        return Value(sources, True) if value is None else Value(value.sources | sources, False)

    def _looks_beside(self, counters: set[Place]) -> bool:
        """Whether no access depends on a counter, and the loop may end for something that was found in memory."""
        may_end = False
        for at, state in self._before.items():
            insn = self._body[at]
            if _looks(insn) and counters & self._operands(insn, state):
                return False
            if insn.spec.flow == "branch" and (at == self._last or at + insn.imm not in self._body):
                may_end |= any(place == MEMORY or len(place) > 1 for place in self._operands(insn, state))
        return may_end


def _looks(insn: Insn) -> bool:
    return insn.name in _LOADS or (insn.spec.extension == "A" and not insn.name.startswith("sc."))


def _size(insn: Insn) -> int:
    return _LOADS.get(insn.name, 0) or _STORES.get(insn.name, 0)


def _overlap(one: Place, other: Place) -> bool:
    return one != other and one[0] == other[0] and one[1] < other[1] + other[2] and other[1] < one[1] + one[2]


def _join(one: dict[Place, Value] | None, other: dict[Place, Value]) -> dict[Place, Value]:
    """What places hold where two ways meet; None: a way that nobody has come yet."""
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
    """Whether some place holds, rounds later, what was made from itself by way of others."""
    left = {place: {each for each in value.sources if each in end and each != place} for place, value in end.items()}
    while left:
        free = [place for place, sources in left.items() if not sources & left.keys()]
        if not free:
            return True
        for place in free:
            del left[place]
    return False
