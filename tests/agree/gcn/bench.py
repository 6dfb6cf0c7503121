"""One wave in a small world, run by either engine, and everything there is to see afterwards."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from softcard.core.errors import SoftcardError
from softcard.core.space import PAGE_SIZE, Ram, Unit
from softcard.engine.gcn.api import Dispatch, Shapes
from softcard.engine.gcn.jit import layout
from softcard.engine.gcn.jit.basics import Observed
from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.reference.engine import Stepper
from softcard.engine.gcn.reference.groups import Groups
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.engine.gcn.tiered.translation import Tier
from softcard.ir import llvm
from softcard.ir.object_cache import ObjectCache
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.state import FAULT_ADDRESS, FAULT_LANE, FAULT_PC, MODE, SCC, STATUS, TRAPSTS, Wave
from softcard.isa.gcn.target import target

CODE: Final = 0x10_0000
CODE_BYTES: Final = 0x1_0000
DATA: Final = 0x20_0000
DATA_BYTES: Final = 0x1_0000
READ_ONLY: Final = 0x30_0000
DEVICE: Final = 0x38_0000
"""A region whose reads have effects."""
ODD: Final = 0x40_0804
ODD_BYTES: Final = 0x1F04
"""Memory that neither begins nor ends with a page."""
SCRATCH: Final = 0x50_0000
LANE_BYTES: Final = 64
EDGE: Final = 0x7FFF_F000
"""Two pages on either side of a GiB."""
GDS_BYTES: Final = 1024
ROWS: Final = 64
"""Vector registers with a first value; those above hold `POISON`."""
POISON: Final = 0xBEEF0BAD
STEP_LIMIT: Final = 3000


@dataclass(slots=True)
class Start:
    """What a wave begins with. `data` fills all memory but the code."""

    sgprs: npt.NDArray[np.uint32]
    vgprs: npt.NDArray[np.uint32]
    data: npt.NDArray[np.uint8]
    exec_: int
    mode: int
    m0: int
    lds_bytes: int = 2048


@dataclass(frozen=True, slots=True)
class Outcome:
    """A wave and its world after a run. Parts by name; after a fault only what a fault defines."""

    error: str
    parts: dict[str, Any] = field(repr=False)


class Device:
    """A region that counts: what it gives depends on how often it was read."""

    def __init__(self) -> None:
        self.size = PAGE_SIZE
        self.log: list[tuple[str, int, bytes]] = []

    def host_address(self, offset: int, unit: Unit) -> int | None:
        """Nowhere."""
        return None

    def read(self, offset: int, size: int, unit: Unit) -> bytes:
        """A function of the offset and of how many accesses came before."""
        self.log.append(("read", offset, bytes([size])))
        seed = (offset * 2654435761 + len(self.log) * 40503) & 0xFFFF_FFFF
        return (seed * 0x1_0000_0001_0000_0001_0000_0001).to_bytes(20, "little")[:size].ljust(size, b"\0")

    def write(self, offset: int, data: bytes, unit: Unit) -> None:
        """Remembered."""
        self.log.append(("write", offset, bytes(data)))


class World:
    """Memory around a wave, always at the same guest addresses."""

    def __init__(self) -> None:
        self.memory = GpuMemory()
        self.code, self.data = Ram(CODE_BYTES), Ram(DATA_BYTES)
        self.scratch, self.edge = Ram(64 * LANE_BYTES), Ram(4 * PAGE_SIZE)
        self.odd, self.fixed = np.zeros(ODD_BYTES, np.uint8), Ram(PAGE_SIZE)
        self.device, self.gds = Device(), np.zeros(GDS_BYTES, np.uint8)
        for base, what, writable, name in (
            (CODE, self.code, True, "code"),
            (DATA, self.data, True, "data"),
            (READ_ONLY, self.fixed, False, "constants"),
            (DEVICE, self.device, True, "device"),
            (ODD, self.odd, True, "odd"),
            (SCRATCH, self.scratch, True, "scratch"),
            (EDGE - PAGE_SIZE, self.edge, True, "edge"),
        ):
            self.memory.map(base, what, writable, name)
        self.hints: list[tuple[str, int]] = []

    def fill(self, code: bytes, start: Start) -> None:
        """What memory holds before a run."""
        view = np.frombuffer(self.code.view, np.uint8)
        view[: len(code)], view[len(code) :] = np.frombuffer(code, np.uint8), 0
        for ram in (self.data, self.scratch, self.edge, self.fixed):
            np.frombuffer(ram.view, np.uint8)[:] = np.resize(start.data, ram.size)
        self.odd[:], self.gds[:] = np.resize(start.data, ODD_BYTES), np.resize(start.data, GDS_BYTES)
        self.device.log.clear()
        self.hints.clear()

    def dispatch(self, name: str, start: Start, step_limit: int) -> Dispatch:
        """One group of one wave."""
        shapes = Shapes(
            np.ones(1, np.uint32), np.array([[start.exec_]], np.uint64), start.vgprs.reshape(1, 1, -1, 64).copy()
        )
        return Dispatch(
            target(name), self.memory, CODE, shapes, np.zeros((1, 4), np.uint32), start.sgprs,
            mode=start.mode, m0=start.m0,
            lds_bytes=start.lds_bytes, gds=self.gds, scratch_base=SCRATCH, scratch_lane_bytes=LANE_BYTES,
            scratch_slots=1,
            poison=POISON, step_limit=step_limit, on_hint=self._cache, on_trap=self._trap,
        )  # fmt: skip

    def _cache(self, wave: Wave, what: str, number: int) -> None:
        if what != "nop":
            self.hints.append((what, number))

    def _trap(self, wave: Wave, number: int) -> bool:
        self.hints.append(("trap", number))
        return number % 2 == 0

    def outcome(self, wave: Wave, lds: npt.NDArray[np.uint8], retired: int, error: str) -> Outcome:
        """Everything, now."""
        words = wave.words
        parts: dict[str, Any] = {}
        if "limit" not in error:
            parts = {name: int(words[n]) for name, n in FAULTS} if error else {}
        if not error or "within" in error:
            parts |= {
                "vgpr": wave.vgpr.copy(), "acc": wave.acc.copy(),
                "sgpr": wave.sgpr.copy(), "scc": int(words[SCC]), "mode": int(words[MODE]),
                "pc": int(wave.pc), "status": int(words[STATUS]), "trapsts": int(words[TRAPSTS]), "retired": retired,
                "lds": lds.copy(), "gds": self.gds.copy(), "odd": self.odd.copy(), "device": list(self.device.log),
                "data": _bytes(self.data), "scratch": _bytes(self.scratch), "edge": _bytes(self.edge),
                "code": _bytes(self.code),
                "constants": _bytes(self.fixed), "hints": list(self.hints),
            }  # fmt: skip
        return Outcome(error, parts)


FAULTS: Final = (("fault pc", FAULT_PC), ("fault lane", FAULT_LANE), ("fault address", FAULT_ADDRESS))


def _bytes(ram: Ram) -> npt.NDArray[np.uint8]:
    return np.frombuffer(ram.view, np.uint8).copy()


@cache
def _reference_world() -> World:
    return World()


Runner = Callable[[str, bytes, Start, int], Outcome]


def on_reference(name: str, code: bytes, start: Start, step_limit: int = STEP_LIMIT, seen: Any = None) -> Outcome:
    """Run on the reference engine. `seen` is called with the wave and every retired instruction."""
    world = _reference_world()
    world.fill(code, start)
    dispatch = world.dispatch(name, start, step_limit)
    groups = Groups(dispatch, Stepper(dispatch, seen))
    error = _error(lambda: groups.run())
    view = groups._views[0]
    return world.outcome(view.wave, groups.lds, groups.statistics.instructions, error)


HIDDEN: Final = ("vgpr", "acc", "sgpr", "scc", "pc")
"""Parts of an outcome that an engine need not leave behind."""


class Translated:
    """The JIT engine with a fixed width and tier. Vector registers are compared when somebody may look at them."""

    def __init__(self, lanes: int, tier: Tier, observed: Observed = Observed.AT_END) -> None:
        self.lanes, self.tier, self.observed = lanes, tier, observed
        self.engine = JitEngine(threads=1, tier=tier, lanes=lanes, cache=ObjectCache(), observed=observed)
        self.world = World()
        self.stepped: set[int] = set()
        """Addresses of instructions that the reference engine did in the last run."""

    def __repr__(self) -> str:
        return f"lanes {self.lanes}, {'quick' if self.tier == Tier.THREADED else 'optimised'}"

    def __call__(self, name: str, code: bytes, start: Start, step_limit: int = STEP_LIMIT) -> Outcome:
        world = self.world
        world.fill(code, start)
        launch = self.engine.prepare(world.dispatch(name, start, step_limit))
        stepper, self.stepped = launch._workers[0].stepper, set()
        step = stepper.step

        def noted(wave: Wave, lanes: int | None = None) -> Insn:
            self.stepped.add(wave.pc)
            return step(wave, lanes)

        stepper.step = noted  # type: ignore[method-assign]
        done: list[int] = []
        error = _error(lambda: done.append(launch.run().instructions))
        worker = launch._workers[0]
        wave = worker.waves[0]
        retired = done[0] if done else worker._executed(wave)
        made = world.outcome(wave, worker.lds, retired, error)
        hidden = HIDDEN if self.observed is Observed.NEVER else HIDDEN[:2] if error else ()
        if self.observed is not Observed.ALWAYS:
            made.parts.update(dict.fromkeys(hidden))
        return made

    def fresh(self) -> Translated:
        """One without any code yet."""
        return Translated(self.lanes, self.tier, self.observed)


def _error(run: Callable[[], Any]) -> str:
    try:
        run()
    except SoftcardError as error:
        return f"{type(error).__name__}: {error.in_full()}"
    except Exception as error:  # noqa: BLE001 - no engine may raise that: a difference
        return f"{type(error).__name__}: {error}\n{''.join(traceback.format_tb(error.__traceback__)[-3:])}"
    return ""


def widths() -> tuple[int, ...]:
    """Chunk widths that this host has vectors for."""
    best = layout.chunk_lanes(llvm.host_features())
    return tuple(lanes for lanes in (4, 8, 16) if lanes <= best)


def engines() -> list[Translated]:
    """Every width quickly compiled, and optimised."""
    return [Translated(lanes, tier) for lanes in widths() for tier in (Tier.THREADED, Tier.OPTIMISED)]


def differences(expected: Outcome, actual: Outcome) -> list[str]:
    """One line for each part of an outcome that is not as expected."""
    if expected.error != actual.error:
        return [f"error: {actual.error or 'none'}", f"expected {expected.error or 'none'}"]
    lines = []
    for name, theirs in expected.parts.items():
        mine = actual.parts.get(name)
        if mine is None and name in HIDDEN:
            continue
        if isinstance(theirs, np.ndarray):
            lines += _array(name, theirs, np.asarray(mine))
        elif mine != theirs:
            lines.append(f"{name}: {_shown(mine)}, expected {_shown(theirs)}")
    return lines


def _array(name: str, theirs: Any, mine: Any) -> list[str]:
    if name in ("vgpr", "acc"):
        return [_row(name[0], n, theirs[n], mine[n]) for n in np.flatnonzero((mine != theirs).any(axis=1)).tolist()]
    if mine.shape != theirs.shape:
        return [f"{name}: {mine.shape}, expected {theirs.shape}"]
    wrong = np.flatnonzero(mine != theirs).tolist()
    shown = ", ".join(f"[{n:#x}] {int(mine[n]):#x} not {int(theirs[n]):#x}" for n in wrong[:6])
    return [f"{name}: {shown}" + (f" and {len(wrong) - 6} more" if len(wrong) > 6 else "")] if wrong else []


def _row(file: str, n: int, theirs: Any, mine: Any) -> str:
    lanes = np.flatnonzero(mine != theirs).tolist()
    shown = ", ".join(f"lane {lane} {int(mine[lane]):#x} not {int(theirs[lane]):#x}" for lane in lanes[:4])
    return f"{file}{n}: {shown}" + (f" and {len(lanes) - 4} more" if len(lanes) > 4 else "")


def _shown(value: Any) -> str:
    return hex(value) if isinstance(value, int) else str(value)[:300]
