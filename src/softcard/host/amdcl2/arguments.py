"""Conversion of the arguments that a caller passes to a kernel into the contents of the argument buffer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from softcard.core.display import count
from softcard.core.errors import WireError
from softcard.device.amdcl2.device import OpenclDevice
from softcard.device.amdcl2.launch import Value, local_offsets
from softcard.device.amdcl2.queue_records import QueueShape
from softcard.host.amdcl2.objects import DeviceQueue, Image, Local, Sampler, checked_array, integer
from softcard.image.amdcl2.arguments import Argument, Kind, Slot

Given: TypeAlias = Value | bytes | bytearray | Image | Sampler | Local | DeviceQueue | None
"""A value for an argument of a kernel: see `Kernel.run`."""


# ---- host buffers ----------------------------------------------------------------------------------------------------
# Host buffers mapped as device memory, without copies, for the time of a run.


class Mappings:
    """The device memory of one kernel run: mapped buffers of this process, and allocated memory.

    A buffer that is passed several times is mapped only once. `release` unmaps and frees everything."""

    def __init__(self, device: OpenclDevice) -> None:
        self.device = device
        self._by_place: dict[tuple[int, int], tuple[int, bool]] = {}
        self._addresses: list[int] = []
        self._deferred: list[Callable[[], None]] = []
        self._arrays: list[tuple[int, np.ndarray, str]] = []
        """The mapped arrays: for each, its device address, the array, and the argument's name."""
        self.bytes = 0
        """The total size in bytes of all array arguments; an array that is passed twice counts twice."""

    def array(self, array: np.ndarray, name: str) -> int:
        """Return the device address of a NumPy array that is shared with the device without a copy.

        `name` is the name of the argument. Raise `WireError` if the array is not contiguous, or is empty."""
        if not array.flags.c_contiguous:
            raise WireError(f"the array for {name} must be C-contiguous (row-major, without gaps)")
        if not array.nbytes:
            raise WireError(f"array for {name} must not be empty")
        if array.dtype.hasobject:
            raise WireError(f"array for {name} must hold numbers, not Python objects")
        self.bytes += array.nbytes
        place = int(array.ctypes.data), array.nbytes
        known = self._by_place.get(place)
        if known is not None and known[1] == array.flags.writeable:
            return known[0]
        flat = array.reshape(-1).view(np.uint8)
        address = self.device.map(flat, name, array.flags.writeable)
        self._addresses.append(address)
        self._by_place[place] = address, array.flags.writeable
        self._arrays.append((address, array, name))
        return address

    def copy(self, data: bytes | bytearray, name: str) -> int:
        """Copy `data` into device memory in pages of its own; return the copy's device address."""
        address, view = self.allocate(len(data), name)
        view[: len(data)] = data
        return address

    def allocate(self, size: int, name: str) -> tuple[int, memoryview]:
        """Allocate device memory until the end of the run; return its address, and a view of it."""
        address, ram = self.device.allocate(size, name)
        self._addresses.append(address)
        return address, ram.view

    def defer(self, action: Callable[[], None]) -> None:
        """Register `action` to be called once at the end of a successful run."""
        if action not in self._deferred:
            self._deferred.append(action)

    def finish(self) -> None:
        """Complete a successful run: report array arguments to the checks at results, then call the deferred actions.

        The checks are those that examine data which the host gets back."""
        for address, array, name in self._arrays if self.device.checks.at_results else ():
            self.device.checks.host_gets(address, array, f"the array for {name}")
        for action in self._deferred:
            action()

    def release(self) -> None:
        """Unmap all buffers, and free all memory that was allocated for the run."""
        for address in self._addresses:
            self.device.release(address)
        self._addresses.clear()


# ---- arguments -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Converter:
    """A converter of the arguments of one run into values for the kernel.

    Data that the arguments refer to goes to device memory.
    """

    device: OpenclDevice
    maps: Mappings
    static_lds_bytes: int
    queue: Callable[[QueueShape | None], int]
    images: dict[int, tuple[int, Callable[[], None]]] = field(default_factory=dict)
    """The images in device memory by identity: the address of the image object, and a function that copies back."""

    def convert(self, slots: Sequence[Slot], args: Iterable[Given]) -> tuple[dict[int, Value], int]:
        """Convert the arguments `args` to values for the parameters `slots`.

        Return the values by parameter index, and the size in bytes of the LDS blocks that local pointers need. A
        value is an address, an LDS offset or a number. Raise a `WireError` that names the argument if it does not
        fit its parameter."""
        given = _listed(args)
        if len(given) != len(slots):
            names = ", ".join(slot.argument.described() for slot in slots)
            raise WireError(f"the kernel takes {count(len(slots), 'argument')} ({names or 'none'}), not {len(given)}")
        self._prepare_queue(given)
        values: dict[int, Value] = {}
        locals_: dict[int, tuple[int, int]] = {}
        for index, (slot, value) in enumerate(zip(slots, given, strict=True)):
            argument = slot.argument
            try:
                if argument.is_local:
                    locals_[index] = _local_size(value), argument.alignment
                else:
                    values[index] = self._value(argument, value)
            except WireError as error:
                raise error.at("argument", index, argument.name) from None
        offsets, lds = local_offsets(self.static_lds_bytes, locals_.values())
        return values | dict(zip(locals_, offsets, strict=True)), lds

    def _prepare_queue(self, given: Sequence[Any]) -> None:
        """Resize the device's queue if a `DeviceQueue` among the arguments requests another size."""
        shapes = {shape for each in given if isinstance(each, DeviceQueue) and (shape := each.shape()) is not None}
        if len(shapes) > 1:
            raise WireError(f"the arguments must give the device's only queue one size, not {len(shapes)} sizes")
        if shapes:
            self.queue(shapes.pop())

    def _value(self, argument: Argument, given: Any) -> Any:
        if argument.kind is Kind.VALUE:
            return given
        if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
            return int(given)  # an address
        match argument.kind:
            case Kind.POINTER | Kind.PIPE:
                return self._pointer(argument, given)
            case Kind.IMAGE:
                _expect(argument, given, Image)
                return self._image(argument, given)
            case Kind.SAMPLER:
                _expect(argument, given, Sampler)
                return self.maps.copy(given.pack(), f"sampler object of {argument.name}")
            case Kind.QUEUE:
                _expect(argument, given, DeviceQueue)
                return self.queue(None)
            case Kind.STRUCTURE:
                return self._structure(argument, given)
        raise WireError(f"{argument.kind.value} takes an address, not {type(given).__name__}")

    def _pointer(self, argument: Argument, given: Any) -> int:
        if given is None:
            return 0
        _expect(argument, given, np.ndarray)
        return self.maps.array(checked_array(given, f"array for {argument.name}"), argument.name)

    def _image(self, argument: Argument, image: Image) -> int:
        """Copy an image's texels and its image object into device memory; return the address of the image object.

        An image that is passed several times is copied once. Texels that kernels may write are copied back after the
        run.
        """
        _check_image(argument, image)

        def allocate(size: int, content: str) -> tuple[int, np.ndarray]:
            address, view = self.maps.allocate(size, f"{content} of {argument.name}")
            return address, np.frombuffer(view, np.uint8, size)

        if id(image) not in self.images:
            self.images[id(image)] = image.copy_in(self.device.target.level, allocate)
        address, back = self.images[id(image)]
        if argument.access != "read_only":
            self.maps.defer(back)
        return address

    def _structure(self, argument: Argument, given: Any) -> int:
        """Copy the bytes of a structure into device memory, and return the address of the copy."""
        if isinstance(given, (np.ndarray, np.generic)):
            given = given.tobytes()
        _expect(argument, given, bytes, bytearray)
        if len(given) != argument.structure_bytes:
            text = f"structure {argument.type_name} takes {argument.structure_bytes} bytes"
            raise WireError(f"{text}, not {len(given)}")
        return self.maps.copy(given, f"structure {argument.name}")


def _expect(argument: Argument, given: Any, *kinds: type) -> None:
    if not isinstance(given, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        what = " ".join(dict.fromkeys(text for text in (argument.kind.value, argument.type_name) if text))
        raise WireError(f"{what} takes {names}, not {type(given).__name__}")


def _listed(args: Any) -> list[Any]:
    """Return the arguments as a list; raise `WireError` unless they are a sequence."""
    if isinstance(args, (str, bytes, bytearray, Mapping)) or not isinstance(args, Iterable):
        raise WireError(f"arguments must be a sequence with one value for each parameter, not {type(args).__name__}")
    return list(args)


def _check_image(argument: Argument, image: Image) -> None:
    kind = argument.image_kind
    if kind not in (None, image.texels.kind):
        raise WireError(
            f"{argument.type_name or 'image'} takes an image of kind {kind.name}, not {image.texels.kind.name}"
        )
    if argument.access != "read_only" and not image.array.flags.writeable:
        raise WireError(
            f"the array of a {argument.access} image must be writable: what the kernel writes would be lost"
        )


def _local_size(given: Any) -> int:
    if isinstance(given, Local):
        return int(given.size_bytes)
    if not isinstance(given, (int, np.integer)) or isinstance(given, bool):
        raise WireError(f"a local pointer takes Local(size_bytes) or a number of bytes, not {type(given).__name__}")
    return Local(integer(given, "")).size_bytes
