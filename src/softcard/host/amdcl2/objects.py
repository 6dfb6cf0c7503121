"""Values of kernel arguments other than numbers and arrays: images, samplers, LDS sizes, structures, queues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, TypeVar

import numpy as np

from softcard.core.errors import WireError
from softcard.core.space import HostBytes, bytes_of_buffer
from softcard.device.amdcl2.queue_records import QueueShape
from softcard.image.amdcl2.arguments import IMAGE_TYPES
from softcard.image.amdcl2.formats import ChannelOrder, ChannelType, ImageFormat, ImageKind, image_format
from softcard.image.amdcl2.objects import Addressing, Filter, ImageObject, SamplerObject, Texels, image_object, texels

KINDS_BY_AXES: Final = {1: ImageKind.IMAGE_1D, 2: ImageKind.IMAGE_2D, 3: ImageKind.IMAGE_3D}
SAMPLER_TYPE: Final = "sampler_t"
AnyEnum = TypeVar("AnyEnum", bound=IntEnum)


def integer(value: object, what: str) -> int:
    """Return a Python or NumPy integer as a Python integer; raise `WireError` for all else, even booleans."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        raise WireError(f"{what} must be an integer, not {value!r}")
    return int(value)


def checked_array(array: object, what: str) -> np.ndarray:
    """Return `array` if it is a NumPy array of numbers; raise a `WireError` otherwise."""
    if not isinstance(array, np.ndarray):
        raise WireError(f"{what} must be a NumPy array, not {type(array).__name__}")
    if isinstance(array, np.ma.MaskedArray):
        raise WireError(f"{what} must not be masked, since a device cannot see masks: pass its data or filled()")
    return array


def _member(kind: type[AnyEnum], value: Any) -> AnyEnum:
    try:
        return kind(value)
    except ValueError:
        raise WireError(f"unknown {kind.__name__} {value!r}, expected one of {', '.join(kind.__members__)}") from None


class Image:
    """An image over a NumPy array of texels, as the value of an image argument.

    The array has the image's axes (slices or depth, rows, columns), followed by one axis for the words of a texel. If a
    texel is one word, the last axis may be left out; it may be present only if `kind` is given. By default `kind`
    follows from the number of axes; it must be given for arrays of images and for 1D buffers. After the run the array
    contains the texels that kernels wrote.
    """

    def __init__(
        self, array: np.ndarray, order: ChannelOrder, type: ChannelType, kind: ImageKind | None = None
    ) -> None:
        order, type = _member(ChannelOrder, order), _member(ChannelType, type)
        kind = _member(ImageKind, kind) if kind is not None else None
        self.format: ImageFormat = image_format(order, type)
        self.array = checked_array(array, "an image's texels")
        if array.dtype != np.dtype(self.format.dtype):
            raise WireError(f"texels of type {type.name} must be {self.format.dtype}, not {array.dtype}")
        shape = array.shape
        axes = kind.axes if kind is not None else len(shape) - (self.format.words > 1)
        if len(shape) == axes + 1 and shape[-1] == self.format.words:
            shape = shape[:-1]
        elif self.format.words > 1:
            raise WireError(
                f"the last axis of an array of {order.name} texels must have {self.format.words} elements, not "
                f"{shape[-1] if shape else 0}"
            )
        if kind is None and len(shape) not in KINDS_BY_AXES:
            raise WireError(f"an image must have 1, 2 or 3 axes, not {len(shape)}")
        self.texels: Texels = texels(kind if kind is not None else KINDS_BY_AXES[len(shape)], self.format, shape)

    def __repr__(self) -> str:
        return f"<image {self.texels.kind.name} of {self.array.dtype}{list(self.array.shape)}>"

    def rows(self, memory: HostBytes) -> np.ndarray:
        """Return the image's texels as an array that shares `memory`, the bytes of the image in device memory.

        The array has the axes slices, rows, columns and words of a texel."""
        t = self.texels
        count = t.size_bytes // np.dtype(self.format.dtype).itemsize
        flat: np.ndarray = np.frombuffer(bytes_of_buffer(memory), np.dtype(self.format.dtype), count)
        return flat.reshape(t.slices, t.height, t.pitch, self.format.words)[:, :, : t.width]

    def upload(self, memory: HostBytes) -> None:
        """Copy the texels from the array into device memory."""
        rows = self.rows(memory)
        rows[...] = self.array.reshape(rows.shape)

    def download(self, memory: HostBytes) -> None:
        """Copy the texels from device memory into the array."""
        self.array[...] = self.rows(memory).reshape(self.array.shape)

    def place(
        self, type_name: str, level: int, allocate: Callable[[int], tuple[int, np.ndarray]]
    ) -> tuple[int, Callable[[], None] | None]:
        """Copy the texels and the image object into device memory in the format of generation `level` (7, 8 or 9).

        Return the address of the image object, and a function that copies the texels back, or None if that is not
        needed. `allocate` allocates device memory. Raise `WireError` if arguments of the type `type_name` take images
        of another kind.
        """
        kind = IMAGE_TYPES.get(type_name, self.texels.kind)
        if kind is not self.texels.kind or type_name == SAMPLER_TYPE:
            raise WireError(f"{type_name} cannot take an image of kind {self.texels.kind.name}")
        address, back = self.copy_in(level, lambda size, _: allocate(size))
        return address, back if self.array.flags.writeable else None

    def copy_in(
        self, level: int, allocate: Callable[[int, str], tuple[int, np.ndarray]]
    ) -> tuple[int, Callable[[], None]]:
        """Copy the texels and the image object into device memory in the format of generation `level` (7, 8 or 9).

        Return the address of the image object, and a function that copies the texels back. `allocate(size, name)`
        allocates `size` bytes of device memory, and returns their address and an array that shares them; `name`
        says what they are for."""
        texels, memory = allocate(self.texels.size_bytes, "texels")
        self.upload(memory)
        address, object_ = allocate(ImageObject.size_bytes, "image object")
        object_[...] = np.frombuffer(image_object(level, self.texels, texels).pack(), np.uint8)
        return address, lambda: self.download(memory)


@dataclass(frozen=True, slots=True)
class Sampler:
    """A sampler of OpenCL: the value of a sampler argument. Invalid modes raise `WireError`."""

    normalised: bool = False
    addressing: Addressing = Addressing.CLAMP_TO_EDGE
    filter: Filter = Filter.NEAREST

    def __post_init__(self) -> None:
        """Convert modes given as numbers to enumerations."""
        if not isinstance(self.normalised, (bool, np.bool_)):
            raise WireError(f"normalised must be True or False, not {self.normalised!r}")
        object.__setattr__(self, "addressing", _member(Addressing, self.addressing))
        object.__setattr__(self, "filter", _member(Filter, self.filter))

    def pack(self) -> bytes:
        """Return the bytes of the sampler object."""
        return SamplerObject.of(self.normalised, self.addressing, self.filter).pack()

    def place(
        self, type_name: str, level: int, allocate: Callable[[int], tuple[int, np.ndarray]]
    ) -> tuple[int, Callable[[], None] | None]:
        """Copy the sampler object into device memory; return its address, and None: samplers are never copied back.

        Raise `WireError` if `type_name` is not a sampler type.
        """
        if type_name in IMAGE_TYPES:
            raise WireError(f"{type_name} takes an image, not a sampler")
        address, object_ = allocate(SamplerObject.size_bytes)
        object_[...] = np.frombuffer(self.pack(), np.uint8)
        return address, None


@dataclass(frozen=True, slots=True)
class Local:
    """The value of a local pointer argument: `size_bytes` of LDS for each work-group."""

    size_bytes: int

    def __post_init__(self) -> None:
        """Raise a `WireError` unless the size is an integer of 1 or more."""
        if integer(self.size_bytes, "the size of a local pointer's LDS") < 1:
            raise WireError(f"a local pointer needs LDS of 1 byte or more, not {self.size_bytes}")


@dataclass(frozen=True, slots=True)
class DeviceQueue:
    """The device's queue, as the value of an argument of type queue_t.

    The device has one queue. `size_bytes` is OpenCL's CL_QUEUE_SIZE: if it differs from the queue's size, the queue is
    replaced by a new one. With None the queue stays as it is; at first it has 256 KiB, which are 2048 slots. More than
    8 MiB raise `WireError`.
    """

    size_bytes: int | None = None

    def __post_init__(self) -> None:
        """Raise `WireError` for an unsupported size."""
        self.shape()

    def shape(self) -> QueueShape | None:
        """Return the shape of the requested queue, or None if any size is acceptable."""
        size = self.size_bytes
        return None if size is None else QueueShape.of_size(integer(size, "the size of a device queue"))
