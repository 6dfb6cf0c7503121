"""Marks on the reference engine: a second set of registers and memory beside the wave's, evaluated alike."""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np

from understudy.core.checks import INIT
from understudy.engine.gcn.marks.algebra import LANES, LOADED, STORED, Access, Kind, MarkedAlgebra
from understudy.engine.gcn.marks.marking import Marking
from understudy.engine.gcn.marks.memory import MarkMemory
from understudy.engine.gcn.marks.sights import Party, Touch
from understudy.engine.gcn.marks.sources import source_of
from understudy.engine.gcn.memory import Plain
from understudy.engine.gcn.reference.lane_atomic import LaneAtomics
from understudy.engine.gcn.reference.lane_memory import LIMIT, Current, mask_of, shared
from understudy.engine.gcn.reference.lanes import Lanes, View
from understudy.engine.marks.integers import Marked
from understudy.engine.marks.mark import Mark
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.semantics.execute import execute
from understudy.isa.gcn.state import FULL, LDS_BASE, LDS_SIZE, PRIVATE_BASE, SHARED_BASE

LANE_BITS: Final = 64
SPACES: Final = frozenset({"global", "flat", "lds"})
"""Those whose bytes have marks; what GDS holds has none."""


class TwinMemory(LaneAtomics):
    """Marks of memory, for the wave and lanes that `current` names; of LDS where `words` of the twin say."""

    words: Any

    def _local(self) -> Plain:
        key = (self.words[LDS_BASE], self.words[LDS_SIZE])
        if key != self._lds_key:
            self._lds, self._lds_key = shared(*key, "LDS"), key
        return self._lds


class TwinLanes(Lanes):
    """Marks of registers and memory, where `main` has the values."""

    def __init__(self, main: Lanes, memory: MarkMemory) -> None:
        self.memory = TwinMemory(memory, None, main.current)
        super().__init__(memory, accesses=self.memory)
        self.main = main

    def enter(self, view: View) -> None:
        """Set up for one instruction, for which `main` is set up."""
        self.view = view
        self.rows, self.sgpr, self.words = view.rows, view.sgpr, view.words
        self.memory.words = view.words
        self.restricted = self.main.restricted


class ReferenceKind(Kind):
    """One kind of mark."""

    notes = frozenset({LOADED, STORED})
    spaces = SPACES

    def __init__(self, name: str, lanes: MarkedLanes, marking: Marking, memory: MarkMemory) -> None:
        self.name = name
        self.lanes = lanes
        self.sights = marking.sights
        self.twin = TwinLanes(lanes.base, memory)
        if name != INIT:
            self.notes = frozenset()

    def begin(self, insn: Insn) -> bool | None:
        """An instruction begins."""
        return source_of(self.name, insn)

    def tell(self, what: str, mark: Mark, where: Any = None, access: Access | None = None) -> None:
        """Note what happens, in which lanes."""
        base = self.lanes.base
        if what == LANES and mark.w == LANE_BITS:  # each bit concerns its own lane
            bits = mark.bits(base)
            if type(bits) is int:
                if bits:
                    self._note(what, tuple(np.flatnonzero(mask_of(bits)).tolist()), None)
                return
        found = mark.whole(base)
        if type(found) is int and (access is None or type(access.address) is int):
            if found and not (type(where) is int and not where):
                self._note(what, (), access)
            return
        bits = mask_of(FULL if found else 0) if type(found) is int else found
        if where is not None:
            bits = bits & (mask_of(FULL if where else 0) if type(where) is int else where)
        lanes = np.flatnonzero(bits & base.current.exec)
        if len(lanes):
            self._note(what, tuple(lanes.tolist()), access)

    def _note(self, what: str, lanes: tuple[int, ...], access: Access | None) -> None:
        party = Party(lanes, self.lanes.base.view.wave.index, self.lanes.base.current.group)
        insn = self.lanes.insn
        if access is None:
            if self.lanes.counts:
                self.sights.note(self.name, what, insn, party)
            return
        address, touches = access.address, []
        for lane in lanes or (0,):
            at = address if type(address) is int else int(address[lane])
            space, place = self._place(access.space, at)
            who = Party((lane,) if lanes else (), party.wave, party.group)
            touches.append(Touch(insn.pc, space, place, access.bits >> 3, who, insn))
        self.sights.touch(self.name, what, touches)

    def _place(self, space: str, address: int) -> tuple[str, int]:
        words = self.lanes.base.words
        if space == "flat":
            for name, word in (("lds", SHARED_BASE), ("private", PRIVATE_BASE)):
                if address >> 32 == words[word] >> 32:
                    return name, address & LIMIT
            return "global", address
        return space, address


class MarkedLanes(MarkedAlgebra):
    """The algebra of a dispatch's waves, with marks."""

    replays = False
    counts = True
    """Whether what marks decide is counted."""
    insn: Insn

    def __init__(self, base: Lanes, marking: Marking) -> None:
        kinds = [ReferenceKind(name, self, marking, plane) for name, plane in self._planes(base, marking)]
        super().__init__(base, kinds)
        self._views: dict[int, tuple[View, ...]] = {}

    def _planes(self, base: Lanes, marking: Marking) -> list[tuple[str, MarkMemory]]:
        self.base = base
        return list(zip(marking.kinds, marking.planes, strict=True))

    @property
    def current(self) -> Current:
        """What an instruction concerns."""
        current: Current = self.base.current
        return current

    @property
    def target(self) -> int:
        """Where execution goes on."""
        return int(self.base.target)

    def begin(self, view: View, insn: Insn, lanes: int | None = None) -> None:
        """Set up for one instruction of a wave."""
        self.base.begin(view, insn, lanes)
        self.insn = insn
        wave = view.wave
        views = self._views.get(wave.address)
        if views is None:
            views = self._views[wave.address] = tuple(View(twin) for twin in wave.twins)
        for kind, each in zip(self.kinds, views, strict=True):
            kind.twin.enter(each)
        self.start(insn)

    def perform(self, insn: Insn) -> None:
        """Execute it."""
        execute(cast("Any", _Concrete(self) if insn.op.concrete else self), insn)


class _Concrete:
    """For operations that look at values: plain ones, and results are marked where anything was that they have read."""

    def __init__(self, lanes: MarkedLanes) -> None:
        self._lanes = lanes
        self._seen = lanes.const(1, 0)

    def __getattr__(self, name: str) -> Any:
        if name in _WRITES:
            return lambda *given: self._write(name, given)
        if name in _READS:
            return lambda *given: self._read(name, given)
        return getattr(self._lanes.base, name)

    def _read(self, name: str, given: tuple[Any, ...]) -> Any:
        lanes = self._lanes
        found = getattr(lanes, name)(*(self._marked(each) for each in given))
        for each in found if isinstance(found, list) else [found]:
            self._seen = lanes._opaque(1, 0, self._seen, each)
        return [each.value for each in found] if isinstance(found, list) else found.value

    def _write(self, name: str, given: tuple[Any, ...]) -> None:
        *before, value = given
        marks = tuple(None if own is None else Mark(64, whole=own.whole(self._lanes.base)) for own in self._seen.marks)
        getattr(self._lanes, name)(*(self._marked(each) for each in before), Marked(value, marks))

    def _marked(self, given: Any) -> Any:
        return Marked(given, self._lanes.none) if isinstance(given, np.ndarray) else given


_READS: Final = frozenset({"s", "s64", "scc", "v", "mask"})
_WRITES: Final = frozenset({"set_s", "set_s64", "set_scc", "set_v", "set_mask"})
