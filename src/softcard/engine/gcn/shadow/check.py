"""The checks `init` and `fidelity` of a device.

Shadow bits are computed along with values. Uses of values with shadow bits set become findings.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from softcard.core.checks import FIDELITY, INIT
from softcard.core.findings import Finding, FindingLog, Level
from softcard.engine.gcn.api import Dispatch
from softcard.engine.gcn.hooks import Check
from softcard.engine.gcn.instrumentation import Instrumentation
from softcard.engine.gcn.shadow.device_shadow import KINDS, DeviceShadow, ShadowMemory
from softcard.engine.gcn.shadow.launch import WaveShadowStarts, first_byte, start_shadows
from softcard.engine.gcn.shadow.origins import origin_of
from softcard.engine.gcn.shadow.program_memory import RESULT, ProgramMemory
from softcard.engine.gcn.shadow.sources import is_source
from softcard.engine.gcn.shadow.uses import Site, Touch, Use
from softcard.engine.shadow.bits import NOT_FIRST
from softcard.isa.gcn.asm.printer import text
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.state import Wave

if TYPE_CHECKING:
    from softcard.engine.gcn.memory import GpuMemory


# ---- shadow of waves -------------------------------------------------------------------------------------------------
# Marks as engines know them: shadow registers and shadow memory, one set for each kind of mark.


class EngineShadow(Check):
    """A check that propagates shadow bits along with values but reports nothing."""

    def __init__(self, device_shadow: DeviceShadow) -> None:
        self.device_shadow = device_shadow
        self.kinds = device_shadow.kinds

    @property
    def shadow(self) -> EngineShadow:
        """The check that engines use for shadow bits: this object itself."""
        return self

    @property
    def instrumentation(self) -> Instrumentation:
        """The instrumentation of translated code that propagates shadow bits."""
        return Instrumentation(self.kinds, self.kinds, performer=_performer, is_source=is_source)

    @property
    def memories(self) -> tuple[ShadowMemory, ...]:
        """The shadow memories, one for each kind of shadow, in the order of `DeviceShadow.kinds`."""
        return self.device_shadow.shadow_memories

    @property
    def counters(self) -> npt.NDArray[np.uint64]:
        """The table in which translated code counts uses of values with shadow bits set."""
        return self.device_shadow.uses.quiet

    def blank(self, kind: str) -> int:
        """Return the initial shadow byte of memory that a launch does not initialise, for the shadow `kind`."""
        return first_byte(kind)

    def start_wave(self, dispatch: Dispatch, wave: Wave, slot: int, lds: Sequence[int]) -> None:
        """Initialise the shadow registers of a wave.

        `slot` is the number of the wave's private memory. `lds` has the host address of the shadow of LDS for each kind
        of shadow.
        """
        start_shadows(dispatch, self.device_shadow, wave, slot, lds)

    def starts(self, dispatch: Dispatch, waves: Sequence[Wave], first_slot: int) -> WaveShadowStarts:
        """Return the initial shadow state of the waves that one host thread runs, for the compiled scheduler.

        `first_slot` is the number of the first wave's private memory."""
        return WaveShadowStarts(dispatch, self.device_shadow, waves, first_slot)

    def operations(self, plain: Any) -> Any:
        """Return the reference engine's operations interface over values with shadow bits.

        `plain` is the interface over plain values.
        """
        from softcard.engine.gcn.shadow.reference import ShadowedLanes  # imports the whole instruction set

        return ShadowedLanes(plain, self.device_shadow)

    def follow(self) -> None:
        """Map shadow memory for all mapped device memory. This is called before waves run."""
        self.device_shadow.follow()


def _performer(algebra: Any, kinds: tuple[str, ...]) -> Callable[[Insn], None]:
    from softcard.engine.gcn.shadow.translated import performer  # imports the whole instruction set

    return performer(algebra, kinds)


# ---- checks ----------------------------------------------------------------------------------------------------------


KIND: Final = {INIT: "undefined", FIDELITY: "approximate"}
WHAT: Final = {
    "branch": "decides a branch of the wave",
    "exec": "decides which lanes are active (EXEC)",
    "address": "is used as an address or a register number",
    "atomic": "is used as an operand of an atomic operation",
    "quotient": "decides the quotient of an integer division",
}
SUGGESTION: Final = {
    INIT: "write the value before, on every path that leads here and in every lane",
    FIDELITY: "allow for the error in the comparison, or compute the value with exact operations",
}
QUOTIENT_SUGGESTION: Final = (
    "hardware may give a quotient that is one too large: divide numbers of 32 bits, or use a compiler that does not "
    "divide integers of 23 or 24 bits by way of float"
)


class ShadowCheck(Check):
    """The check that owns the shadow memories of a device memory, and logs uses of values with shadow bits set."""

    def __init__(self, device_shadow: DeviceShadow, log: FindingLog) -> None:
        self.device_shadow = device_shadow
        self._shadow = EngineShadow(device_shadow)
        self.log = log
        self._reported: dict[Site, int] = {}
        self.program: ProgramMemory | None = None
        """The tracker of a host program's device memory; None if the device sees all of the program's stores."""

    @property
    def shadow(self) -> EngineShadow:
        """The shadow registers and shadow memory, as engines use them."""
        return self._shadow

    @property
    def instrumentation(self) -> Instrumentation:
        """The instrumentation of translated code that propagates shadow bits."""
        return self._shadow.instrumentation

    @classmethod
    def of(cls, checks: Collection[str], memory: GpuMemory, log: FindingLog | None) -> ShadowCheck | None:
        """Return the check for the kinds of shadow that `checks` names, or None if it names none of them."""
        kinds = tuple(kind for kind in KINDS if kind in checks)
        return None if not kinds or log is None else cls(DeviceShadow(memory, kinds), log)

    def program_memory(self, word: int) -> ProgramMemory | None:
        """Return the tracker of a host program's device memory, or None if the check `init` is off.

        `word` is the 32-bit junk pattern that fills new allocations."""
        if INIT in self.device_shadow.kinds and self.program is None:
            self.program = ProgramMemory(self.device_shadow, self.log, word)
        return self.program

    def launch_begins(self, dispatch: Dispatch) -> None:
        """Mark device memory as defined where the host's program has written it, before a dispatch."""
        if self.program is not None:
            self.program.before_dispatch()

    def launch_ends(self, dispatch: Dispatch) -> None:
        """Report the uses of undefined and approximate values that were recorded since the last report."""
        if self.program is not None:
            self.program.after_dispatch(dispatch)
        uses = self.device_shadow.uses
        for site, count in uses.counts().items():
            new = count - self._reported.get(site, 0)
            if new:
                self._reported[site] = count
                self.log.note(self._finding(dispatch, uses.sites[site], new))

    def _finding(self, dispatch: Dispatch, use: Use, count: int) -> Finding:
        adjective = KIND[use.kind]
        known = None if self.program is None else self.program.origins
        origin = origin_of(dispatch, use.insn, use.kind, self.device_shadow.uses, known)
        origin = f"it comes from {origin}" if origin else ""
        message = f"an {adjective} value {WHAT[use.what]}" + (f": {origin}" if origin else "")
        return Finding(
            use.kind,
            f"{adjective}-{use.what}",
            message,
            Level.ERROR if use.kind == INIT else Level.WARNING,
            insn=text(use.insn),
            pc=use.insn.pc,
            suggestion=QUOTIENT_SUGGESTION if use.what == "quotient" else SUGGESTION[use.kind],
            origin=origin,
            count=count,
            registers=use.registers,
            **_who(use),
        )

    # ---- the host ------------------------------------------------------------------------------------------------
    def host_allocates(self, address: int, size: int, *, is_blank: bool) -> None:
        """Set newly allocated memory to undefined if `is_blank`, else to defined."""
        (self.device_shadow.undefined if is_blank else self.device_shadow.written)(address, size)

    def host_writes(self, address: int, size: int) -> None:
        """Mark memory as defined after the host has written it."""
        self.device_shadow.written(address, size)

    def host_views(self, address: int, size: int) -> None:
        """Set memory to defined, since the host may write to it through a view at any time."""
        self.device_shadow.written(address, size)

    def host_passes(self, address: int, size: int) -> None:
        """Set an array to defined, since the host's program could have written all of it before passing it."""
        self.device_shadow.written(address, size)

    def host_gets(self, address: int, array: np.ndarray[Any, Any], name: str) -> None:
        """Report elements of an array that were stored by kernels and still have undefined bits.

        The fields of a structure are checked, its padding is not.
        """
        if INIT not in self.device_shadow.kinds:
            return
        touch = self._stored(address, array.nbytes)
        if touch is None:
            return
        shadow_memory = self.device_shadow.shadow_memories[self.device_shadow.kinds.index(INIT)]
        shadows = np.frombuffer(shadow_memory.read(address, array.nbytes), np.uint8).reshape(-1, array.dtype.itemsize)
        bad = np.flatnonzero(shadows[:, _bytes_of(array.dtype)].any(axis=1))
        if not len(bad):
            return
        message = f"{len(bad)} elements of {name} were stored with undefined values: the first is element {int(bad[0])}"
        insn = self._insn(touch)
        self.log.note(
            Finding(
                INIT,
                RESULT,
                message,
                access="write",
                space="global",
                address=touch.address,
                size=touch.size,
                pc=touch.pc,
                insn=insn,
                suggestion=SUGGESTION[INIT],
                count=len(bad),
                lanes=touch.wave_lanes.lanes,
                unit=f"wave {touch.wave_lanes.wave}",
                group=",".join(map(str, touch.wave_lanes.group)),
                registers=self.device_shadow.uses.registers_of(touch),
                no_registers=NOT_FIRST,
            )
        )

    def _stored(self, address: int, size: int) -> Touch | None:
        """Return the first recorded store of undefined bits to a range of memory, or None.

        Remove all such stores in the range from the record, so that each store is reported only once."""
        stored = self.device_shadow.uses.stored
        keys = [key for key in stored if key[:2] == (INIT, "global") and address <= key[2] < address + size]
        found = [stored.pop(key) for key in keys]
        return min(found, key=lambda touch: touch.address, default=None)

    def _insn(self, touch: Touch) -> str:
        return "" if touch.insn is None else text(touch.insn)


def _who(use: Use) -> dict[str, Any]:
    wave_lanes = use.first
    return {"lanes": wave_lanes.lanes, "unit": f"wave {wave_lanes.wave}", "group": ",".join(map(str, wave_lanes.group))}


def _bytes_of(dtype: np.dtype[Any], start: int = 0) -> list[int]:
    """Return the offsets of an element's bytes that belong to values, not to padding."""
    if dtype.fields is not None:
        return [byte for kind, at, *_ in dtype.fields.values() for byte in _bytes_of(kind, start + at)]
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        count = int(np.prod(shape))
        return [byte for number in range(count) for byte in _bytes_of(base, start + number * base.itemsize)]
    return list(range(start, start + dtype.itemsize))
