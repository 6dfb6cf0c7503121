"""Tensors of the host as device memory: NumPy arrays, tensors of PyTorch, and objects with a method `data_ptr`.

A tensor's memory is mapped once and stays mapped as long as its storage exists, since mapping takes longer than a
launch. Its bytes are never copied."""

from __future__ import annotations

import ctypes
import threading
import weakref
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softcard.core.errors import WireError
from softcard.host.hsa.gpu import Gpu
from softcard.host.hsa.memory import Block

Bytes = NDArray[np.uint8]


class Tensor:
    """A NumPy array in the form that Triton requires of arguments: an object with `data_ptr` and `dtype`.

    Other attributes are those of the array. The methods that Triton's autotuner calls on tensors are defined, too.
    """

    __slots__ = ("array", "data_ptr", "dtype", "first")

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        self.dtype = array.dtype
        self.first: int | None = None
        """The host address of the first element in a tensor that exists for one launch only; else None.

        The array may get other memory later."""
        self.data_ptr: Callable[[], int] = partial(pointer, array)
        """A function that returns the host address of the first element."""

    @classmethod
    def for_launch(cls, array: NDArray[Any]) -> Tensor:
        """Return a tensor for one launch, whose address is looked up once."""
        made = cls.__new__(cls)
        made.array, made.dtype = array, array.dtype
        made.first = first = pointer(array)
        made.data_ptr = first.__int__
        return made

    @property
    def is_cuda(self) -> bool:
        """False, since the memory is the host's; `triton.reinterpret` reads this attribute."""
        return False

    def element_size(self) -> int:
        """Return the size of an element in bytes."""
        return self.array.itemsize

    def numel(self) -> int:
        """Return the number of elements."""
        return self.array.size

    def stride(self, axis: int | None = None) -> Any:
        """Return the distance between elements of an axis, or of each axis, in elements."""
        steps = tuple(step // self.array.itemsize for step in self.array.strides)
        return steps if axis is None else steps[axis]

    def clone(self) -> Tensor:
        """Return a copy."""
        return Tensor(self.array.copy())

    def copy_(self, other: Tensor) -> Tensor:
        """Copy the elements of another tensor into this one."""
        self.array[...] = other.array
        return self

    def zero_(self) -> Tensor:
        """Set all elements to 0."""
        self.array[...] = 0
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self.array, name)

    def __repr__(self) -> str:
        return f"Tensor({self.array!r})"


@dataclass(slots=True, eq=False)
class _Storage:
    """A block of host memory that is device memory: its first host address, its bytes, and its device address.

    `owner` is a weak reference to the object that owns the memory. `is_writable` is True if kernels may write it.
    """

    start: int
    data: Bytes
    address: int
    owner: weakref.ref[Any]
    is_writable: bool
    block: Block | None = None
    """The block of device memory, which the storage unmaps; None if another one maps it."""
    version: int = -1
    """The version of the GPU's memory in which the block was last found to be mapped."""

    @property
    def is_valid(self) -> bool:
        """True if the owner exists, and has this memory and this permission to write, which it may change."""
        owner = self.owner()
        if owner is None:
            return False
        if isinstance(owner, np.ndarray):
            is_same = pointer(owner) == self.start and owner.nbytes == self.data.nbytes
            return is_same and owner.flags.writeable == self.is_writable
        return bool(owner.data_ptr() == self.start and owner.nbytes() == self.data.nbytes)


class Storages:
    """The storages of tensors that are device memory of one GPU."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._arrays = gpu._arrays
        self._memory = gpu.device.memory
        self._era = gpu.device.era
        self._known: dict[int, _Storage] = {}
        self._others: list[_Storage] = []
        """Storages at whose first address a larger storage begins, for instance after `np.frombuffer`."""
        self._gone: list[int] = []
        """The host addresses of storages whose owners are gone. Python may free owners while a kernel runs."""
        self._lock = threading.RLock()

    def address(self, value: Any) -> int:
        """Return the device address for a pointer argument; see `memory`."""
        found = self._find(value)
        return found if isinstance(found, int) else found[0].address + found[1]

    def memory(self, value: Any) -> Bytes | int:
        """Return the device memory for a pointer argument: the bytes from its first element on, or an address.

        None is the null pointer. Raise `WireError` for a value that is not a pointer.
        """
        found = self._find(value)
        return found if isinstance(found, int) else found[0].data[found[1] :]

    def _find(self, value: Any) -> tuple[_Storage, int] | int:
        """Return the storage of a tensor, and the offset of its first element there, or an address."""
        if self._gone or self._era != self._gpu.device.era:
            self.forget()
        if value is None:
            return 0
        if type(value) is int:
            return value
        first = None
        while not isinstance(value, np.ndarray):
            if isinstance(value, Tensor):
                value, first = value.array, value.first
            elif hasattr(value, "untyped_storage"):
                return self._of_torch(value)
            elif hasattr(value, "base") and hasattr(value, "data_ptr"):
                value = value.base  # triton.reinterpret
            elif hasattr(value, "data_ptr"):
                return self._at(int(value.data_ptr()))
            elif isinstance(value, int | np.integer):
                return int(value)
            else:
                text = f"cannot pass a value of type {type(value).__name__} for a pointer"
                raise WireError(f"{text}, expected a NumPy array, a CPU tensor of PyTorch, an address or None")
        return self._of_numpy(value, pointer(value) if first is None else first)

    def _of_torch(self, tensor: Any) -> tuple[_Storage, int] | int:
        is_cpu = getattr(tensor, "is_cpu", None)
        if is_cpu is None:  # an object with some of a tensor's methods, such as a view that PyTorch cannot express
            is_cpu = tensor.untyped_storage().device.type == "cpu"
        if not is_cpu:
            text = f"the tensor is on device {str(tensor.device)!r}, expected 'cpu'"
            raise WireError(f"{text}: the virtual GPU's memory is the host's, so pass tensor.cpu()")
        storage = tensor.untyped_storage()
        start = storage.data_ptr()
        found, size = self._known.get(start), storage.nbytes()
        if found is None or not self._is_current(found, size):
            if not size:
                return 0
            found = self._enter(start, _bytes_at(start, size), storage, tensor)
        return found, tensor.data_ptr() - start

    def _of_numpy(self, array: NDArray[Any], first: int) -> tuple[_Storage, int] | int:
        if not array.size:
            return 0
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        start = first if owner is array else pointer(owner)
        found = self._known.get(start)
        is_writable = owner.flags.writeable
        if found is not None and is_writable != found.is_writable and (is_writable or found.owner() is owner):
            found = None  # a read-only array may share the mapping of a writable one
        if found is None or not self._is_current(found, owner.nbytes):
            if not (owner.flags.c_contiguous or owner.flags.f_contiguous):
                raise WireError("the array's memory has gaps, expected a view of a contiguous array")
            data = _bytes_at(start, owner.nbytes)
            data.flags.writeable = is_writable
            found = self._enter(start, data, owner, owner)
        return found, first - start

    def _is_current(self, storage: _Storage, size: int | None = None) -> bool:
        """Return True if a storage is still memory of the host and of the device, and has `size` bytes."""
        if (size is not None and storage.data.nbytes != size) or storage.owner() is None:
            return False
        if storage.version != self._memory.version:
            version = self._memory.version
            if storage.block is not None and not self._arrays.is_mapped(storage.block):
                return False
            storage.version = version
        return True

    def _at(self, address: int) -> tuple[_Storage, int] | int:
        """Return the storage with a host address, which must be in a tensor that an earlier launch used."""
        if not address:
            return 0
        with self._lock:
            starts = sorted(self._known)
            index = bisect_right(starts, address)
            found = self._known[starts[index - 1]] if index else None
        if found is None or address >= found.start + found.data.nbytes or not self._is_current(found):
            text = f"Pointer argument cannot be accessed from Triton (cpu tensor?): no tensor contains {address:#x}"
            raise ValueError(f"{text} that a launch or softcard.triton.address has mapped")
        return found, address - found.start

    def _enter(self, start: int, data: Bytes, owner: Any, tensor: Any) -> _Storage:
        """Map a storage unless its memory is device memory already; unmap storages whose memory is gone.

        Messages name the storage by the type and shape of `tensor`, the first tensor that used it.
        """
        with self._lock:
            for each in (*self._known.values(), *self._others):
                if not each.is_valid or not self._is_current(each):
                    self._drop(each)
            gone = self._gone
            known = weakref.ref(owner, lambda _: gone.append(start))
            shared = self._arrays.find(data)
            if shared is not None and (not data.flags.writeable or self._arrays.block(data).data.flags.writeable):
                # the user's device memory, or part of another storage: its owner unmaps it
                return _Storage(start, data, shared, known, data.flags.writeable)
            block = self._arrays.enter(data, described(tensor))
            made = _Storage(start, data, block.address, known, data.flags.writeable, block)
            if start in self._known:
                self._others.append(self._known[start])
            self._known[start] = made
            return made

    def forget(self) -> None:
        """Unmap the storages whose owners are gone; after a reset or restore of the device, all."""
        with self._lock:
            if self._era != self._gpu.device.era:
                self._era = self._gpu.device.era
                self.close()
            while self._gone:
                found = self._known.get(self._gone.pop())
                if found is not None and found.owner() is None:
                    self._drop(found)
            for each in list(self._others):
                if each.owner() is None:
                    self._drop(each)

    def close(self) -> None:
        """Unmap all storages."""
        with self._lock:
            for each in (*self._known.values(), *self._others):
                self._drop(each)

    def _drop(self, storage: _Storage) -> None:
        if self._known.get(storage.start) is storage:
            del self._known[storage.start]
        else:
            self._others.remove(storage)
        if storage.block is not None and not self._gpu.device.is_closed:
            self._arrays.drop(storage.block)


def pointer(array: NDArray[Any]) -> int:
    """Return the host address of the first element of an array."""
    return array.__array_interface__["data"][0]  # type: ignore[no-any-return]


def described(value: Any) -> str:
    """Return the element type and shape of a tensor as text."""
    base = getattr(value, "base", None) if not hasattr(value, "shape") else None
    shape = getattr(value if base is None else base, "shape", ())
    dtype = str(getattr(value, "dtype", "memory")).rpartition(".")[2]
    return f"{dtype}{list(shape)}"


def _bytes_at(address: int, size: int) -> Bytes:
    """Return the bytes at a host address as an array that does not own them."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
