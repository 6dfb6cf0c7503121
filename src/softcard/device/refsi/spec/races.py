"""The reports of DMA transfers to the race check."""

from __future__ import annotations

from softcard.device.refsi.interfaces import HART
from softcard.device.refsi.spec.dma import DmaController, Transfer
from softcard.device.refsi.spec.transfer import Side
from softcard.device.refsi.spec.windows import unit_name
from softcard.engine.riscv.races.watch import Outstanding, Races


class TransferRaces:
    """The observer that reports a device's DMA transfers to the race check."""

    def __init__(self, races: Races, dma: DmaController) -> None:
        self._races = races
        self._dma = dma

    def started(self, transfer: Transfer) -> None:
        """Report the start of a transfer."""
        self._races.started(_hart(transfer), *_described(transfer))

    def finished(self, transfer: Transfer) -> None:
        """Report the end of a transfer, whose bytes have been copied."""
        self._races.finished(_hart(transfer), _key(transfer))

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


def _extents(side: Side) -> list[tuple[int, int]]:
    ram = side.memory
    base = ram.base_host - side.place.mapping.base
    return [(base + at, base + at + size) for row in side.rows() for at, size in row.runs()]
