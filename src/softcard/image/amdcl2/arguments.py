"""Kernel arguments of AMD OpenCL 2.0 binaries: their kinds, and their offsets in the kernarg segment.

The layout follows "Argument passing and kernel setup" in the CLRX documentation; details come from the sizes
in files that drivers wrote. The rules are:

- A scalar is stored in as many bytes as its type has.
- A vector is stored as its elements, one after another, and is aligned like one element. From driver 1912.05
  on, a vector of 3 elements has the size of 4.
- Buffers, queues, pipes, events and structures are passed as a pointer of 8 or 4 bytes. A pointer to LDS is
  passed as an LDS offset of the same size.
- Images and samplers are passed as a handle of 8 bytes, in 32-bit programs too.
- From driver 1912.05 on, the size of the segment is rounded up to a multiple of 16."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, Final

from softcard.core.errors import WireError
from softcard.core.words import align_up
from softcard.image.amdcl2.formats import ImageKind
from softcard.image.amdcl2.generations import Generation
from softcard.image.amdcl2.records import ArgumentEntry


class Element(Enum):
    """The type of a scalar or of a vector's elements; values are the OpenCL name and the size in bytes."""

    CHAR = ("char", 1)
    UCHAR = ("uchar", 1)
    SHORT = ("short", 2)
    USHORT = ("ushort", 2)
    INT = ("int", 4)
    UINT = ("uint", 4)
    LONG = ("long", 8)
    ULONG = ("ulong", 8)
    HALF = ("half", 2)
    FLOAT = ("float", 4)
    DOUBLE = ("double", 8)

    @property
    def opencl(self) -> str:
        """The name of the type in OpenCL C."""
        return str(self.value[0])

    @property
    def size_bytes(self) -> int:
        """The size of the type in bytes."""
        return int(self.value[1])


class Kind(Enum):
    """The kind of a kernel argument."""

    VALUE = "value"
    STRUCTURE = "structure"
    POINTER = "pointer"
    IMAGE = "image"
    SAMPLER = "sampler"
    QUEUE = "queue"
    PIPE = "pipe"
    CLK_EVENT = "clk_event"


HANDLES: Final = (Kind.IMAGE, Kind.SAMPLER)
HANDLE_BYTES: Final = 8
"""The size and alignment in bytes of an image or sampler handle, in 32-bit and 64-bit programs."""


class Space(Enum):
    """The address space of a pointer; values are its numbers in the metadata."""

    NONE = 0
    LOCAL = 3
    GLOBAL = 4
    CONSTANT = 5


TYPE_STRUCTURE: Final = 15
TYPE_QUEUE: Final = 18
KIND_SAMPLER, KIND_IMAGE, KIND_VALUE, KIND_POINTER, KIND_QUEUE = 1, 2, 4, 5, 7
READ_ONLY, WRITE_ONLY, READ_WRITE = 1, 2, 3
ACCESS: Final = {READ_ONLY: "read_only", WRITE_ONLY: "write_only", READ_WRITE: "read_write"}
"""The OpenCL access qualifier for each access number in AMD's metadata.

It applies to images, pointers and pipes; an unused pointer is read-only.
"""
ACCESS_NUMBERS: Final = {name: number for number, name in ACCESS.items()}
IMAGE_TYPES: Final = {
    "image1d_buffer_t": ImageKind.BUFFER_1D,
    "image1d_t": ImageKind.IMAGE_1D,
    "image1d_array_t": ImageKind.ARRAY_1D,
    "image2d_t": ImageKind.IMAGE_2D,
    "image2d_depth_t": ImageKind.IMAGE_2D,
    "image2d_array_t": ImageKind.ARRAY_2D,
    "image2d_array_depth_t": ImageKind.ARRAY_2D,
    "image3d_t": ImageKind.IMAGE_3D,
}
"""The kind of image for each OpenCL image type."""
IS_2D, IS_1D, IS_ARRAY, IS_BUFFER = 1, 1 << 8, 1 << 16, 1 << 24
IMAGE_FLAGS: Final[dict[ImageKind | None, int]] = {
    ImageKind.BUFFER_1D: IS_1D | IS_BUFFER,
    ImageKind.IMAGE_1D: IS_1D,
    ImageKind.ARRAY_1D: IS_1D | IS_ARRAY,
    ImageKind.IMAGE_2D: IS_2D,
    ImageKind.ARRAY_2D: IS_2D | IS_ARRAY,
    ImageKind.IMAGE_3D: 0,
}
"""The four image flags (is2D, is1D, isArray, isBuffer) in the metadata for each kind of image."""
_FLAGGED: Final = {flags: kind for kind, flags in IMAGE_FLAGS.items() if flags not in (0, IS_2D)}
ELEMENT_TYPES: Final = {
    2: Element.CHAR, 3: Element.SHORT, 4: Element.INT, 5: Element.LONG,
    6: Element.UCHAR, 7: Element.USHORT, 8: Element.UINT, 9: Element.ULONG,
    10: Element.HALF, 11: Element.FLOAT, 12: Element.DOUBLE,
}  # fmt: skip
"""The element type for each type number in the metadata.

Up to driver 1912.05 only the numbers from 6 on are used, each for the signed and the unsigned type.
"""
UNSIGNED: Final = {
    Element.UCHAR: Element.CHAR, Element.USHORT: Element.SHORT, Element.UINT: Element.INT, Element.ULONG: Element.LONG,
}  # fmt: skip
UNSIGNED_NAMES: Final = ("u", "size_t", "unsigned", "bool")
VECTOR_LENGTHS: Final = (1, 2, 3, 4, 8, 16)
HIDDEN: Final = ("global_offset_0", "global_offset_1", "global_offset_2", "printf_buffer", "vqueue_pointer",
                 "aqlwrap_pointer")  # fmt: skip
"""The names of the hidden setup arguments, in order; in the metadata they begin with "_."."""
HIDDEN_PREFIX: Final = "_."


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a kernel.

    - `length` is the number of elements of a vector.
    - `structure_bytes` is the size of a structure in bytes.
    - `alignment` is the alignment in bytes of a pointer's target; 0 if unknown.
    - `access` is "read_only", "write_only" or "read_write" for images, pointers and pipes.
    - `image_flags` are the flags is2D, is1D, isArray and isBuffer as in the metadata.
    """

    name: str
    type_name: str
    kind: Kind
    element: Element | None = None
    length: int = 1
    structure_bytes: int = 0
    space: Space = Space.NONE
    alignment: int = 0
    access: str = ""
    resource_id: int = 0
    is_const: bool = False
    is_volatile: bool = False
    is_restrict: bool = False
    image_flags: int = 0

    @property
    def is_hidden(self) -> bool:
        """True if the argument is a setup argument, which the OpenCL run-time fills in instead of the caller."""
        return self.name.startswith(HIDDEN_PREFIX)

    @property
    def is_local(self) -> bool:
        """True if the argument is a pointer to LDS, for which the caller passes a size."""
        return self.kind is Kind.POINTER and self.space is Space.LOCAL

    @property
    def image_kind(self) -> ImageKind | None:
        """The kind of image that the argument takes; None stands for any kind.

        It is known from the name of the argument's type, or else from the flags in the metadata. If only the flag is2D
        is set, it is ignored, because assemblers set it for images of every kind.
        """
        return IMAGE_TYPES.get(self.type_name, _FLAGGED.get(self.image_flags)) if self.kind is Kind.IMAGE else None

    def size_and_alignment(self, bits: int, generation: Generation) -> tuple[int, int]:
        """Return the argument's size and alignment in the kernarg segment, in bytes."""
        if self.kind in HANDLES:
            return HANDLE_BYTES, HANDLE_BYTES
        if self.kind is not Kind.VALUE or self.element is None:
            return bits // 8, bits // 8
        length = 4 if self.length == 3 and generation.has_inner_elf else self.length
        return length * self.element.size_bytes, self.element.size_bytes

    def described(self) -> str:
        """Return the argument as in a declaration, for messages: ``global const uint* a``."""
        words = [self.space.name.lower()] if self.space is not Space.NONE else []
        words += [self.access] if self.access and self.kind is Kind.IMAGE else []
        words += [text for text in ("const", "volatile", "restrict") if getattr(self, f"is_{text}")]
        return " ".join([*words, self.type_name or self.kind.value, self.name])


@dataclass(frozen=True, slots=True)
class Slot:
    """An argument and its offset in bytes from the start of the kernarg segment."""

    argument: Argument
    offset: int
    size: int


@dataclass(frozen=True)
class KernargLayout:
    """All arguments of a kernel with their offsets, including the hidden setup arguments.

    `size` is the size of the kernarg segment in bytes.
    """

    slots: tuple[Slot, ...]
    size: int

    @cached_property
    def hidden(self) -> dict[str, Slot]:
        """The setup arguments, which the OpenCL run-time fills in, by their names in the CLRX documentation."""
        return {slot.argument.name.removeprefix(HIDDEN_PREFIX): slot for slot in self.slots if slot.argument.is_hidden}

    @cached_property
    def user(self) -> tuple[Slot, ...]:
        """The arguments that the caller passes, in order."""
        return tuple(slot for slot in self.slots if not slot.argument.is_hidden)


def lay_out(arguments: Iterable[Argument], bits: int, generation: Generation) -> KernargLayout:
    """Return the offsets of all arguments in the kernarg segment.

    `bits` is the address size of the file, 32 or 64; `generation` is that of the driver.
    """
    slots, at = [], 0
    for argument in arguments:
        size, alignment = argument.size_and_alignment(bits, generation)
        at = align_up(at, alignment)
        slots.append(Slot(argument, at, size))
        at += size
    return KernargLayout(tuple(slots), align_up(at, 16) if generation.has_inner_elf else at)


def argument_of(entry: ArgumentEntry, name: str, type_name: str) -> Argument:
    """Return the argument that a metadata entry describes.

    Raise `WireError` for types and kinds that no driver writes.
    """
    flags: dict[str, Any] = {
        "is_const": bool(entry.is_const),
        "is_volatile": bool(entry.is_volatile),
        "is_restrict": bool(entry.is_restrict),
    }
    if entry.is_pipe:
        return Argument(name, type_name, Kind.PIPE, space=Space.GLOBAL, access=ACCESS.get(entry.access, ""), **flags)
    if entry.access or entry.kind == KIND_POINTER:
        if entry.pointee == TYPE_QUEUE:
            return Argument(name, type_name, Kind.CLK_EVENT, access=ACCESS.get(entry.access, ""), **flags)
        try:
            space = Space(entry.space)
        except ValueError:
            raise WireError(f"argument {name}: the address space is {entry.space}, expected 3, 4 or 5") from None
        flags["access"] = ACCESS.get(entry.access, "")
        return Argument(name, type_name, Kind.POINTER, space=space, alignment=entry.alignment, **flags)
    if entry.kind == KIND_SAMPLER:
        return Argument(name, type_name, Kind.SAMPLER, resource_id=entry.length, **flags)
    if entry.kind == KIND_IMAGE:
        access = ACCESS.get(entry.type)
        if access is None:
            raise WireError(f"argument {name}: the image access is {entry.type}, expected 1, 2 or 3")
        flags |= {"access": access, "image_flags": entry.alignment}
        return Argument(name, type_name, Kind.IMAGE, resource_id=entry.length, **flags)
    if entry.kind == KIND_QUEUE or entry.type == TYPE_QUEUE:
        return Argument(name, type_name, Kind.QUEUE, **flags)
    if entry.type == TYPE_STRUCTURE:
        return Argument(name, type_name, Kind.STRUCTURE, structure_bytes=entry.length, **flags)
    return _value(entry, name, type_name, flags)


def _value(entry: ArgumentEntry, name: str, type_name: str, flags: dict[str, Any]) -> Argument:
    element = ELEMENT_TYPES.get(entry.type)
    if element is None or entry.kind != KIND_VALUE:
        raise WireError(f"argument {name}: the combination of type {entry.type} and kind {entry.kind} is unknown")
    if entry.length not in VECTOR_LENGTHS:
        raise WireError(f"argument {name}: the vector has {entry.length} elements, expected 1, 2, 3, 4, 8 or 16")
    if type_name and element in UNSIGNED and not type_name.startswith(UNSIGNED_NAMES):
        element = UNSIGNED[element]
    length = 3 if entry.length == 4 and type_name.endswith("3") else entry.length  # newer drivers write 4
    return Argument(name, type_name, Kind.VALUE, element, length, **flags)
