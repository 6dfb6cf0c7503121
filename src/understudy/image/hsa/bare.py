"""A code object around code that has none: a kernel from words and header fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from understudy.core.errors import WireError
from understudy.image.hsa.records import (
    SGPR_GRANULE,
    USER_SGPRS,
    VGPR_GRANULE,
    CodeProperties,
    KernelCode,
    Rsrc1,
    Rsrc2,
)
from understudy.image.hsa.writer import KernelSource, write_code_object

RESERVED_SGPRS: Final = 6
"""VCC, FLAT_SCRATCH and XNACK_MASK, behind those that code names by number."""
MAX_VGPRS: Final = 256
MAX_SGPRS: Final = 102
_USERS: Final = {name.removeprefix("enable_sgpr_"): count for name, count in USER_SGPRS}
_SCRATCH: Final = ("private_segment_buffer", "flat_scratch_init")


def bare_code_object(
    code: bytes,
    agent: str,
    *,
    name: str = "kernel",
    vgprs: int = MAX_VGPRS,
    sgprs: int = 96,
    kernarg_bytes: int = 256,
    lds_bytes: int = 0,
    scratch_bytes: int = 0,
    user_sgprs: Sequence[str] = ("kernarg_segment_ptr",),
) -> bytes:
    """The V2 code object of one kernel, which begins with the first byte of `code` and has no metadata.

    Its waves begin with the user SGPRs that `user_sgprs` names (as amd_kernel_code_t does, without ``enable_sgpr_``; in
    the document's order), then the work-group's x, y and z, and with `scratch_bytes` of each work-item the wave's
    offset of private memory; v0 to v2 are the work-item's x, y and z. 32-bit denormals are flushed, as in an
    ``.amdhsa_kernel`` block that says nothing of them.
    `WireError` for an agent or user SGPR that there is not, or counts that no wave can have.
    """
    users = {*user_sgprs, *(_SCRATCH if scratch_bytes else ())}
    if unknown := sorted(users - _USERS.keys()):
        raise WireError(f"no user SGPRs {unknown[0]!r}: there are {', '.join(_USERS)}")
    for what, count, most in (("VGPRs", vgprs, MAX_VGPRS), ("SGPRs", sgprs, MAX_SGPRS)):
        if not 1 <= count <= most:
            raise WireError(f"{count} {what}, expected 1 to {most}")
    digits = agent.removeprefix("gfx")
    if len(digits) < 3 or not digits[:-1].isdigit():
        raise WireError(f"no processor {agent!r}")
    empty = KernelCode.parse(bytes(KernelCode.size_bytes))
    header = replace(
        empty,
        amd_kernel_code_version_major=1,
        amd_kernel_code_version_minor=2,
        amd_machine_kind=1,
        amd_machine_version_major=int(digits[:-2]),
        amd_machine_version_minor=int(digits[-2]),
        amd_machine_version_stepping=int(digits[-1], 16),
        compute_pgm_rsrc1=replace(
            Rsrc1.parse(bytes(Rsrc1.size_bytes)),
            granulated_workitem_vgpr_count=(vgprs - 1) // VGPR_GRANULE,
            granulated_wavefront_sgpr_count=(sgprs + RESERVED_SGPRS - 1) // SGPR_GRANULE,
            float_mode_denorm_16_64=3,
            enable_dx10_clamp=1,
            enable_ieee_mode=1,
        ),
        compute_pgm_rsrc2=replace(
            Rsrc2.parse(bytes(Rsrc2.size_bytes)),
            user_sgpr_count=sum(_USERS[each] for each in users),
            enable_sgpr_private_segment_wave_byte_offset=int(bool(scratch_bytes)),
            enable_sgpr_workgroup_id_x=1,
            enable_sgpr_workgroup_id_y=1,
            enable_sgpr_workgroup_id_z=1,
            enable_vgpr_workitem_id=2,
        ),
        kernel_code_properties=replace(
            CodeProperties.parse(bytes(CodeProperties.size_bytes)),
            private_element_size=1,
            is_ptr64=1,
            **{f"enable_sgpr_{each}": 1 for each in users},
        ),
        workitem_private_segment_byte_size=scratch_bytes,
        workgroup_group_segment_byte_size=lds_bytes,
        kernarg_segment_byte_size=kernarg_bytes,
        wavefront_sgpr_count=sgprs,
        workitem_vgpr_count=vgprs,
        kernarg_segment_alignment=4,
        group_segment_alignment=4,
        private_segment_alignment=4,
        wavefront_size=6,
        call_convention=-1,
    )
    return write_code_object("V2", agent, [KernelSource(name, code, header)])
