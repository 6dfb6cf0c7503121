"""Hostile kernel headers and metadata: from the file to the end of a launch.

What must hold: errors are of ours, and nobody reserves the memory that a file merely claims to need.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any, Final

import numpy as np

from softcard.core.errors import SoftcardError
from softcard.core.record import Record
from softcard.host.hsa.gpu import Gpu, Local
from softcard.image.hsa.code_object import read_code_object
from softcard.image.hsa.metadata import Argument, KernelMetadata
from softcard.image.hsa.records import (
    CodeProperties,
    DescriptorProperties,
    Header,
    KernelCode,
    KernelDescriptor,
    Rsrc1,
    Rsrc2,
)
from softcard.image.hsa.writer import KernelSource, write_code_object
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.target import target
from softcard.report.hsa_code import describe, lines
from tests.hostile.checks import check_error

EXTREMES: Final = (0, 3, (1 << 20) + 1, 1 << 31, (1 << 32) - 1, 1 << 33, 1 << 40, 1 << 62, -1, -(1 << 33), 1 << 63)
"""Each is cut to the width of the field that it goes into."""
CODE: Final = assemble(target("gfx900"), "s_endpgm")
ARGUMENTS: Final = (
    Argument("out", 0, 8, "global_buffer", "int*", "global"),
    Argument("n", 8, 4, "by_value", "int"),
    Argument("some", 12, 4, "by_value"),
    Argument("lds", 16, 4, "dynamic_shared_pointer", "int*", "local", pointee_align=4),
    Argument("", 24, 8, "hidden_global_offset_x"),
    Argument("", 32, 8, "hidden_printf_buffer"),
    Argument("", 40, 4, "hidden_block_count_x"),
)
METADATA: Final = KernelMetadata("k", "", ARGUMENTS, kernarg_size=64, kernarg_align=8, max_workgroup_size=256)
VALUES: Final = (np.zeros(64, np.int32), 5, 6, Local(64))
PROPERTIES: Final = {"enable_sgpr_kernarg_segment_ptr": 1}


def header(version: str) -> Header:
    """A good one."""
    rsrc2 = Rsrc2.parse(bytes(4))
    rsrc2 = replace(rsrc2, user_sgpr_count=2, enable_sgpr_workgroup_id_x=1)
    rsrc1 = replace(Rsrc1.parse(bytes(4)), enable_ieee_mode=1)
    if version in ("V1", "V2", "mesa3d"):
        good = KernelCode.parse(bytes(KernelCode.size_bytes))
        return replace(
            good, amd_kernel_code_version_major=1, amd_kernel_code_version_minor=1, amd_machine_kind=1,
            amd_machine_version_major=9, compute_pgm_rsrc1=rsrc1, compute_pgm_rsrc2=rsrc2, wavefront_size=6,
            kernel_code_properties=replace(CodeProperties.parse(bytes(4)), is_ptr64=1, **PROPERTIES),
            kernarg_segment_byte_size=64, kernarg_segment_alignment=4,
        )  # fmt: skip
    return replace(
        KernelDescriptor.parse(bytes(KernelDescriptor.size_bytes)), kernarg_size=64, compute_pgm_rsrc1=rsrc1,
        compute_pgm_rsrc2=rsrc2, kernel_code_properties=replace(DescriptorProperties.parse(bytes(2)), **PROPERTIES),
    )  # fmt: skip


def headers(good: Record) -> Iterator[tuple[str, Any]]:
    """A header with each field, also those of its parts, at each extreme."""
    for slot in good.slots:
        value = getattr(good, slot.name)
        if isinstance(value, Record):
            for name, part in headers(value):
                yield f"{slot.name}.{name}", replace(good, **{slot.name: part})
        elif isinstance(value, int):
            width = slot.spec.high - slot.spec.low + 1 if slot.spec.kind == "bits" else slot.spec.size * 8
            cut = {each & (1 << width) - 1 for each in EXTREMES}
            for each in sorted(cut):
                signed = each - (1 << width) if slot.spec.is_signed and each >> width - 1 else each
                yield f"{slot.name}={signed:#x}", replace(good, **{slot.name: signed})


def descriptions() -> Iterator[tuple[str, KernelMetadata]]:
    """Metadata with each number at each extreme, also those of its arguments."""
    numbers = sorted({each & 0xFFFF_FFFF for each in EXTREMES})
    for each in fields(KernelMetadata):
        if each.type == "int" and each.init:
            yield from ((f"{each.name}={n:#x}", replace(METADATA, **{each.name: n})) for n in numbers)
    for sizes in ((0, 0, 0), (1, 0, 1), (1 << 31, 1, 1), (1 << 16, 1 << 16, 1 << 16), (64,), (1, 1, 1, 1)):
        yield f"required={sizes}", replace(METADATA, required_workgroup_size=sizes)
    for index, argument in enumerate(ARGUMENTS):
        for name in ("offset", "size", "pointee_align"):
            for n in numbers:
                changed = (*ARGUMENTS[:index], replace(argument, **{name: n}), *ARGUMENTS[index + 1 :])
                yield f"argument {index} {name}={n:#x}", replace(METADATA, arguments=changed)


def files(version: str) -> Iterator[tuple[str, bytes]]:
    """Code objects with one hostile kernel each."""
    good = header(version)
    described = None if version in ("V1", "mesa3d") else METADATA
    for name, bad in headers(good):
        data = bytearray(write_code_object(version, "gfx900", [KernelSource("k", CODE, bad, described)]))
        at = data.find(bad.pack()[24:]) - 24  # of the header, whose entry the writer fills in
        if name.startswith("kernel_code_entry_byte_offset"):
            data[at : at + bad.size_bytes] = bad.pack()
        yield name, bytes(data)
    if version not in ("V1", "V2", "mesa3d"):  # V2 says where arguments lie by their alignment
        for name, metadata in descriptions():
            yield name, write_code_object(version, "gfx900", [KernelSource("k", CODE, good, metadata)])


def check_file(gpu: Gpu, name: str, data: bytes) -> str:
    """Show a file, load it, launch its kernel in every way that there is; the last error."""
    said = ""
    metadata = read_code_object(data).kernel("k").metadata
    lines(describe(data))
    for given in (VALUES if metadata else (), bytes(64)):
        try:
            code = gpu.load(data)
            gpu.dispatch(code.kernel("k"), 64, args=given).wait()
        except SoftcardError as error:
            check_error(error)
            said = f"{name}: {error}"
    gpu.reset()
    return said
