"""Record layouts in AMD OpenCL 2.0 containers: kernel metadata of all generations, stubs, sampler initialisers.

No document describes them. They were derived from binaries that drivers and an independent assembler wrote. The fields
of the metadata are named after those of AMD's compiler library (aclMetadata 0.8). Pointers have no meaning in a file;
parsing and packing keep them unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from softcard.core.record import Record, narrowed, u8, u16, u32, u64, words


class MetadataHeader64(Record, size=168):
    """The first part of the header of a kernel's metadata, which has the same fields in all driver generations.

    It has 108 bytes in 32-bit files."""

    struct_bytes: int = u64()
    data_bytes: int = u64()
    version: tuple[int, ...] = words(32, 3)  # 3, 1, 0x68
    gpu_capabilities: int = u32()
    function_id: int = u32()
    gpu_resources: tuple[int, ...] = words(32, 5)  # 0, 8, 1, 1, 2
    required_work_group_size: tuple[int, ...] = words(64, 3)
    work_region_size: tuple[int, ...] = words(32, 3)
    padding_5c: int = u32(default=0)
    kernel_name_bytes: int = u64()
    device_name_bytes: int = u64()
    memory_bytes: tuple[int, ...] = words(64, 6)
    argument_count: int = u64()


class Queue64(Record, size=48):
    """The second part of the header of a kernel's metadata, present in all files; 28 bytes in 32-bit files."""

    printf_count: int = u64(default=0)
    pointers: tuple[int, ...] = words(64, 4)
    uses_enqueue: int = u32()
    kernel_index: int = u32()


class Hint64(Record, size=56):
    """The last part of the header of a kernel's metadata, from driver 2004.06 on; 28 bytes in 32-bit files."""

    hidden_argument_count: int = u64()
    waves_per_simd_hint: int = u64()  # 0xffffffff; 0 with pipes or enqueue
    work_group_size_hint: tuple[int, ...] = words(64, 3)
    vector_type_hint_bytes: int = u64()
    vector_type_hint: int = u64(default=0)


class ArgumentEntry64(Record, size=88):
    """An argument in the metadata; 64 bytes in 32-bit files.

    `length` is the vector length, an image's or sampler's resource id, or the size of a structure. `offset` is the
    offset in a constant buffer of older drivers, in steps of 16 bytes per argument, not the offset in the kernarg
    segment. `alignment` has four flags for images: is2D, is1D, isArray, isBuffer, a byte each. `access` is the access
    of pointers and pipes: 1 read-only or unused, 2 write-only, 3 read-write.
    """

    entry_bytes: int = u64()
    name_bytes: int = u64()
    type_name_bytes: int = u64()
    pointers: tuple[int, ...] = words(64, 2)
    length: int = u32()
    constant_buffer: int = u32()
    offset: int = u32()
    type: int = u32()
    alignment: int = u32()
    pointee: int = u32()
    space: int = u32()
    access: int = u32()
    is_volatile: int = u8()
    is_restrict: int = u8()
    is_pipe: int = u8()
    padding_4b: int = u8(default=0)
    kind: int = u32()
    is_const: int = u32()
    padding_54: int = u32(default=0)


class PrintfEntry64(Record, size=48):
    """A printf format in the metadata; 24 bytes in 32-bit files."""

    entry_bytes: int = u64()
    number: int = u32()
    padding_0c: int = u32(default=0)
    size_count: int = u64()
    text_bytes: int = u64()
    pointers: tuple[int, ...] = words(64, 2, default=(0, 0))


# For either word size: the records of 32-bit files have the same fields.
MetadataHeader = MetadataHeader64
Queue = Queue64
Hint = Hint64
ArgumentEntry = ArgumentEntry64
PrintfEntry = PrintfEntry64


@dataclass(frozen=True, slots=True)
class MetadataLayout:
    """The record classes of the metadata in files of one address size."""

    header: type[MetadataHeader]
    queue: type[Queue]
    hint: type[Hint]
    entry: type[ArgumentEntry]
    printf: type[PrintfEntry]


@cache
def metadata_layout(bits: int) -> MetadataLayout:
    """Return the record classes of the metadata in files of `bits` (32 or 64); 32-bit records have no padding."""
    if bits == 64:
        return MetadataLayout(MetadataHeader64, Queue64, Hint64, ArgumentEntry64, PrintfEntry64)
    of_header = [slot.name for slot in MetadataHeader64.slots if slot.name != "padding_5c"]
    of_printf = [slot.name for slot in PrintfEntry64.slots if slot.name != "padding_0c"]
    of_entry = [slot.name for slot in ArgumentEntry64.slots if slot.name != "padding_54"]
    return MetadataLayout(
        narrowed(MetadataHeader64, "MetadataHeader32", *of_header),
        narrowed(Queue64, "Queue32"),
        narrowed(Hint64, "Hint32"),
        narrowed(ArgumentEntry64, "ArgumentEntry32", *of_entry),
        narrowed(PrintfEntry64, "PrintfEntry32", *of_printf),
    )


class SamplerInit(Record, size=8):
    """A sampler that the program defines, as in section .hsaimage_samplerinit, with the numbers of HSA."""

    record_bytes: int = u16(default=8)
    kind: int = u16(default=1)
    coordinate: int = u8()
    filter: int = u8()
    addressing: int = u8()
    reserved: int = u8(default=0)


STUB_BYTES: Final = 0xA60
"""The size in bytes of the stub before the code object in files of driver 15.7."""
DEFAULT_ISA_METADATA: Final = bytes.fromhex("0000680000000000000000084209000000000000")
"""The value of symbol __ISA_&__OpenCL_..._kernel_metadata in files of driver 15.7; its meaning is unknown."""

MEMORY_SCRATCH: Final = 3
"""The index of the word in `memory_bytes` in which driver 15.7 stores the size of private memory and pipes."""
OPTION_REQUIRED_WORK_GROUP_SIZE: Final = 1 << 2
OPTION_64_BIT: Final = 1 << 5
OPTION_USES_MEMORY: Final = 1 << 8
"""The option bit for kernels that use LDS, enqueue, pipes or scratch; only files of driver 15.7 have it."""
