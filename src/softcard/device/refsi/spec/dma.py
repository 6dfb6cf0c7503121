"""The DMA controller of the `spec` profile: registers, asynchronous transfers and waits.

Every unit has its own registers and its own sequence of transfer IDs. A transfer is checked completely at its start,
and performed as late as the documents allow (choice `refsi/dma-late`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from softcard.core.device import Telemetry
from softcard.core.errors import AccessFault, BeyondModel, GuestFault, WireError
from softcard.core.lint import Lint
from softcard.core.rule import Rule
from softcard.core.snapshot import Stateful
from softcard.core.space import Unit
from softcard.device.refsi import rules
from softcard.device.refsi.events import DmaTransfer, RegisterAccess
from softcard.device.refsi.interfaces import HART
from softcard.device.refsi.registers import (
    DMA,
    DMA_CTRL,
    DMA_DONESEQ,
    DMA_DSTADDR,
    DMA_SIZE,
    DMA_SRCADDR,
    DMA_STARTSEQ,
    DMA_XFERDSTSTRIDE,
    DMA_XFERSIZE,
    DMA_XFERSRCSTRIDE,
    NUM_DMA_REGISTERS,
    REGISTER_BYTES,
)
from softcard.device.refsi.spec.decode import Location
from softcard.device.refsi.spec.events import DMA_HAZARD, DmaHazard
from softcard.device.refsi.spec.transfer import Shape, Side, check_pieces, copy, rows_overlap, sides_meet
from softcard.device.refsi.spec.windows import unit_name
from softcard.engine.riscv.hooks import Extents, Outstanding, Tracker

LAST_ID: Final = (1 << 32) - 1
LATE: Final = "late"
IMMEDIATE: Final = "immediate"
TIMINGS: Final = (LATE, IMMEDIATE)
COMPARED: Final = 64
"""The number of outstanding transfers that a new transfer is compared with if no probe listens.

With a listener it is compared with all of them.
"""
MAX_OUTSTANDING: Final = 1024
"""The maximum number of outstanding transfers of one unit; one more completes the oldest (`refsi/dma-late`)."""


class Memory(Protocol):
    """The interface of the memory system that the DMA controller uses."""

    telemetry: Telemetry
    check_limits: Callable[[], None]
    """A function to call regularly while bytes are copied; it may raise an error that ends the copy."""

    def locate(self, address: int, size: int, unit: Unit, access: str) -> Location:
        """Return the location of these bytes for `unit`; raise `AccessFault` with the rule if it has none."""

    def protected(self, place: Location) -> bool:
        """Return True if `place` contains a byte that harts must not write."""

    def moved(self, unit: Unit, source: Side, target: Side) -> None:
        """Record the end of a copy from `source` to `target`."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """A DMA transfer that has been started. Its registers were checked and its addresses translated at the start."""

    unit: Unit
    id: int
    source: Side
    target: Side
    event: Callable[[int], DmaTransfer]


class Watch(Protocol):
    """An observer of the starts and ends of DMA transfers."""

    def started(self, transfer: Transfer) -> None:
        """Observe the start of a transfer."""

    def finished(self, transfer: Transfer) -> None:
        """Observe the end of a transfer, whose bytes have been copied."""


class Context(Stateful):
    """The DMA registers of one unit, and its outstanding transfers by ID, in the order of their starts."""

    __slots__ = STATE = ("done", "outstanding", "started", "unfinished", "values")

    def __init__(self) -> None:
        self.values = memoryview(bytearray(NUM_DMA_REGISTERS * REGISTER_BYTES)).cast("Q")
        self.started = 0
        self.done = 0
        self.outstanding: dict[int, Transfer] = {}
        self.unfinished: deque[int] = deque()

    def next_id(self) -> int:
        """Return the ID of the next transfer. The ID after the largest one is 1."""
        self.started = 1 if self.started == LAST_ID else self.started + 1
        self.unfinished.append(self.started)
        return self.started

    def finish(self, transfer: Transfer) -> None:
        """Record that `transfer` is complete.

        DONESEQ advances past a transfer only when all older transfers are complete as well."""
        del self.outstanding[transfer.id]
        while self.unfinished and self.unfinished[0] not in self.outstanding:
            self.done = self.unfinished.popleft()


class DmaController(Stateful):
    """The memory region of the DMA registers. Offsets are in bytes; an access must be 8 aligned bytes.

    The rule register-whole requires that."""

    STATE = ("_contexts",)
    size = DMA_SIZE

    def __init__(self, memory: Memory, timing: str = LATE) -> None:
        if timing not in TIMINGS:
            raise WireError(f"unknown DMA timing {timing!r}, expected one of {', '.join(TIMINGS)}")
        self.timing = timing
        self.watch: Watch | None = None
        self._memory = memory
        self._contexts: dict[Unit, Context] = {}

    def context(self, unit: Unit) -> Context:
        """Return the DMA registers of `unit`."""
        return self._contexts.setdefault(unit, Context())

    def host_address(self, offset: int, unit: Unit) -> int | None:
        """Return None: engines must not access DMA registers through a host address, as every access has an effect."""
        return None

    # ---- registers

    def read(self, offset: int, size: int, unit: Unit) -> bytes:
        """Read one register as `unit`."""
        index = self._index(offset, size, "read")
        context = self.context(unit)
        if index == DMA_STARTSEQ.offset:
            value = context.started
        elif index == DMA_DONESEQ.offset:
            if context.outstanding:
                self._perform_oldest(context)
            value = context.done
        else:
            value = context.values[index]
        self._memory.telemetry.emit(lambda time: RegisterAccess(time, unit, DMA.name, index, value, write=False))
        return value.to_bytes(REGISTER_BYTES, "little")

    def write(self, offset: int, data: bytes, unit: Unit) -> None:
        """Write one register as `unit`.

        A write to DMACTRL may start a transfer; a write to DMADONESEQ waits for transfers."""
        index = self._index(offset, len(data), "write")
        value = int.from_bytes(data, "little")
        context = self.context(unit)
        self._memory.telemetry.emit(lambda time: RegisterAccess(time, unit, DMA.name, index, value, write=True))
        if index == DMA_CTRL.offset:
            self._control(context, value, unit)
        elif index == DMA_DONESEQ.offset:
            self._wait(context, value)
        elif index != DMA_STARTSEQ.offset:
            context.values[index] = value

    # ---- transfers that the command processor executes by itself

    @property
    def is_late(self) -> bool:
        """True if transfers are performed only when a unit waits for them."""
        return self.timing == LATE

    @property
    def named(self) -> int:
        """A bit mask of the numbers of all DMA registers that exist: bit n is set if there is a register n."""
        return sum(1 << offset for _, register, offset in DMA.elements() if register is not None)

    def borrow_context(self, unit: Unit) -> Context | None:
        """Return the DMA registers of `unit`, which the kernel's translated code then reads and writes directly.

        Return None while probes listen to accesses or a transfer is outstanding."""
        if self._memory.telemetry.wants(RegisterAccess, DmaTransfer):
            return None
        if self.is_moving:
            return None
        return self.context(unit)

    def started(self, unit: Unit, number: int, addresses: tuple[int, int], sides: Sequence[Side]) -> None:
        """Record the start of the 1D transfer with ID `number` by `unit`. The transfer has already been checked.

        `addresses` are the device addresses of source and destination, `sides` their translated locations."""
        context, (source, target) = self.context(unit), sides
        size = source.shape.row_bytes

        def event(time: int) -> DmaTransfer:
            return DmaTransfer(time, unit, number, *addresses, (size,), (), ())

        context.unfinished.append(number)
        context.outstanding[number] = Transfer(unit, number, source, target, event)

    def outstanding(self) -> list[Transfer]:
        """Return the outstanding transfers of all units."""
        return [transfer for context in self._contexts.values() for transfer in context.outstanding.values()]

    @property
    def is_moving(self) -> bool:
        """True if a transfer of any unit is outstanding."""
        return any(context.outstanding for context in self._contexts.values())

    def flush(self) -> None:
        """Complete every outstanding transfer of every unit."""
        for context in list(self._contexts.values()):
            self._perform(context, list(context.outstanding.values())[::-1])

    def reset(self) -> None:
        """Clear all registers, and drop outstanding transfers."""
        self._contexts.clear()

    def _index(self, offset: int, size: int, access: str) -> int:
        if size != REGISTER_BYTES or offset % REGISTER_BYTES:
            raise AccessFault(
                f"{access} of {size} bytes at byte {offset:#x} of the DMA registers, "
                f"expected a whole register of {REGISTER_BYTES} bytes",
                address=offset,
                access=access,
                rule=rules.REGISTER_WHOLE,
            )
        index = offset // REGISTER_BYTES
        try:
            DMA.find(index, access[0])
        except WireError as error:
            raise AccessFault(
                f"{access} of DMA register {index}: {error.message}",
                address=offset,
                access=access,
                rule=rules.DMA_REGISTER,
            ) from None
        return index

    # ---- transfers

    def _control(self, context: Context, value: int, unit: Unit) -> None:
        reserved = DMA_CTRL.reserved_bits(value)
        if reserved:
            raise _refused(
                f"DMACTRL = {value:#x}: bits {reserved:#x} are reserved, expected 0", rules.DMA_CTRL_RESERVED
            )
        fields = DMA_CTRL.decode(value)
        if fields["START"]:
            self._start(context, fields, unit)
        context.values[DMA_CTRL.offset] = DMA_CTRL.after_write(0, value)

    def _start(self, context: Context, fields: dict[str, int], unit: Unit) -> None:
        dimension, by_source, by_target = fields["DIM"], fields["STRIDE_SRC"], fields["STRIDE_DST"]
        if not dimension:
            raise _refused("the dimension of the transfer is 0, expected 1, 2 or 3", rules.DMA_DIMENSION)
        if dimension == 1 and (by_source or by_target):
            raise _refused(
                "the dimension of the transfer is 1, expected 2 or 3 with STRIDE_SRC or STRIDE_DST", rules.DMA_STRIDE_1D
            )
        sizes = _array(context, DMA_XFERSIZE.offset, dimension)
        if not all(sizes):
            return
        shape = Shape(*sizes)
        source_address = context.values[DMA_SRCADDR.offset]
        target_address = context.values[DMA_DSTADDR.offset]
        source_strides = _strides(context, DMA_XFERSRCSTRIDE.offset, shape, dimension, by_source)
        target_strides = _strides(context, DMA_XFERDSTSTRIDE.offset, shape, dimension, by_target)
        source = self._side("source", source_address, shape, source_strides, unit)
        target = self._side("destination", target_address, shape, target_strides, unit)
        _check_bytes(source, target)
        number = context.next_id()

        def event(time: int) -> DmaTransfer:
            used = dimension - 1
            strides = source_strides[:used], target_strides[:used]
            return DmaTransfer(time, unit, number, source_address, target_address, sizes, *strides)

        transfer = Transfer(unit, number, source, target, event)
        if self._memory.telemetry.wants_lint(DMA_HAZARD, DmaHazard):
            self._report_hazards(transfer)
        if self.watch is not None:  # first, since the check may refuse the transfer, which is not outstanding then
            self.watch.started(transfer)
        context.outstanding[number] = transfer
        if self.timing == IMMEDIATE:
            self._perform(context, [transfer])
        elif len(context.outstanding) > MAX_OUTSTANDING:
            self._perform_oldest(context)

    def _side(self, name: str, address: int, shape: Shape, strides: tuple[int, int], unit: Unit) -> Side:
        """Return the source or the destination of a transfer, with translated addresses.

        `name` is "source" or "destination". Raise `AccessFault` unless all of its bytes lie in one memory, which
        `unit` may read (source) or write (destination)."""
        access, rule = ("read", rules.DMA_SOURCE) if name == "source" else ("write", rules.DMA_DESTINATION)
        extent = shape.extent(strides)
        try:
            place = self._memory.locate(address, extent, unit, access)
        except AccessFault as fault:
            fault.message = f"DMA {name}: {fault.message}"
            fault.rule = rule if fault.rule is rules.MEMORY_MAP else fault.rule
            raise
        if place.ram is None:
            raise AccessFault(
                f"DMA {name}: {address:#x} lies in {place.mapping.name}, which holds registers, expected memory",
                address=address,
                access=access,
                rule=rule,
            )
        check_pieces("a DMA transfer", place, shape.rows * shape.planes)
        if access == "write" and unit.kind == HART and self._memory.protected(place):
            raise AccessFault(
                f"DMA {name}: {unit_name(unit)} writes {extent} bytes at {address:#x} into the Kernel Uniform Block, "
                "which kernels must not write",
                address=address,
                access=access,
                rule=rules.KUB_READ_ONLY,
            )
        return Side(place, shape, strides)

    def _wait(self, context: Context, number: int) -> None:
        """Complete the transfers that a write of ID `number` to DMADONESEQ waits for, newest first."""
        everything = number > context.started
        due = [transfer for transfer in context.outstanding.values() if everything or transfer.id <= number]
        self._perform(context, due[::-1])

    def _perform_oldest(self, context: Context) -> None:
        self._perform(context, [next(iter(context.outstanding.values()))])

    def _perform(self, context: Context, transfers: Iterable[Transfer]) -> None:
        for transfer in transfers:
            try:
                copy(transfer.source, transfer.target, self._memory.check_limits)
            except GuestFault as fault:
                self._drop()
                raise fault.at("DMA transfer", transfer.id) from None
            except BaseException:
                self._drop()
                raise
            context.finish(transfer)
            if self.watch is not None:
                self.watch.finished(transfer)
            self._memory.moved(transfer.unit, transfer.source, transfer.target)
            self._memory.telemetry.emit(transfer.event)

    def _drop(self) -> None:
        """Drop all outstanding transfers, after an error or an interrupt has ended a transfer."""
        for context in self._contexts.values():
            context.outstanding.clear()
            context.unfinished.clear()

    def _report_hazards(self, new: Transfer) -> None:
        """Report outstanding transfers of any unit that share bytes with `new`."""
        pending = [transfer for context in self._contexts.values() for transfer in context.outstanding.values()]
        if not self._memory.telemetry.wants(DmaHazard):
            pending = pending[-COMPARED:]
        for old in pending:
            pairs = (
                ("read-after-write", old.target, new.source),
                ("write-after-read", old.source, new.target),
                ("write-after-write", old.target, new.target),
            )
            for kind, before, after in pairs:
                if sides_meet(before, after):
                    telemetry = self._memory.telemetry
                    hazard = DmaHazard(telemetry.clock(), new.unit, new.id, old.unit, old.id, kind)
                    telemetry.report(hazard, Lint(hazard.time, DMA_HAZARD, str(hazard), rules.DMA_ASYNC))


def _array(context: Context, first: int, count: int) -> tuple[int, ...]:
    return tuple(context.values[first : first + count])


def _strides(context: Context, first: int, shape: Shape, dimension: int, used: int) -> tuple[int, int]:
    """Return the two strides of the source or the destination in bytes: from row to row, and to the next plane.

    If `used`, the first `dimension` - 1 strides are the values of the registers from number `first` on. All
    others are the strides of densely packed rows and planes."""
    sequential = shape.row_bytes, shape.row_bytes * shape.rows
    if not used:
        return sequential
    given = _array(context, first, dimension - 1)
    return (given[0], given[1]) if dimension == 3 else (given[0], sequential[1])


def _check_bytes(source: Side, target: Side) -> None:
    """Raise an error if the transfer writes a byte twice, or writes a byte that it also reads."""
    if rows_overlap(target.shape, target.strides):
        rows, planes = target.strides
        raise _refused(
            f"the destination rows of {target.shape.row_bytes} bytes overlap each other: the stride is {rows:#x} to "
            f"the next row and {planes:#x} to the next slice",
            rules.DMA_ROWS,
        )
    meet = sides_meet(source, target)
    if meet is None:
        raise BeyondModel(
            "a DMA transfer with interleaved source and destination is modelled only with at most 2^20 rows"
        )
    if meet:
        (first, end), (target_first, target_end) = source.span, target.span
        raise _refused(
            f"the source {first:#x}..{end:#x} and the destination {target_first:#x}..{target_end:#x} overlap",
            rules.DMA_OVERLAP,
        )


def _refused(message: str, rule: Rule) -> AccessFault:
    return AccessFault(f"DMA: {message}", address=DMA_CTRL.offset * REGISTER_BYTES, access="write", rule=rule)


# ---- the order of transfers ------------------------------------------------------------------------------------------


class TransferOrder:
    """The observer that reports a device's DMA transfers to a tracker of the order of accesses."""

    def __init__(self, tracker: Tracker, dma: DmaController) -> None:
        self._tracker = tracker
        self._dma = dma

    def started(self, transfer: Transfer) -> None:
        """Report the start of a transfer."""
        self._tracker.started(_hart(transfer), *_described(transfer))

    def finished(self, transfer: Transfer) -> None:
        """Report the end of a transfer, whose bytes have been copied."""
        self._tracker.finished(_hart(transfer), _key(transfer))

    def outstanding(self) -> list[Outstanding]:
        """Return the transfers that have started but whose bytes have not been copied yet."""
        return [_described(transfer) for transfer in self._dma.outstanding()]


def _hart(transfer: Transfer) -> int | None:
    return transfer.unit.index if transfer.unit.kind == HART else None


def _key(transfer: Transfer) -> tuple[int, int, int]:
    return transfer.unit.kind, transfer.unit.index, transfer.id


def _described(transfer: Transfer) -> Outstanding:
    source, target = transfer.source, transfer.target
    unit = f"transfer {transfer.id} of {unit_name(transfer.unit)}"
    return _key(transfer), unit, _extents(source), _extents(target), source.place.physical, target.place.physical


def _extents(side: Side) -> Extents:
    ram = side.memory
    base = ram.base_host - side.place.mapping.base
    return [(base + at, base + at + size) for row in side.rows() for at, size in row.runs()]
