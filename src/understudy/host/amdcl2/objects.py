"""What a caller hands to kernels besides numbers and arrays: images, samplers, LDS sizes, structures, queues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, TypeVar

import numpy as np

from understudy.core.errors import WireError
from understudy.device.amdcl2.queue_shape import QueueShape
from understudy.image.amdcl2.arguments import IMAGE_TYPES
from understudy.image.amdcl2.formats import ChannelOrder, ChannelType, ImageFormat, ImageKind, image_format
from understudy.image.amdcl2.objects import Addressing, Filter, ImageObject, SamplerObject, Texels, image_object, texels

KINDS_BY_AXES: Final = {1: ImageKind.IMAGE_1D, 2: ImageKind.IMAGE_2D, 3: ImageKind.IMAGE_3D}
SAMPLER_TYPE: Final = "sampler_t"
AnyEnum = TypeVar("AnyEnum", bound=IntEnum)


def integer(value: Any, what: str) -> int:
    """An integer of Python or NumPy as one of Python; `WireError` for anything else, truth values too."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        raise WireError(f"{what} must be an integer, not {value!r}")
    return int(value)


def checked_array(array: Any, what: str) -> np.ndarray:
    """A NumPy array of numbers; `WireError` for what is none."""
    if not isinstance(array, np.ndarray):
        raise WireError(f"{what} must be a NumPy array, not {type(array).__name__}")
    if isinstance(array, np.ma.MaskedArray):
        raise WireError(f"{what} is masked, which a device cannot see: expected its data or what filled() gives")
    return array


def _member(kind: type[AnyEnum], value: Any) -> AnyEnum:
    try:
        return kind(value)
    except ValueError:
        raise WireError(f"{value!r} is no {kind.__name__}: there are {', '.join(kind.__members__)}") from None


class Image:
    """An image over a NumPy array of texels.

    The array has the image's axes (slices or depth, rows, columns), and behind them one for the words of a texel; the
    latter is left out where a texel is one word (with `kind`, it may be there). `kind` follows from the number of axes
    unless it is given: arrays of images and 1D buffers have to say so. What kernels write is in the array after the
    run.
    """

    def __init__(
        self, array: np.ndarray, order: ChannelOrder, type: ChannelType, kind: ImageKind | None = None
    ) -> None:
        order, type = _member(ChannelOrder, order), _member(ChannelType, type)
        kind = _member(ImageKind, kind) if kind is not None else None
        self.format: ImageFormat = image_format(order, type)
        self.array = checked_array(array, "an image's texels")
        if array.dtype != np.dtype(self.format.dtype):
            raise WireError(f"texels of {type.name} are {self.format.dtype}, not {array.dtype}")
        shape = array.shape
        axes = kind.axes if kind is not None else len(shape) - (self.format.words > 1)
        if len(shape) == axes + 1 and shape[-1] == self.format.words:
            shape = shape[:-1]
        elif self.format.words > 1:
            raise WireError(f"texels of {order.name} have {self.format.words} words: the last axis must have as many")
        if kind is None and len(shape) not in KINDS_BY_AXES:
            raise WireError(f"an image has 1, 2 or 3 axes, not {len(shape)}")
        self.texels: Texels = texels(kind if kind is not None else KINDS_BY_AXES[len(shape)], self.format, shape)

    def __repr__(self) -> str:
        return f"<image {self.texels.kind.name} of {self.array.dtype}{list(self.array.shape)}>"

    def rows(self, memory: Any) -> np.ndarray:
        """The image's texels in device memory as an array: slices, rows, columns, words."""
        t = self.texels
        count = t.size_bytes // np.dtype(self.format.dtype).itemsize
        flat: np.ndarray = np.frombuffer(memory, np.dtype(self.format.dtype), count)
        return flat.reshape(t.slices, t.height, t.pitch, self.format.words)[:, :, : t.width]

    def upload(self, memory: Any) -> None:
        """Copy the array's texels into device memory."""
        rows = self.rows(memory)
        rows[...] = self.array.reshape(rows.shape)

    def download(self, memory: Any) -> None:
        """Copy device memory's texels into the array."""
        self.array[...] = self.rows(memory).reshape(self.array.shape)

    def place(
        self, type_name: str, level: int, allocate: Callable[[int], tuple[int, np.ndarray]]
    ) -> tuple[int, Callable[[], None] | None]:
        """Put texels and object into memory of GFX7, GFX8 or GFX9; the object's address, and what brings texels back.

        `WireError` where arguments of that type take images of another kind.
        """
        kind = IMAGE_TYPES.get(type_name, self.texels.kind)
        if kind is not self.texels.kind or type_name == SAMPLER_TYPE:
            raise WireError(f"{type_name} takes no image of kind {self.texels.kind.name}")
        texels, memory = allocate(self.texels.size_bytes)
        self.upload(memory)
        address, object_ = allocate(ImageObject.size_bytes)
        object_[...] = np.frombuffer(image_object(level, self.texels, texels).pack(), np.uint8)
        return address, (lambda: self.download(memory)) if self.array.flags.writeable else None


@dataclass(frozen=True, slots=True)
class Sampler:
    """A sampler of OpenCL; `WireError` for modes that are none."""

    normalised: bool = False
    addressing: Addressing = Addressing.CLAMP_TO_EDGE
    filter: Filter = Filter.NEAREST

    def __post_init__(self) -> None:
        """Modes may be given by their numbers."""
        if not isinstance(self.normalised, (bool, np.bool_)):
            raise WireError(f"normalised must be True or False, not {self.normalised!r}")
        object.__setattr__(self, "addressing", _member(Addressing, self.addressing))
        object.__setattr__(self, "filter", _member(Filter, self.filter))

    def pack(self) -> bytes:
        """The sampler object."""
        return SamplerObject.of(self.normalised, self.addressing, self.filter).pack()

    def place(
        self, type_name: str, level: int, allocate: Callable[[int], tuple[int, np.ndarray]]
    ) -> tuple[int, Callable[[], None] | None]:
        """Put the object into memory; its address. `WireError` for arguments of another type."""
        if type_name in IMAGE_TYPES:
            raise WireError(f"{type_name} takes an image, not a sampler")
        address, object_ = allocate(SamplerObject.size_bytes)
        object_[...] = np.frombuffer(self.pack(), np.uint8)
        return address, None


@dataclass(frozen=True, slots=True)
class Local:
    """LDS for a local pointer: so many bytes for each work-group."""

    size_bytes: int

    def __post_init__(self) -> None:
        """A `WireError` for less than a byte, and for what is no number of bytes."""
        if integer(self.size_bytes, "the size of a local pointer's LDS") < 1:
            raise WireError(f"a local pointer needs LDS of 1 byte or more, not {self.size_bytes}")


@dataclass(frozen=True, slots=True)
class DeviceQueue:
    """The device's queue, for arguments of type queue_t.

    `size_bytes` is OpenCL's CL_QUEUE_SIZE: there is one queue, which is made anew for another size. None: as it is, at
    first 256 KiB, which are 2048 slots. `WireError` for more than 8 MiB.
    """

    size_bytes: int | None = None

    def __post_init__(self) -> None:
        """A `WireError` for a size that no device has."""
        self.shape()

    def shape(self) -> QueueShape | None:
        """Its sizes; None where any will do."""
        size = self.size_bytes
        return None if size is None else QueueShape.of_size(integer(size, "the size of a device queue"))
