"""Strategies for AMD HSA code objects: valid ones, and ones with exactly one defect."""

from __future__ import annotations

import string
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Final, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from softcard.core.errors import WireError
from softcard.core.record import Record
from softcard.image.elf.layout import MACHINE_AMDGPU, FileHeader, ProgramHeader, SectionHeader
from softcard.image.hsa.records import (
    CodeProperties,
    DescriptorProperties,
    KernelCode,
    KernelDescriptor,
    Rsrc1,
    Rsrc2,
)
from softcard.image.hsa.writer import WITH_DESCRIPTORS, KernelSource, write_code_object
from softcard.isa.gcn.target import target
from softcard.testing.strategies.drawn import Drawn, Maker, drawn
from softcard.testing.strategies.gcn import gcn_kernels

VERSIONS: Final = ("V2", "V3", "V4", "V5", "V6")
MOST_KERNELS: Final = 3
NAMES: Final = st.text(string.ascii_lowercase, min_size=1, max_size=8)
AnyRecord = TypeVar("AnyRecord", bound=Record)
Damage = Callable[[bytes, DrawFn], bytes]


def code_objects(
    agent: str = "gfx900", *, breaks: Collection[str] | None = None, versions: Collection[str] = VERSIONS
) -> SearchStrategy[Drawn[bytes]]:
    """Draw code objects for `agent` as bytes, of one of `versions`, with one to three kernels.

    The kernels of a valid code object are those of `gcn_kernels`: they take no arguments and access no memory.
    `breaks` lists the possible defects:

    - ``elf/`` and ``magic``, ``class``, ``data`` (byte order), ``type`` or ``machine``: a wrong header field
    - ``elf/segment``: a segment outside of the file
    - ``elf/sections``: a section table outside of the file
    - ``elf/cut``: the file ends too early
    - ``hsa/os-abi``, ``hsa/abi-version``: unknown values"""
    for version in versions:
        if version not in VERSIONS:
            raise WireError(f"unknown code object version {version!r}, expected some of {', '.join(VERSIONS)}")
    valid = partial(_whole, agent, tuple(versions), gcn_kernels(agent, breaks=()))
    mistakes = {name: partial(_damaged, valid, damage) for name, damage in DAMAGES.items()}
    return drawn(valid, mistakes, breaks)


def _whole(agent: str, versions: tuple[str, ...], codes: SearchStrategy[Drawn[bytes]], draw: DrawFn) -> bytes:
    version = draw(st.sampled_from(versions))
    kernels = draw(st.dictionaries(NAMES, codes, min_size=1, max_size=MOST_KERNELS))
    sources = [KernelSource(name, code.value, _header(version, agent)) for name, code in kernels.items()]
    return write_code_object(version, agent, sources)


def _header(version: str, agent: str) -> KernelDescriptor | KernelCode:
    """Return the header of a kernel with 8 VGPRs, a few more SGPRs, and a pointer to the kernarg segment."""
    rsrc1 = _record(
        Rsrc1,
        granulated_workitem_vgpr_count=1,
        granulated_wavefront_sgpr_count=1,
        float_mode_denorm_16_64=3,
        enable_dx10_clamp=1,
        enable_ieee_mode=1,
    )
    rsrc2 = _record(Rsrc2, user_sgpr_count=2)
    if version in WITH_DESCRIPTORS:
        properties = _record(DescriptorProperties, enable_sgpr_kernarg_segment_ptr=1)
        return _record(
            KernelDescriptor, compute_pgm_rsrc1=rsrc1, compute_pgm_rsrc2=rsrc2, kernel_code_properties=properties
        )
    level = target(agent).level
    return _record(
        KernelCode,
        amd_kernel_code_version_major=1,
        amd_kernel_code_version_minor=1,
        amd_machine_kind=1,
        amd_machine_version_major=level,
        amd_machine_version_minor=int(agent[-2]),
        amd_machine_version_stepping=int(agent[-1], 16),
        compute_pgm_rsrc1=rsrc1,
        compute_pgm_rsrc2=rsrc2,
        kernel_code_properties=_record(CodeProperties, enable_sgpr_kernarg_segment_ptr=1, is_ptr64=1),
        wavefront_sgpr_count=16,
        workitem_vgpr_count=8,
        kernarg_segment_alignment=4,
        group_segment_alignment=4,
        private_segment_alignment=4,
        wavefront_size=6,
        call_convention=-1,
    )


def _record(kind: type[AnyRecord], **fields: Any) -> AnyRecord:
    """Return a record with the given fields; all others are 0."""
    blank = kind.parse(bytes(kind.size_bytes))
    return kind(**({slot.name: getattr(blank, slot.name) for slot in kind.slots} | fields))


# ---- damages ---------------------------------------------------------------------------------------------------------


def _damaged(valid: Maker[bytes], damage: Damage, draw: DrawFn) -> bytes:
    return damage(valid(draw), draw)


def _field(record: type[Record], name: str, values: SearchStrategy[int]) -> Damage:
    """Return a function that sets field `name` of the ELF header, whose class is `record`, to one of `values`."""
    slot = record.slot(name)

    def damage(data: bytes, draw: DrawFn) -> bytes:
        return _put(data, slot.offset, draw(values), slot.size_bytes)

    return damage


def _put(data: bytes, at: int, value: int, size: int) -> bytes:
    return data[:at] + value.to_bytes(size, "little") + data[at + size :]


def _byte(*right: int) -> SearchStrategy[int]:
    """Draw any byte except those in `right`, the valid values."""
    return st.integers(0, 255).filter(lambda value: value not in right)


def _no_magic(data: bytes, draw: DrawFn) -> bytes:
    at = draw(st.integers(0, 3))
    return _put(data, at, draw(_byte(data[at])), 1)


def _segment_outside(data: bytes, draw: DrawFn) -> bytes:
    """Return the file with the size of its first segment increased beyond the end of the file."""
    header = FileHeader.parse(data)
    at = header.phoff + ProgramHeader.offset_of("filesz")
    return _put(data, at, len(data) + draw(st.integers(1, 1 << 32)), 8)


def _sections_outside(data: bytes, draw: DrawFn) -> bytes:
    return _put(data, FileHeader.offset_of("shoff"), len(data) + draw(st.integers(0, 1 << 32)), 8)


def _cut(data: bytes, draw: DrawFn) -> bytes:
    """Return the file truncated within its section table, which is its last part."""
    header = FileHeader.parse(data)
    return data[: header.shoff + draw(st.integers(0, header.shnum * SectionHeader.size_bytes - 1))]


DAMAGES: Final[dict[str, Damage]] = {
    "elf/magic": _no_magic,
    "elf/class": _field(FileHeader, "file_class", _byte(2)),
    "elf/data": _field(FileHeader, "data_encoding", _byte(1)),
    "elf/type": _field(FileHeader, "type", st.integers(4, 0xFFFF) | st.just(0)),
    "elf/machine": _field(FileHeader, "machine", st.integers(0, 0xAF00).filter(lambda value: value != MACHINE_AMDGPU)),
    "elf/segment": _segment_outside,
    "elf/sections": _sections_outside,
    "elf/cut": _cut,
    "hsa/os-abi": _field(FileHeader, "os_abi", _byte(0, 64, 65, 66)),
    "hsa/abi-version": _field(FileHeader, "abi_version", st.integers(5, 255)),
}
"""The functions that damage a code object, by the name of the damage."""
