"""The reference driver's DMA controller: a set of registers for each unit.

A transfer is performed at once when it is started. The RefSi M1 specification does not describe this
controller; see the choices `refsi/dma-*` for profile refsidrv."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from softcard.core.device import Telemetry
from softcard.core.errors import BeyondModel
from softcard.core.limits import PIECE, pieces
from softcard.core.snapshot import Stateful
from softcard.core.space import Ram, Unit
from softcard.device.refsi.events import DmaTransfer, RegisterAccess
from softcard.device.refsi.refsidrv.devices import ReferenceCrash, Span
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

CTRL: Final = DMA_CTRL.offset
STARTSEQ: Final = DMA_STARTSEQ.offset
DONESEQ: Final = DMA_DONESEQ.offset
ID_MASK: Final = 0xFFFF_FFFF
OVERRUN: Final = 4 << 20
"""The bytes past the end of a memory that the reference driver's process has mapped (`refsi/dma-overrun`)."""

MAX_ROWS: Final = 1 << 20
MAX_BYTES: Final = 1 << 32
"""The maximum total size of overlapping rows, in bytes, that a transfer may have.

`MAX_ROWS` limits their number. Such rows are moved one by one, as their order matters. Larger transfers raise
`BeyondModel`.
"""

Locate = Callable[[int, Unit], Span | None]


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes and strides of a transfer, by dimension; strides are in bytes.

    `sizes` has the bytes of a row, then the counts of the second and third dimension. `source` and `target` have the
    strides of these two dimensions.
    """

    sizes: tuple[int, ...]
    source: tuple[int, ...]
    target: tuple[int, ...]

    @property
    def rows(self) -> int:
        """The number of rows per plane."""
        return self.sizes[1] if len(self.sizes) > 1 else 1

    @property
    def planes(self) -> int:
        """The number of planes."""
        return self.sizes[2] if len(self.sizes) > 2 else 1

    def end(self, strides: tuple[int, ...]) -> int:
        """Return the offset after the last byte that source or destination access with these strides."""
        last = self.sizes[0]
        for count, stride in zip(self.sizes[1:], strides, strict=True):
            last += (count - 1) * stride
        return last


class DmaDevice(Stateful):
    """The DMA device: 32 registers of 8 bytes for each unit. `locate` finds the memory at an address.

    `check_limits` is called regularly while bytes are moved, and may raise an error that ends the transfer.
    """

    STATE = ("files",)
    size: int = DMA_SIZE

    def __init__(self, locate: Locate, telemetry: Telemetry, check_limits: Callable[[], None]) -> None:
        self._locate = locate
        self._check_limits = check_limits
        self._telemetry = telemetry
        self.files: dict[Unit, list[int]] = {}

    def registers(self, unit: Unit) -> list[int]:
        """Return the 32 registers that `unit` sees."""
        return self.files.setdefault(unit, [0] * NUM_DMA_REGISTERS)

    def span(self, offset: int, size: int, unit: Unit) -> Span | None:
        """Return None, as DMA registers are not memory."""
        return None

    def slow_span(self, offset: int, size: int, unit: Unit) -> Span | None:
        """Return None, as DMA registers are not memory."""
        return None

    def load(self, offset: int, size: int, unit: Unit) -> bytes | None:
        """Read 8 bytes, or the low 4 bytes, of the register that contains `offset`; return None for other sizes."""
        if size not in (4, 8) or not 0 <= offset < self.size:
            return None
        index = offset // REGISTER_BYTES
        value = self.registers(unit)[index]
        self._telemetry.emit(lambda time: RegisterAccess(time, unit, DMA.name, index, value, write=False))
        return value.to_bytes(REGISTER_BYTES, "little")[:size]

    def store(self, offset: int, data: bytes, unit: Unit) -> bool:
        """Write 8 bytes to the register that contains `offset`; return False if the access is refused.

        The access is also refused if the transfer or the wait that it starts is refused."""
        if len(data) != REGISTER_BYTES or not 0 <= offset < self.size:
            return False
        index, value = offset // REGISTER_BYTES, int.from_bytes(data, "little")
        self._telemetry.emit(lambda time: RegisterAccess(time, unit, DMA.name, index, value, write=True))
        registers = self.registers(unit)
        if index == DONESEQ:
            return registers[DONESEQ] & ID_MASK >= value & ID_MASK
        if index == STARTSEQ:
            return True
        registers[index] = DMA_CTRL.as_read(value) if index == CTRL else value
        if index == CTRL and DMA_CTRL.get(value, "START"):
            return self._start(registers, unit)
        return True

    def _start(self, registers: list[int], unit: Unit) -> bool:
        source = self._locate(registers[DMA_SRCADDR.offset], unit)
        target = self._locate(registers[DMA_DSTADDR.offset], unit) if source is not None else None
        dimension = DMA_CTRL.get(registers[CTRL], "DIM")
        if source is None or target is None or not dimension:
            return False
        sizes = tuple(registers[DMA_XFERSIZE.offset : DMA_XFERSIZE.offset + dimension])
        if 0 in sizes:
            return True
        shape = _shape(registers, sizes)
        if shape is None:
            return False
        number = (registers[STARTSEQ] + 1) & ID_MASK
        registers[STARTSEQ] = number
        self._telemetry.emit(
            lambda time: DmaTransfer(
                time,
                unit,
                number,
                registers[DMA_SRCADDR.offset],
                registers[DMA_DSTADDR.offset],
                shape.sizes,
                shape.source,
                shape.target,
            )
        )
        _copy(source, target, shape, self._check_limits)
        registers[DONESEQ] = number
        return True


def _shape(registers: list[int], sizes: tuple[int, ...]) -> Shape | None:
    """Return the shape of the transfer that the registers describe; None if the driver refuses the transfer.

    `sizes` has the bytes of a row, then the counts of the second and third dimension."""
    used = DMA_CTRL.decode(registers[CTRL])
    if len(sizes) == 1:
        return None if used["STRIDE_SRC"] or used["STRIDE_DST"] else Shape(sizes, (), ())
    sides: list[tuple[int, ...]] = []
    for name, first, broadcast in (
        ("STRIDE_SRC", DMA_XFERSRCSTRIDE.offset, len(sizes) == 2),
        ("STRIDE_DST", DMA_XFERDSTSTRIDE.offset, False),
    ):
        # Without strides rows are contiguous, and planes are SIZE1 bytes apart (choice refsi/dma-plane-stride).
        strides = sizes[:-1]
        if used[name]:
            strides = tuple(registers[first : first + len(sizes) - 1])
            too_small = any(stride < size for stride, size in zip(strides, sizes, strict=False))
            if too_small and not (broadcast and strides == (0,)):
                return None
        sides.append(strides)
    return Shape(sizes, *sides)


def _copy(source: Span, target: Span, shape: Shape, check_limits: Callable[[], None]) -> None:
    """Copy the rows of a transfer; each row is read as a whole before it is written (choice refsi/dma-overlap).

    If rows overlap, they are copied one after another. `check_limits` is called regularly."""
    for (ram, start), strides, what in ((source, shape.source, "read"), (target, shape.target, "write")):
        over = start + shape.end(strides) - ram.size
        if over > OVERRUN:
            raise ReferenceCrash(f"a DMA transfer would {what} {over:#x} bytes past the end of a memory")
    if _copy_at_once(source, target, shape, check_limits):
        return
    length, count = shape.sizes[0], shape.rows * shape.planes
    if count > 1 and (count > MAX_ROWS or count * length > MAX_BYTES):
        raise BeyondModel(
            f"a DMA transfer of {count} overlapping rows of {length:#x} bytes is too large to be modelled"
        )
    for plane in range(shape.planes):
        for row in range(shape.rows):
            skips = _offset(shape.source, plane, row), _offset(shape.target, plane, row)
            _move(source, skips[0], target, skips[1], length, check_limits)


def _offset(strides: tuple[int, ...], plane: int, row: int) -> int:
    return sum(index * stride for index, stride in zip((row, plane), strides, strict=False))


def _move(
    source: Span, source_skip: int, target: Span, target_skip: int, length: int, check_limits: Callable[[], None]
) -> None:
    """Copy one row of `length` bytes.

    The row begins `source_skip` bytes after the start of `source`, and is copied to `target_skip` bytes after the
    start of `target`. Bytes past the end of a memory read as zeros and are not written (choice
    refsi/dma-overrun)."""
    (from_ram, from_start), (to_ram, to_start) = source, target
    first, into = from_start + source_skip, to_start + target_skip
    room = max(min(length, to_ram.size - into), 0)
    there = min(room, max(from_ram.size - first, 0))
    parts = range(0, there, PIECE)
    for skip in parts if into <= first else reversed(parts):  # no part is overwritten before it is read
        check_limits()
        size = min(PIECE, there - skip)
        to_ram.view[into + skip : into + skip + size] = bytes(from_ram.view[first + skip : first + skip + size])
    to_ram.view[into + there : into + room] = bytes(room - there)


def _copy_at_once(source: Span, target: Span, shape: Shape, check_limits: Callable[[], None]) -> bool:
    """Copy all rows by strided assignments; return True.

    Return False, without effect, for a single row, or if the ranges overlap or exceed a memory."""
    if shape.rows * shape.planes == 1:
        return False
    spans = [
        (ram, start, start + shape.end(strides))
        for (ram, start), strides in ((source, shape.source), (target, shape.target))
    ]
    (from_ram, from_start, from_end), (to_ram, to_start, to_end) = spans
    meets = from_ram is to_ram and from_start < to_end and to_start < from_end
    if meets or from_end > from_ram.size or to_end > to_ram.size or _repeats(shape):
        return False
    into, out_of = (
        _strided(to_ram, to_start, shape, shape.target),
        _strided(from_ram, from_start, shape, shape.source),
    )
    for piece in pieces(into.shape):
        check_limits()
        into[piece] = out_of[piece]
    return True


def _repeats(shape: Shape) -> bool:
    """Return True if planes of the destination overlap, so that the order of rows matters."""
    return shape.planes > 1 and shape.target[1] < shape.target[0] * shape.rows


def _strided(
    ram: Ram, start: int, shape: Shape, strides: tuple[int, ...]
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    flat = np.frombuffer(ram.view, dtype=np.uint8)[start:]
    counts = tuple(reversed(shape.sizes))
    # The stride of a single row or plane is never used and may be any number.
    steps = (stride if count > 1 else 0 for stride, count in zip(strides, shape.sizes[1:], strict=True))
    return np.lib.stride_tricks.as_strided(flat, counts, (*reversed(tuple(steps)), 1))
