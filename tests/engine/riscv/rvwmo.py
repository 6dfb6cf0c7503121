"""RVWMO, the memory model of the ISA manual (volume I, chapter "RVWMO Memory Consistency Model"), for small programs.

Finds every outcome of a few harts' straight code by trying all global memory orders that the preserved program order
allows. Understands words of memory at registers s2 and above, loads, stores, atomics, fences, ``xor``, ``add`` and
branches to the next instruction, which make dependencies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

START = {"zero": 0, "s5": 1, "s6": 2}
"""Registers that hold numbers; s2, s3 and s4 hold three addresses."""
PLACES = ("s2", "s3", "s4")
Outcome = tuple[int, ...]
"""The final values of the registers that loads, atomics and sc write, in the order of harts and instructions."""


@dataclass(eq=False)
class Access:
    """One memory operation. `after` are operations of its hart that precede it in all global orders."""

    hart: int
    name: str
    place: str
    data: Access | int = 0
    aq: bool = False
    rl: bool = False
    pair: Access | None = None
    after: set[Access] = field(default_factory=set)
    address_of: set[Access] = field(default_factory=set)
    data_of: set[Access] = field(default_factory=set)

    @property
    def loads(self) -> bool:
        return self.name[0] == "l" or self.name.startswith("amo")

    @property
    def stores(self) -> bool:
        return self.name[0] == "s" or self.name.startswith("amo")


def outcomes(program: Sequence[str], sequential: bool = False) -> set[Outcome]:
    """All that may come of it; `sequential`: where harts merely take turns."""
    count = sum(text.count("sc.w") for text in program)
    found: set[Outcome] = set()
    for succeeds in product((True, False), repeat=count):
        left = iter(succeeds)
        harts = [_accesses(number, text, left) for number, text in enumerate(program)]
        if any(not each for each in harts):
            continue
        written = [access for accesses, _ in harts for access in accesses]
        results = [result for _, shown in harts for result in shown]
        if sequential:
            for accesses, _ in harts:
                for number, access in enumerate(accesses):
                    access.after = set(accesses[:number])
        for order in _orders(written, []):
            values = _values(written, order, results)
            if values is not None:
                found.add(values)
    return found


def _accesses(hart: int, text: str, succeeds: Iterator[bool]) -> tuple[list[Access], list[Access | int]]:
    """The accesses of a hart in program order, and what its results are: a load's value, or a number."""
    done: list[Access] = []
    results: list[Access | int] = []
    sources: dict[str, set[Access]] = {}
    held: dict[str, Access | int | str] = {**START, **{place: place for place in PLACES}}
    controls: set[Access] = set()
    fences: list[tuple[int, str, str]] = []
    reserved: Access | None = None
    for line in filter(None, (each.strip() for each in text.split(";"))):
        name, *words = line.replace(",", " ").replace("0(", " ").replace("(", " ").replace(")", " ").split()
        if name == "fence":
            fences.append((len(done), *(words or ("rw", "rw"))))
            continue
        if name in ("xor", "add"):
            sources[words[0]] = sources.get(words[1], set()) | sources.get(words[2], set())
            held[words[0]] = 0 if name == "xor" else held[words[2]]
            continue
        if name[0] == "b":
            controls |= sources.get(words[0], set()) | sources.get(words[1], set())
            continue
        place, into, data = words[-1], "" if name[:2] == "sw" else words[0], words[-2]
        if name.startswith("sc") and not next(succeeds):
            results.append(1)
            reserved = None
            continue
        at, what = held[place], held.get(data, 0)
        assert isinstance(at, str)
        assert not isinstance(what, str)
        access = Access(hart, name, at, what, ".aq" in name, "rl" in name)
        access.address_of = sources.get(place, set())
        if access.stores:
            access.data_of = sources.get(data, set())
            access.after |= controls
        if name.startswith("sc"):
            access.pair, reserved = reserved, None
            if access.pair is None:
                return [], []
            results.append(0)
        elif into:
            results.append(access)
            sources[into], held[into] = {access}, access
        if name.startswith("lr"):
            reserved = access
        done.append(access)
    for number, after in enumerate(done):
        after.after |= after.address_of | after.data_of | ({after.pair} if after.pair else set())
        for index, before in enumerate(done[:number]):
            if _ordered(before, after, index, number, fences) or (
                after.stores and any(before in middle.address_of for middle in done[index:number])
            ):
                after.after.add(before)
    return done, results


def _ordered(before: Access, after: Access, index: int, number: int, fences: list[tuple[int, str, str]]) -> bool:
    if (before.place == after.place and after.stores) or before.aq or after.rl:
        return True
    if (before.aq or before.rl) and (after.aq or after.rl):
        return True
    return any(
        index < at <= number
        and (("r" in first and before.loads) or ("w" in first and before.stores))
        and (("r" in second and after.loads) or ("w" in second and after.stores))
        for at, first, second in fences
    )


def _orders(left: list[Access], done: list[Access]) -> Iterator[list[Access]]:
    if not left:
        yield done
    for access in left:
        if not any(other in access.after for other in left):
            yield from _orders([other for other in left if other is not access], [*done, access])


def _values(written: list[Access], order: list[Access], results: list[Access | int]) -> Outcome | None:
    """Return the outcome of one global order; None if an axiom forbids it."""
    at = {access: number for number, access in enumerate(order)}
    program = {access: number for number, access in enumerate(written)}

    def earlier(one: Access, other: Access) -> bool:
        return one.hart == other.hart and program[one] < program[other]

    def source(load: Access) -> Access | None:
        seen = [
            store
            for store in order
            if store.stores and store.place == load.place and store is not load
            if at[store] < at[load] or earlier(store, load)
        ]
        return seen[-1] if seen else None

    read = {access: source(access) for access in written if access.loads}
    for load, store in read.items():
        for other in written:
            if not earlier(other, load) or at[other] < at[load]:
                continue
            if other.loads and other.place == load.place and read[other] is not store:
                between = [x for x in written if earlier(other, x) and earlier(x, load) and x.place == load.place]
                if not any(x.stores for x in between):
                    return None
            if store is not None and store.hart == load.hart:
                if store is other and (store.loads or store.pair is not None):
                    return None
                if earlier(other, store) and other in store.address_of | store.data_of:
                    return None
    for store in written:
        if store.pair is not None and store.pair.place == store.place:
            origin = read[store.pair]
            first = at[origin] if origin is not None else -1
            middle = order[first + 1 : at[store]]
            if any(x.stores and x.place == store.place and x.hart != store.hart for x in middle):
                return None

    def value(access: Access | None) -> int:
        """Return the value that a load or atomic reads."""
        return 0 if access is None else stored(read[access])

    def stored(access: Access | None) -> int:
        if access is None:
            return 0
        data = access.data if isinstance(access.data, int) else value(access.data)
        return data + value(access) if access.name.startswith("amoadd") else data

    return tuple(result if isinstance(result, int) else value(result) for result in results)
