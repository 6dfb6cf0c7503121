"""The reference engine's shadow registers and shadow memory, which it computes along with the values."""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np

from softcard.core.checks import INIT
from softcard.core.errors import Registers, SoftcardError
from softcard.engine.gcn.matrix.stated import undefine
from softcard.engine.gcn.memory import Plain
from softcard.engine.gcn.reference.lane_atomic import LaneAtomics
from softcard.engine.gcn.reference.lane_integer import Array, Value, lanes_of
from softcard.engine.gcn.reference.lane_memory import LIMIT, Current, mask_of, shared
from softcard.engine.gcn.reference.lanes import Lanes, View, specialised
from softcard.engine.gcn.shadow.algebra import LANES, LOADED, STORED, Access, Kind, ShadowedAlgebra
from softcard.engine.gcn.shadow.device_shadow import DeviceShadow, ShadowMemory
from softcard.engine.gcn.shadow.sources import source_of
from softcard.engine.gcn.shadow.uses import Touch, WaveLanes
from softcard.engine.shadow.bits import ShadowBits
from softcard.engine.shadow.integers import Shadowed
from softcard.isa.gcn.asm.printer import text
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.semantics.execute import execute
from softcard.isa.gcn.semantics.matrix.table import Use
from softcard.isa.gcn.state import FULL, LDS_BASE, LDS_SIZE, PRIVATE_BASE, SHARED_BASE
from softcard.isa.gcn.state import LANES as LANE_COUNT

LANE_BITS: Final = 64
SPACES: Final = frozenset({"global", "flat", "lds"})
"""The address spaces whose bytes have a shadow. GDS does not have one."""


class LaneShadowMemory(LaneAtomics):
    """The memory operations on shadow memory for the lanes of the current instruction (`current`).

    `words` are the words of the wave's shadow state, which include the address and the size of the shadow of
    LDS."""

    words: Any

    def _local(self) -> Plain:
        key = (self.words[LDS_BASE], self.words[LDS_SIZE])
        if key != self._lds_key:
            self._lds, self._lds_key = shared(*key, "LDS"), key
        return self._lds


class ShadowLanes(Lanes):
    """The operations interface to a wave's shadow registers and shadow memory, for one kind of shadow.

    `main` is the interface to the values of the same wave."""

    def __init__(self, main: Lanes, memory: ShadowMemory) -> None:
        self.memory = LaneShadowMemory(memory, None, main.current)
        super().__init__(memory, accesses=self.memory)
        self.main = main

    def enter(self, view: View) -> None:
        """Prepare for one instruction of a wave, whose shadow registers are in `view`.

        The caller must already have prepared `main` for the same instruction."""
        self.view = view
        self.rows, self.sgpr, self.words = view.rows, view.sgpr, view.words
        self.memory.words = view.words
        self.restricted = self.main.restricted

    def matrix_shadows(self, use: Use, main: Lanes, *, is_source: bool) -> None:
        """Compute the shadow of the result of a matrix instruction whose values are accessed through `main`.

        If `is_source` is True, set all of its bits."""
        undefine(use, main.view.wave, self.view.wave, is_source=is_source)


class ReferenceKind(Kind):
    """One kind of shadow (see `Kind`) on the reference engine."""

    notes = frozenset({LOADED, STORED})
    spaces = SPACES

    def __init__(self, name: str, lanes: ShadowedLanes, device_shadow: DeviceShadow, memory: ShadowMemory) -> None:
        self.name = name
        self.lanes = lanes
        self.uses = device_shadow.uses
        self.shadow = ShadowLanes(lanes.base, memory)
        if name != INIT:
            self.notes = frozenset()

    def begin(self, insn: Insn) -> int | None:
        """Begin an instruction; return what determines the shadow of its results, as `Kind` describes."""
        return source_of(self.name, insn)

    def report(self, what: str, shadow: ShadowBits, where: Any = None, access: Access | None = None) -> None:
        """Record a use of a value with shadow bits set, with the lanes that use it."""
        base = self.lanes.base
        if what == LANES and shadow.w == LANE_BITS:  # each bit concerns its own lane
            bits = shadow.bits(base)
            if type(bits) is int:
                if bits:
                    self._note(what, tuple(np.flatnonzero(mask_of(bits)).tolist()), None)
                return
        found = shadow.whole(base)
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
        wave_lanes = WaveLanes(lanes, self.lanes.base.view.wave.index, self.lanes.base.current.group)
        insn = self.lanes.insn
        if access is None:
            if self.lanes.counts:
                self.uses.note(self.name, what, insn, wave_lanes, self._registers)
            return
        address, touches = access.address, []
        for lane in lanes or (0,):
            at = address if type(address) is int else int(address[lane])
            space, place = self._place(access.space, at)
            who = WaveLanes((lane,) if lanes else (), wave_lanes.wave, wave_lanes.group)
            touches.append(Touch(insn.pc, space, place, access.bits >> 3, who, insn))
        self.uses.touch(self.name, what, touches, self._registers)

    def _registers(self, lane: int | None) -> Registers | None:
        """Return the registers that the present instruction reads."""
        from softcard.engine.gcn.effects import registers_read  # few kernels have findings

        insn = self.lanes.insn
        try:
            insn = specialised(self.lanes.base, insn)
            return registers_read(insn, self.lanes.base.view.wave, lane, text(insn))
        except (SoftcardError, IndexError):
            return None

    def _place(self, space: str, address: int) -> tuple[str, int]:
        words = self.lanes.base.words
        if space == "flat":
            for name, word in (("lds", SHARED_BASE), ("private", PRIVATE_BASE)):
                if address >> 32 == words[word] >> 32:
                    return name, address & LIMIT
            return "global", address
        return space, address


class ShadowedLanes(ShadowedAlgebra):
    """The reference engine's operations on values with shadow bits, for a dispatch's waves."""

    replays = False
    counts = True
    """True if uses of values with shadow bits are counted."""
    insn: Insn

    def __init__(self, base: Lanes, device_shadow: DeviceShadow) -> None:
        kinds = [
            ReferenceKind(name, self, device_shadow, shadow_memory)
            for name, shadow_memory in self._shadow_lanes(base, device_shadow)
        ]
        super().__init__(base, kinds)
        self._views: dict[int, tuple[View, ...]] = {}

    def _shadow_lanes(self, base: Lanes, device_shadow: DeviceShadow) -> list[tuple[str, ShadowMemory]]:
        self.base = base
        return list(zip(device_shadow.kinds, device_shadow.shadow_memories, strict=True))

    @property
    def current(self) -> Current:
        """The context of the current instruction."""
        current: Current = self.base.current
        return current

    def colliding(self, lane: Value) -> Array:
        """Return a mask of the lanes of EXEC that send a value to a lane to which another lane sends one, too."""
        names = lanes_of(32, lane) if type(lane) is int else lane
        found: Array = np.bincount(names[self.current.lanes_where(None)], minlength=LANE_COUNT)[names] > 1
        return found

    @property
    def target(self) -> int:
        """The pc at which execution continues."""
        return int(self.base.target)

    def begin(self, view: View, insn: Insn, lanes: int | None = None) -> None:
        """Prepare for one instruction of a wave."""
        self.base.begin(view, insn, lanes)
        self.insn = insn
        wave = view.wave
        views = self._views.get(wave.address)
        if views is None:
            has_accumulators = bool(insn.target.matrix)
            views = self._views[wave.address] = tuple(View(shadow, has_accumulators) for shadow in wave.shadows)
        for kind, each in zip(self.kinds, views, strict=True):
            kind.shadow.enter(each)
        self.start(insn)

    def perform(self, insn: Insn) -> None:
        """Execute the instruction."""
        execute(cast("Any", _Concrete(self) if insn.op.concrete else self), insn)


class _Concrete:
    """An operations interface on plain values, for instructions whose semantics branch on values.

    If any operand has shadow bits set, all shadow bits of the results are set.
    """

    def __init__(self, lanes: ShadowedLanes) -> None:
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
        found = getattr(lanes, name)(*(self._shadowed(each) for each in given))
        for each in found if isinstance(found, list) else [found]:
            self._seen = lanes._opaque(1, 0, self._seen, each)
        return [each.value for each in found] if isinstance(found, list) else found.value

    def _write(self, name: str, given: tuple[Any, ...]) -> None:
        *before, value = given
        shadows = tuple(
            None if own is None else ShadowBits(64, whole=own.whole(self._lanes.base)) for own in self._seen.shadows
        )
        getattr(self._lanes, name)(*(self._shadowed(each) for each in before), Shadowed(value, shadows))

    def _shadowed(self, given: Any) -> Any:
        return Shadowed(given, self._lanes.none) if isinstance(given, np.ndarray) else given


_READS: Final = frozenset({"s", "s64", "scc", "v", "mask"})
_WRITES: Final = frozenset({"set_s", "set_s64", "set_scc", "set_v", "set_mask"})
