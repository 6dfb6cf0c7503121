"""DMA transfers as the check of races sees them."""

from __future__ import annotations

from understudy.device.refsi.interfaces import HART
from understudy.device.refsi.spec.dma import DmaController, Transfer
from understudy.device.refsi.spec.transfer import Side
from understudy.device.refsi.spec.windows import unit_name
from understudy.engine.riscv.races.watch import Outstanding, Races


class TransferRaces:
    """Tells what looks for races of the transfers of a device."""

    def __init__(self, races: Races, dma: DmaController) -> None:
        self._races = races
        self._dma = dma

    def started(self, transfer: Transfer) -> None:
        """One is under way."""
        self._races.started(_hart(transfer), *_described(transfer))

    def finished(self, transfer: Transfer) -> None:
        """It was waited for."""
        self._races.finished(_hart(transfer), _key(transfer))

    def outstanding(self) -> list[Outstanding]:
        """Those that nobody has waited for."""
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
