"""From what a caller gives for a kernel's arguments to what stands in the argument buffer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from understudy.core.errors import WireError
from understudy.core.space import Ram
from understudy.device.amdcl2.device import OpenclDevice
from understudy.device.amdcl2.launch import local_offsets
from understudy.device.amdcl2.queue_shape import QueueShape
from understudy.host.amdcl2.memory import Mappings
from understudy.host.amdcl2.objects import DeviceQueue, Image, Local, Sampler, checked_array, integer
from understudy.image.amdcl2.arguments import Argument, Kind, Slot
from understudy.image.amdcl2.objects import image_object


@dataclass(slots=True)
class _Placed:
    """An image in device memory: the address of its object, its texels, and whether they go back to the caller."""

    address: int
    texels: Ram
    comes_back: bool = False


@dataclass(frozen=True, slots=True)
class Converter:
    """Puts the arguments of one run into device memory."""

    device: OpenclDevice
    maps: Mappings
    static_lds_bytes: int
    queue: Callable[[QueueShape | None], int]
    images: dict[int, _Placed] = field(default_factory=dict)

    def convert(self, slots: Sequence[Slot], args: Iterable[Any]) -> tuple[dict[int, Any], int]:
        """The value of each argument by index (addresses, LDS offsets, numbers), and the LDS of local pointers.

        `WireError` with the argument for what does not fit.
        """
        given = _listed(args)
        if len(given) != len(slots):
            names = ", ".join(slot.argument.described() for slot in slots)
            raise WireError(f"takes {len(slots)} arguments, not {len(given)}: {names or 'none'}")
        self._prepare_queue(given)
        values: dict[int, Any] = {}
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
        """Make the device's queue as large as the arguments say."""
        shapes = {shape for each in given if isinstance(each, DeviceQueue) and (shape := each.shape()) is not None}
        if len(shapes) > 1:
            raise WireError(f"the device has one queue, expected one size and not {len(shapes)} for it")
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
                return self.maps.copy(given.pack(), f"sampler object of {argument.name}")[0]
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
        """Put texels and image object into memory, once for each image; texels that are written come back."""
        _check_image(argument, image)
        if id(image) not in self.images:
            texels, ram = self.device.allocate(image.texels.size_bytes, f"texels of {argument.name}")
            self.maps.keep(texels)
            image.upload(ram.view)
            data = image_object(self.device.target.level, image.texels, texels).pack()
            self.images[id(image)] = _Placed(self.maps.copy(data, f"image object of {argument.name}")[0], ram)
        placed = self.images[id(image)]
        if argument.access != "read_only" and not placed.comes_back:
            placed.comes_back = True
            self.maps.defer(lambda: image.download(placed.texels.view))
        return placed.address

    def _structure(self, argument: Argument, given: Any) -> int:
        """A structure goes by reference to a copy."""
        if isinstance(given, (np.ndarray, np.generic)):
            given = given.tobytes()
        _expect(argument, given, bytes, bytearray)
        if len(given) != argument.structure_bytes:
            raise WireError(f"structure {argument.type_name} has {argument.structure_bytes} bytes, not {len(given)}")
        return self.maps.copy(given, f"structure {argument.name}")[0]


def _expect(argument: Argument, given: Any, *kinds: type) -> None:
    if not isinstance(given, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        what = " ".join(dict.fromkeys(text for text in (argument.kind.value, argument.type_name) if text))
        raise WireError(f"{what} takes {names}, not {type(given).__name__}")


def _listed(args: Any) -> list[Any]:
    """The arguments one after the other."""
    if isinstance(args, (str, bytes, bytearray, Mapping)) or not isinstance(args, Iterable):
        raise WireError(f"arguments are given one after the other, as a list: expected that, not {type(args).__name__}")
    return list(args)


def _check_image(argument: Argument, image: Image) -> None:
    kind = argument.image_kind
    if kind not in (None, image.texels.kind):
        raise WireError(
            f"{argument.type_name or 'image'} takes an image of kind {kind.name}, not {image.texels.kind.name}"
        )
    if argument.access != "read_only" and not image.array.flags.writeable:
        raise WireError(
            f"{argument.access} image over an array that is read-only: what the kernel writes would be lost"
        )


def _local_size(given: Any) -> int:
    if isinstance(given, Local):
        return int(given.size_bytes)
    if not isinstance(given, (int, np.integer)) or isinstance(given, bool):
        raise WireError(f"local pointer takes Local(bytes), not {type(given).__name__}")
    return Local(integer(given, "")).size_bytes
