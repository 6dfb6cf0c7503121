"""NumPy arrays as device memory: which array lies at which device address."""

from __future__ import annotations

import operator
import threading
from bisect import bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from understudy.core.errors import BeyondModel, RuleError, WireError
from understudy.core.host_address import host_address
from understudy.core.space import PAGE_SIZE, Ram
from understudy.core.words import align_up
from understudy.device.hsa.device import HsaDevice
from understudy.host.hsa.arguments import Placed, Resource

if TYPE_CHECKING:
    from understudy.engine.gcn.marks.check import MarkCheck

KEPT: Final = 64
"""Types of arrays that are known to be shareable."""
_start: Final = operator.attrgetter("start")


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Bytes of this process from `start` on: device memory at `address`, as long as `mapping` is what lies there."""

    start: int
    size: int
    address: int
    data: NDArray[np.uint8]
    mapping: object


class Arrays:
    """The arrays of one device.

    Those that `empty` makes are whole pages of device memory; with `exact` the first byte behind one is a fault. An
    array that was made elsewhere is mapped as it is, without a copy, and ends with its last byte.
    """

    def __init__(self, device: HsaDevice, exact: bool = False) -> None:
        self._device = device
        self.exact = exact
        self._lock = threading.RLock()
        self._blocks: list[Block] = []
        """By host address, ascending."""
        self._gone: dict[int, int] = {}
        """For checks: device addresses of arrays that were given back, by host address."""

    @property
    def marks(self) -> MarkCheck | None:
        """What tells of values that were never computed, if that is asked for."""
        return self._device.marks

    # ---- making and sharing --------------------------------------------------------------------------------------

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """A new array in device memory, zero at first."""
        kind = checked_dtype(np.dtype(dtype))
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        if any(size < 0 for size in sizes):
            raise WireError(f"an array of shape {sizes}, expected sizes of 0 or more")
        count = int(np.prod(sizes, dtype=object))
        size = max(count * kind.itemsize, 1)
        try:
            ram = Ram(size if self.exact and not self._device.settings.checks else align_up(size, PAGE_SIZE))
        except (MemoryError, OverflowError, OSError, ValueError) as error:
            raise BeyondModel(f"an array of {size} bytes: {error}") from None
        data = np.frombuffer(ram.view, np.uint8)
        address = self._device.map(ram, name=_name(kind, sizes), used=size)
        self._enter(data, ram.size, address)
        return data[: count * kind.itemsize].view(kind).reshape(sizes)

    def copy(self, values: ArrayLike, dtype: DTypeLike | None) -> NDArray[Any]:
        """A copy of values in device memory."""
        source = np.asarray(values, dtype)
        made = self.empty(source.shape, source.dtype)
        made[...] = source
        return made

    def share(self, array: NDArray[Any]) -> int:
        """Make an array that was made elsewhere device memory until `free`; its address."""
        known = self.find(array)
        if known is not None:
            return known
        return self.enter(array).address

    def enter(self, array: NDArray[Any]) -> Block:
        """Likewise, one that is not device memory yet."""
        flat = _flat(array)
        address = self._device.map(flat, flat.flags.writeable, _name(array.dtype, array.shape))
        return self._enter(flat, flat.nbytes, address)

    def free(self, array: NDArray[Any]) -> None:
        """Give an array's device memory back, or no longer share it; `RuleError` for one that has none.

        The array itself stays what it is for those who hold it, but kernels must not be given it any more.
        """
        with self._lock:
            block = self._holder(host_address(array), array.nbytes)
        if block is None or block.start != host_address(array):
            self._not_freed(array)
            raise RuleError("the array does not begin an array of the device, expected one that gpu.array() made")
        self.drop(block)

    def _not_freed(self, array: NDArray[Any]) -> None:
        """A check is told of an array that is given back though it is not the device's."""
        guard = self._device.memory.guard
        if guard is not None:
            guard.not_freed(self._gone.get(host_address(array), self.find(array) or 0))

    def drop(self, block: Block) -> None:
        """Give a block back, where the device has not gone back to before it."""
        with self._lock:
            if block in self._blocks:
                self._blocks.remove(block)
            if self._device.memory.guard is not None:
                self._gone[block.start] = block.address
        if self._is_mapped(block):
            self._device.unmap(block.address)

    @property
    def level(self) -> int:
        """Generation of the device."""
        return self._device.agent.target.level

    def block(self, array: NDArray[Any]) -> Block:
        """The block of an array that is device memory."""
        found = self._holder(host_address(array), array.nbytes)
        assert found is not None
        return found

    # ---- finding -------------------------------------------------------------------------------------------------

    def address(self, array: NDArray[Any] | Placed) -> int:
        """Device address of an array, or of a part of one, that is device memory; `RuleError` where it is none."""
        if isinstance(array, Placed):
            raise RuleError("an image or sampler is in device memory for a launch only, expected the address of one")
        found = self.find(array)
        if found is None:
            raise RuleError("the array is not device memory, expected one of gpu.array() or after gpu.share()")
        return found

    def find(self, array: NDArray[Any]) -> int | None:
        """Device address of an array; None where it is not device memory."""
        checked_dtype(array.dtype)
        flags, size = array.flags, array.nbytes
        if not (flags.c_contiguous or flags.f_contiguous):
            raise WireError("the array has gaps between its elements, expected a contiguous one")
        if not size:
            return 0  # the null pointer: there is nothing to point to
        start = host_address(array)
        with self._lock:
            block = self._holder(start, size)
        return None if block is None else block.address + start - block.start

    def _holder(self, start: int, size: int) -> Block | None:
        """The block that holds `size` bytes from `start` on. Forgets those that the device went back to before."""
        index, near = bisect_right(self._blocks, start, key=_start), None
        while index and (near is None or self._blocks[index - 1].start == near.start):
            index -= 1
            block = self._blocks[index]
            if self._device.block(block.address) is not block.mapping:
                del self._blocks[index]
            elif start + size <= block.start + block.size:
                return block
            else:
                near = block
        return None

    def _enter(self, data: NDArray[np.uint8], size: int, address: int) -> Block:
        with self._lock:
            block = Block(host_address(data), size, address, data, self._device.block(address))
            insort(self._blocks, block, key=_start)
            return block

    def _is_mapped(self, block: Block) -> bool:
        """Whether a block is device memory still: not where the device went back to before it was."""
        return self._device.block(block.address) is block.mapping

    # ---- snapshots -----------------------------------------------------------------------------------------------

    def snapshot(self) -> tuple[Block, ...]:
        """All arrays, for `restore`."""
        with self._lock:
            return tuple(self._blocks)

    def restore(self, blocks: tuple[Block, ...]) -> None:
        """Go back to the arrays of a `snapshot`, on a device that has gone back likewise."""
        with self._lock:
            self._blocks = list(blocks)


class Borrowed:
    """Addresses of arrays for the time of a launch: those that nobody shared are mapped until `release`.

    Images and samplers are copied into device memory; what kernels wrote comes back then.
    """

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays
        self._mapped: list[Block] = []
        self._placed: dict[tuple[int, str], tuple[Resource, int]] = {}
        self._back: list[Callable[[], None]] = []
        self._given: list[tuple[int, NDArray[Any]]] = []
        """For checks: arrays and their addresses."""
        self.bytes = 0
        """Of all arrays that were asked for."""

    def address(self, array: NDArray[Any] | Placed) -> int:
        """Device address of an array, which is mapped where it is not device memory yet, or of a resource's object."""
        if isinstance(array, Placed):
            return self._place(array.resource, array.type_name)
        self.bytes += array.nbytes
        found = self._arrays.find(array)
        if found is None:
            block = self._arrays.enter(array)
            self._mapped.append(block)
            found = block.address
        if self._arrays.marks is not None and array.nbytes:
            self._arrays.marks.marking.written(found, array.nbytes)  # by whomever: the host's program could
            self._given.append((found, array))
        return found

    def read_back(self) -> None:
        """The host gets its arrays back: checks look at what is in them."""
        for address, array in self._given:
            assert self._arrays.marks is not None
            self._arrays.marks.read_back(address, array, _name(array.dtype, array.shape))

    def _place(self, resource: Resource, type_name: str) -> int:
        """Each resource is placed once for arguments of a type."""
        known = self._placed.get((id(resource), type_name))
        if known is None:
            address, back = resource.place(type_name, self._arrays.level, self._allocate)
            known = self._placed[id(resource), type_name] = resource, address
            if back is not None:
                self._back.append(back)
        return known[1]

    def _allocate(self, size: int) -> tuple[int, NDArray[Any]]:
        made = self._arrays.empty(size, np.uint8)
        self._mapped.append(self._arrays.block(made))
        self.bytes += size
        return self._arrays.address(made), made

    def release(self) -> None:
        """Map them no longer."""
        for bring in self._back:
            bring()
        self._back = []
        for block in self._mapped:
            self._arrays.drop(block)
        self._mapped = []


@lru_cache(KEPT)
def checked_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """`dtype` if a device can share it: little-endian, of fixed size, without Python objects."""
    if dtype.hasobject or dtype.itemsize == 0 or dtype != dtype.newbyteorder("<"):
        raise WireError(f"an array of {dtype} cannot be device memory, expected little-endian elements of fixed size")
    return dtype


@lru_cache(KEPT)
def _name(dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    """What faults call an array."""
    return f"array {dtype}{list(shape)}"


def _flat(array: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of a contiguous array in the order of memory, shared."""
    ordered = array if array.flags.c_contiguous else array.T
    return ordered.reshape(-1).view(np.uint8)
