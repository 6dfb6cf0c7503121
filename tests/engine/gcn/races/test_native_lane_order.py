"""The compiled rule of the check of lanes against the rule on a dictionary of bytes, for random accesses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from softcard.core.errors import BeyondModel
from softcard.engine.gcn.races import lane_order, native_lane_order
from softcard.engine.gcn.races.lane_order import WaveCells
from softcard.engine.gcn.races.layout import (
    ATOMIC,
    GLOBAL,
    LDS,
    LINE_LANES,
    LOAD,
    SIZE_AT,
    SPACE_AT,
    STORE,
    STORED,
    UPDATED,
)
from softcard.engine.gcn.races.native_lane_order import COHERENT_LOAD, LANE_AT, LANE_MASK, PC_AT, USED
from softcard.ir.native import Natives

KINDS = {STORED: STORE, UPDATED: ATOMIC}
CHUNKS = Natives(native_lane_order.check_chunk)
Conflict = tuple[int, int, int, int, int]
"""A lane, its address, and the kind, the pc and the lane of the other access."""


class Byte:
    """A model of the shadow cell of a byte. An access is a pair of a pc and a lane."""

    def __init__(self) -> None:
        self.stored: tuple[int, int, int] | None = None
        """The pc, the lane and the value."""
        self.updated: tuple[int, int] | None = None
        self.loads: dict[int, tuple[int, bool]] = {}
        """For each lane its load with the highest pc, and whether that load is coherent."""

    def kept(self) -> list[tuple[int, int, bool]]:
        """The loads that a cell keeps: the pc, the lane, and whether the load is coherent."""
        loads = sorted(((pc, lane, coherent) for lane, (pc, coherent) in self.loads.items()), reverse=True)
        return loads[:2]


class Model:
    """The rule, on bytes. A dword that is only accessed as a whole is one unit: its values are compared as a whole."""

    def __init__(self, equal_stores: bool) -> None:
        self.equal_stores = equal_stores
        self.bytes: dict[tuple[int, int], Byte] = defaultdict(Byte)
        self.split: set[tuple[int, int]] = set()
        """The dwords whose bytes were accessed one by one."""

    def access(
        self, kind: int, coherent: bool, space: int, size: int, pc: int, places: list[tuple[int, int, bytes]]
    ) -> set[Conflict]:
        """Check accesses by lanes, and record them. Each place is a lane, its address, and the bytes that it stores."""
        found = set()
        for lane, address, data in places:
            for unit in self._units(space, address, size):
                some = [self.bytes[space, at] for at in unit]
                values = [data[at - address] if data else 0 for at in unit]
                other = self._other(some, kind, coherent, lane, values)
                if other is not None:
                    found.add((lane, address, *other))
                for byte, value in zip(some, values, strict=True):
                    if kind == STORE:
                        byte.stored = pc, lane, value
                    elif kind == ATOMIC:
                        byte.updated = pc, lane
                    else:
                        byte.loads[lane] = max(byte.loads.get(lane, (0, False)), (pc, coherent))
                        byte.loads = {lane: (pc, coherent) for pc, lane, coherent in byte.kept()}
        return found

    def _units(self, space: int, address: int, size: int) -> Iterator[range]:
        at = address
        while at < address + size:
            dword = space, at & -4
            if at % 4 or at + 4 > address + size:
                self.split.add(dword)
            width = 1 if dword in self.split else 4
            yield range(at, at + width)
            at += width

    def _other(
        self, some: list[Byte], kind: int, coherent: bool, lane: int, values: list[int]
    ) -> tuple[int, int, int] | None:
        byte = some[0]
        if byte.stored is not None and byte.stored[1] != lane:
            before = [each.stored[2] for each in some if each.stored is not None]
            if kind != STORE or self.equal_stores or values != before:
                return STORE, *byte.stored[:2]
        if byte.updated is not None and byte.updated[1] != lane and (kind == STORE or (kind == LOAD and not coherent)):
            return ATOMIC, *byte.updated
        for pc, other, is_coherent in byte.kept() if kind != LOAD else ():
            if other != lane and not (kind == ATOMIC and is_coherent):
                return LOAD, pc, other
        return None


def shapes(rng: np.random.Generator, size: int, lanes: int) -> np.ndarray:
    """Addresses of lanes, near each other."""
    numbers = np.arange(lanes, dtype=np.uint64)
    start = np.uint64(0x7000_0000 + int(rng.integers(16)) * int(rng.choice([1, 4, 64, 64])))
    ways: list[Callable[[], np.ndarray]] = [
        lambda: start + numbers * np.uint64(size),
        lambda: start + numbers * np.uint64(4),
        lambda: start + numbers * np.uint64(64),
        lambda: np.full(lanes, start, np.uint64),
        lambda: start + rng.permutation(numbers) * np.uint64(size),
        lambda: start + rng.integers(0, 64, lanes).astype(np.uint64),
        lambda: start + numbers * np.uint64(1 << 20),
    ]
    return ways[int(rng.integers(len(ways)))]()


@pytest.mark.parametrize("lanes", sorted({4, LINE_LANES, 64}))
@pytest.mark.parametrize("seed", range(6))
def test_random_accesses(lanes: int, seed: int) -> None:
    """Python's accesses report the conflicts of the model; a lane vector is left if it has one."""
    rng = np.random.default_rng([40, seed, lanes])
    equal_stores, conflicts, fine = bool(rng.random() < 0.3), 0, 0
    cells = WaveCells(equal_stores=equal_stores)
    for _ in range(60):
        cells.forget()
        model = Model(equal_stores)
        for _ in range(int(rng.integers(1, 8))):
            kind = int(rng.choice([LOAD, LOAD, STORE, STORE, ATOMIC]))
            size = int(rng.choice([1, 2, 4, 4, 4, 8, 12, 16]))
            coherent = kind == LOAD and bool(rng.random() < 0.2)
            pc, space = 4 * int(rng.integers(1, 1 << 20)), int(rng.choice([GLOBAL, GLOBAL, LDS]))
            first = int(rng.integers(0, 64 // lanes)) * lanes
            at = np.ascontiguousarray(shapes(rng, size, lanes))
            values = rng.integers(0, 2, (4, lanes)).astype(np.uint32)
            mask = (1 << lanes) - 1
            if rng.random() < 0.4:
                mask &= int(rng.integers(0, 1 << 62))
            what = kind | space << SPACE_AT | size << SIZE_AT
            record = pc >> 2 << PC_AT | first << LANE_AT | COHERENT_LOAD * coherent | USED
            data = [values[:, n].tobytes()[:size] if kind == STORE else b"" for n in range(lanes)]
            places = [(first + n, int(at[n]), data[n]) for n in range(lanes) if mask >> n & 1]
            expected = model.access(kind, coherent, space, size, pc, places)
            given = cells.address, what, record, at.ctypes.data, values.ctypes.data, lanes, mask
            is_vector = kind != ATOMIC and not coherent and rng.random() < 0.7
            if is_vector:
                left = CHUNKS.function("check_chunk")(*given)
                assert left == bool(expected)
            if not is_vector or left:  # the reference engine repeats the access
                lane_order.function("check_lanes")(*given, 1)
            found = {
                (lane, address, KINDS.get(row, LOAD), other >> PC_AT << 2, other >> LANE_AT & LANE_MASK)
                for lane, address, other, row in cells.conflicts().tolist()
            }
            assert found == expected
            conflicts, fine = conflicts + bool(expected), fine + (not expected)
    assert conflicts > 20
    assert fine > 20


def test_memory_for_cells_has_a_limit() -> None:
    cells = WaveCells(equal_stores=False)
    cells.table.end = cells.table.start + 10 * native_lane_order.BLOCK_BYTES
    at, values = np.arange(0, 64 * 64, 64, dtype=np.uint64), np.zeros(64, np.uint32)
    what = LOAD | 4 << SIZE_AT
    lane_order.function("check_lanes")(cells.address, what, USED, at.ctypes.data, values.ctypes.data, 64, 0x3FF, 1)
    assert cells.conflicts().tolist() == []
    lane_order.function("check_lanes")(cells.address, what, USED, at.ctypes.data, values.ctypes.data, 64, 0x7FF, 1)
    with pytest.raises(BeyondModel, match="check 'lanes' supports waves that access up to 64 MiB between barriers"):
        cells.conflicts()
    cells.forget()
    assert cells.conflicts().tolist() == []
