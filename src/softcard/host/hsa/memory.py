"""NumPy arrays as device memory: the device address of each array."""

from __future__ import annotations

import operator
import threading
from bisect import bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from softcard.core.errors import BeyondModel, RuleError, WireError
from softcard.core.space import PAGE_SIZE, Ram, host_address
from softcard.core.words import align_up
from softcard.device.hsa.device import HsaDevice
from softcard.host.hsa.arguments import Placed, Resource

if TYPE_CHECKING:
    from softcard.engine.gcn.hooks import Checks

MOST_TYPES: Final = 64
"""The largest number of array types that are cached as shareable."""
_start: Final = operator.attrgetter("start")


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A block of this process's memory, from host address `start` on, that is device memory at `address`.

    The block stays device memory as long as `mapping` is mapped at that address.
    """

    start: int
    size: int
    address: int
    data: NDArray[np.uint8]
    mapping: object


DWORD: Final = 4


class Arrays:
    """The arrays of one device, and their device addresses.

    Arrays made by `empty` are whole pages of device memory. An existing array is mapped without a copy, up to the end
    of the dword that contains its last byte, since 16-bit atomics access that dword. With `exact`, the first byte past
    the end of an array faults in both cases.
    """

    def __init__(self, device: HsaDevice, exact: bool = False) -> None:
        self._device = device
        self.exact = exact
        self._lock = threading.RLock()
        self._blocks: list[Block] = []
        """The blocks of device memory, by ascending host address."""
        self._freed: dict[int, int] = {}
        """The device addresses of freed arrays by host address, for checks."""

    @property
    def checks(self) -> Checks:
        """The checks of the device."""
        return self._device.checks

    # ---- making and sharing --------------------------------------------------------------------------------------

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[np.generic]:
        """Return a new array of zeros in device memory."""
        kind = checked_dtype(np.dtype(dtype))
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        if any(size < 0 for size in sizes):
            raise WireError(f"the shape of an array is {sizes}, expected sizes of 0 or more")
        count = int(np.prod(sizes, dtype=object))
        size = max(count * kind.itemsize, 1)
        try:
            ram = Ram(size if self.exact and not self._device.settings.checks else align_up(size, PAGE_SIZE))
        except (MemoryError, OverflowError, OSError, ValueError) as error:
            raise BeyondModel(f"cannot allocate an array of {size} bytes: {error}") from None
        data = np.frombuffer(ram.view, np.uint8)
        address = self._device.map(ram, name=_name(kind, sizes), used=size)
        self._enter(data, ram.size, address)
        return data[: count * kind.itemsize].view(kind).reshape(sizes)

    def copy(self, values: ArrayLike, dtype: DTypeLike | None) -> NDArray[np.generic]:
        """Return an array in device memory that contains a copy of `values`."""
        source = np.asarray(values, dtype)
        made = self.empty(source.shape, source.dtype)
        made[...] = source
        return made

    def share(self, array: NDArray[np.generic], name: str = "") -> int:
        """Map an existing array as device memory until `free`; return its address."""
        known = self.find(array)
        if known is not None:
            return known
        return self.enter(array, name).address

    def enter(self, array: NDArray[np.generic], name: str = "") -> Block:
        """Map an existing array, which is not device memory yet, as device memory; return its block.

        `name` is the array's name in messages, by default its type and shape.
        """
        flat = _flat(array)
        mapped = flat if self.exact else _to_dword(flat)
        address = self._device.map(
            mapped,
            flat.flags.writeable,
            name or _name(array.dtype, array.shape),
            used=flat.nbytes if mapped is not flat else None,
        )
        return self._enter(flat, flat.nbytes, address)

    def free(self, array: NDArray[np.generic]) -> None:
        """Free an array's device memory, or end its sharing; raise `RuleError` if it has none.

        The array stays valid for its holders, but must not be passed to kernels any more.
        """
        with self._lock:
            block = self._holder(host_address(array), array.nbytes)
        if block is None or block.start != host_address(array):
            self._not_freed(array)
            raise RuleError("cannot free the array, expected one that gpu.array() returned, not a part or a copy of it")
        self.drop(block)

    def _not_freed(self, array: NDArray[np.generic]) -> None:
        """Report to the memory check that `free` was called for an array that is not device memory."""
        guard = self._device.memory.guard
        if guard is not None:
            guard.not_freed(self._freed.get(host_address(array), self.find(array) or 0))

    def drop(self, block: Block) -> None:
        """Unmap a block of device memory, unless a restore has removed it already."""
        with self._lock:
            if block in self._blocks:
                self._blocks.remove(block)
            if self._device.memory.guard is not None:
                self._freed[block.start] = block.address
        if self.is_mapped(block):
            self._device.unmap(block.address)

    def close(self) -> None:
        """Unmap all blocks, because the device is closed."""
        with self._lock:
            blocks, self._blocks = self._blocks, []
        for block in blocks:
            if self.is_mapped(block):
                self._device.unmap(block.address)

    @property
    def level(self) -> int:
        """The GCN generation of the device (7, 8 or 9)."""
        return self._device.agent.target.level

    def block(self, array: NDArray[np.generic]) -> Block:
        """Return the block of device memory that contains `array`, which must be device memory."""
        found = self._holder(host_address(array), array.nbytes)
        assert found is not None
        return found

    # ---- finding -------------------------------------------------------------------------------------------------

    def address(self, array: NDArray[np.generic] | Placed) -> int:
        """Return the device address of an array in device memory, or of a slice of such an array.

        Raise `RuleError` for other arrays.
        """
        if isinstance(array, Placed):
            raise RuleError("an image or sampler has a device address during a launch only: pass it as an argument")
        found = self.find(array)
        if found is None:
            raise RuleError("the array is not in device memory: make it with gpu.array(), or call gpu.share() on it")
        return found

    def find(self, array: NDArray[np.generic]) -> int | None:
        """Return the device address of an array; None if it is not device memory."""
        checked_dtype(array.dtype)
        flags, size = array.flags, array.nbytes
        if not (flags.c_contiguous or flags.f_contiguous):
            raise WireError("the array must be contiguous, without gaps between its elements")
        if not size:
            return 0  # the null pointer, since there is no element
        start = host_address(array)
        with self._lock:
            block = self._holder(start, size)
        return None if block is None else block.address + start - block.start

    def _holder(self, start: int, size: int) -> Block | None:
        """Return the block that contains `size` bytes from host address `start` on, or None.

        Blocks that a restore has removed are forgotten.
        """
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

    def is_mapped(self, block: Block) -> bool:
        """Return True if a block is still device memory, or False if a restore has removed it."""
        return self._device.block(block.address) is block.mapping

    # ---- snapshots -----------------------------------------------------------------------------------------------

    def snapshot(self) -> tuple[Block, ...]:
        """Return the blocks of all arrays, for `restore`."""
        with self._lock:
            return tuple(self._blocks)

    def restore(self, blocks: tuple[Block, ...]) -> None:
        """Restore the blocks that `snapshot` returned; the caller restores the device itself to the same moment."""
        with self._lock:
            self._blocks = list(blocks)


class Borrowed:
    """The device addresses of arrays during a launch.

    Arrays that are not device memory are mapped until `release`. Images and samplers are copied into device memory, and
    images are copied back on `release`.
    """

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays
        self._mapped: list[Block] = []
        self._placed: dict[tuple[int, str], tuple[Resource, int]] = {}
        self._back: list[Callable[[], None]] = []
        self._seen: list[tuple[int, NDArray[np.generic]]] = []
        """The device addresses and arrays that checks inspect after the launch."""
        self.bytes = 0
        """The size in bytes of all arrays."""

    def address(self, array: NDArray[np.generic] | Placed) -> int:
        """Return the device address of an array, which is mapped if necessary, or of an image's or sampler's object."""
        if isinstance(array, Placed):
            return self._place(array.resource, array.type_name)
        self.bytes += array.nbytes
        found = self._arrays.find(array)
        if found is None:
            block = self._arrays.enter(array)
            self._mapped.append(block)
            found = block.address
        if self._arrays.checks.at_results and array.nbytes:
            self._arrays.checks.host_passes(found, array.nbytes)
            self._seen.append((found, array))
        return found

    def read_back(self) -> None:
        """Report to the checks the arrays that the host gets back after the launch."""
        for address, array in self._seen:
            self._arrays.checks.host_gets(address, array, _name(array.dtype, array.shape))

    def _place(self, resource: Resource, type_name: str) -> int:
        """Return the address of an image or sampler object in device memory.

        The image or sampler is copied there once for all arguments of the type `type_name`.
        """
        known = self._placed.get((id(resource), type_name))
        if known is None:
            address, back = resource.place(type_name, self._arrays.level, self._allocate)
            known = self._placed[id(resource), type_name] = resource, address
            if back is not None:
                self._back.append(back)
        return known[1]

    def _allocate(self, size: int) -> tuple[int, NDArray[np.uint8]]:
        made = self._arrays.empty(size, np.uint8).view(np.uint8)
        self._mapped.append(self._arrays.block(made))
        self.bytes += size
        return self._arrays.address(made), made

    def release(self) -> None:
        """Unmap the arrays that were mapped for the launch, and copy images back."""
        for bring in self._back:
            bring()
        self._back = []
        for block in self._mapped:
            self._arrays.drop(block)
        self._mapped = []


@lru_cache(MOST_TYPES)
def checked_dtype(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """Return `dtype` if arrays of it can be shared with a device; else raise an error.

    It must be little-endian, of fixed size, and without Python objects.
    """
    if dtype.hasobject or dtype.itemsize == 0 or dtype != dtype.newbyteorder("<"):
        raise WireError(f"an array of {dtype} cannot be device memory, expected little-endian elements of fixed size")
    return dtype


@lru_cache(MOST_TYPES)
def _name(dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> str:
    """Return the name of an array in messages about faults: its element type and shape."""
    return f"array {dtype}{list(shape)}"


def _flat(array: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Return the bytes of a contiguous array in the order of memory, as a view that shares them."""
    ordered = array if array.flags.c_contiguous else array.T
    return ordered.reshape(-1).view(np.uint8)


def _to_dword(flat: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the bytes of an array, extended to the end of the aligned dword that contains the last byte.

    That dword lies within one page.
    """
    more = -(host_address(flat) + flat.nbytes) % DWORD
    return np.lib.stride_tricks.as_strided(flat, (flat.nbytes + more,), (1,)) if more else flat
