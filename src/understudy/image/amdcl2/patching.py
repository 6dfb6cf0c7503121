"""A kernel's machine code replaced in the file of a program, whatever else that holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from understudy.core.errors import WireError
from understudy.image.amdcl2.container import Container
from understudy.image.amdcl2.source import KernelSource, source_of
from understudy.image.amdcl2.writer import write_container
from understudy.image.hsa.records import SGPR_GRANULE, VGPR_GRANULE, KernelCode
from understudy.isa.gcn.state import VGPRS

WORD: Final = 4
MOST_SGPRS: Final = 104
"""Scalar registers of a wave, VCC among them, on every processor."""


def patched(container: Container, kernel: str, code: bytes, *, vgprs: int = 0, sgprs: int = 0) -> bytes:
    """The file with `code` as the machine code of a kernel, which may be longer or shorter than before.

    `vgprs` and `sgprs` are how many registers the code needs, VCC and the like among the scalar ones, where that is
    more than the kernel's header says; the header has the larger number then. What the loader sets in the code
    (relocations) stays where it is: up to the last of these places the code must be as it was. `WireError` for what
    the file cannot hold.
    """
    if not code or len(code) % WORD:
        raise WireError(f"{len(code)} bytes are no code of whole words")
    name = container.kernel(kernel).name
    source = source_of(container)
    kernels = tuple(_patched(each, code, vgprs, sgprs) if each.name == name else each for each in source.kernels)
    return write_container(replace(source, kernels=kernels))


def _patched(kernel: KernelSource, code: bytes, vgprs: int, sgprs: int) -> KernelSource:
    places = [(each.offset, 8 if each.whole else 4) for each in kernel.relocations]
    end = max((at + width for at, width in places), default=0)
    kept = bytearray(code)
    for at, width in places:
        kept[at : at + width] = kernel.code[at : at + width]  # in text they are what the loader would set
    if kept[:end] != kernel.code[:end]:
        pairs = enumerate(zip(kept, kernel.code, strict=False))
        byte = next((n for n, (now, before) in pairs if now != before), len(code))
        text = f"the loader sets {len(places)} addresses in the code of {kernel.name}, the last at {places[-1][0]:#x}"
        raise WireError(f"{text}: up to there it must stay as it was").at("byte", byte, "of the code")
    return replace(kernel, code=bytes(kept), header=_with_registers(kernel.header, vgprs, sgprs))


def _with_registers(header: KernelCode, vgprs: int, sgprs: int) -> KernelCode:
    """The header with as many registers at least."""
    for count, most, what in ((vgprs, VGPRS, "vector"), (sgprs, MOST_SGPRS, "scalar")):
        if not 0 <= count <= most:
            raise WireError(f"{count} {what} registers, expected at most {most}")
    settings = header.compute_pgm_rsrc1
    if vgprs > settings.vgprs:
        settings = replace(settings, granulated_workitem_vgpr_count=-(-vgprs // VGPR_GRANULE) - 1)
    if sgprs > settings.sgprs:
        settings = replace(settings, granulated_wavefront_sgpr_count=-(-sgprs // SGPR_GRANULE) - 1)
    return replace(
        header,
        compute_pgm_rsrc1=settings,
        workitem_vgpr_count=max(header.workitem_vgpr_count, vgprs),
        wavefront_sgpr_count=max(header.wavefront_sgpr_count, sgprs),
    )
