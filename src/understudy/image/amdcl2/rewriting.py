"""Programs that were read from a file and changed: what is other is set in that file, whatever else it holds."""

from __future__ import annotations

from collections.abc import Iterator

from understudy.core.errors import WireError
from understudy.image.amdcl2.container import GLOBAL, READ_ONLY, SAMPLERS, Container, read_container
from understudy.image.amdcl2.elf import Elf
from understudy.image.amdcl2.source import KernelSource, ProgramSource, source_of


def rewritten(source: ProgramSource) -> bytes | None:
    """The bytes of the file that a source was read from, with what was changed; None where there is no room for it."""
    origin = source.origin
    if origin is None:
        return None
    before = source_of(origin)
    if source == before:
        return origin.elf.data
    if [kernel.name for kernel in source.kernels] != [kernel.name for kernel in before.kernels]:
        return None
    out = bytearray(origin.elf.data)
    old, new = (list(_pieces(each, origin)) for each in (before, source))
    for (place, was), (_, now) in zip(old, new, strict=True):
        if len(was) != len(now):
            return None
        if was != now:
            out[place : place + len(now)] = now
    try:  # what is not in any piece, or in several, comes back changed
        return bytes(out) if source_of(read_container(bytes(out))) == source else None
    except WireError:
        return None


def _pieces(source: ProgramSource, origin: Container) -> Iterator[tuple[int, bytes]]:
    """What has a place of its own in the file, with that place."""
    for kernel in source.kernels:
        yield from _kernel_pieces(kernel, origin)
    sections: list[tuple[Elf | None, str, bytes]] = [
        (origin.elf, ".brig", source.brig),
        (origin.inner, READ_ONLY, source.read_only),
        (origin.inner, GLOBAL, source.global_data),
        (origin.inner, SAMPLERS, b"".join(each.pack() for each in source.samplers)),
    ]
    for elf, name, data in sections:
        yield (elf.base + elf.extent(elf.section(name))[0] if elf is not None else 0), data


def _kernel_pieces(kernel: KernelSource, origin: Container) -> Iterator[tuple[int, bytes]]:
    place = origin.kernels[kernel.name].place
    yield place - len(kernel.stub), kernel.stub
    yield place, kernel.header.pack()
    yield place + kernel.header.kernel_code_entry_byte_offset, kernel.code
    yield origin.metadata_bytes(kernel.name)[1], kernel.metadata
