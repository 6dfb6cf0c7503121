"""Code objects of kernels by what they ask for: CLRX's features, dimensions, registers, memory.

The document's "Passing options" says how many user data registers which features need; its rules for GFX9 and for the
single features were made precise by assembling every combination.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from understudy.core.errors import WireError
from understudy.image.amdcl2.generations import Generation
from understudy.image.hsa.records import (
    CodeProperties,
    ControlDirectives,
    KernelCode,
    Rsrc1,
    Rsrc2,
    user_sgprs,
)
from understudy.isa.gcn.target import GFX8, GFX9

FLOAT_DENORM_16_64: Final = 3
"""Real kernels keep denormals of binary16 and binary64 and flush those of binary32."""


@dataclass(frozen=True, slots=True)
class Features:
    """What a kernel asks for, by CLRX's words. The strongest counts: generic, enqueue, setup, arguments."""

    usesetup: bool = False
    useargs: bool = False
    useenqueue: bool = False
    usegeneric: bool = False


def code_properties(
    level: int, features: Features, bits: int = 64, generation: Generation = Generation.CRIMSON_16_4
) -> CodeProperties:
    """The properties word of the code object for a combination of features, on GFX7, GFX8 or GFX9."""
    has_dispatch = features.usegeneric or features.useenqueue or features.usesetup
    # GFX9 initialises FLAT_SCRATCH always, whether the kernel asks for it or not.
    has_flat_scratch = features.usegeneric or features.useenqueue or level == GFX9
    return CodeProperties(
        enable_sgpr_private_segment_buffer=1,
        enable_sgpr_dispatch_ptr=int(has_dispatch),
        enable_sgpr_queue_ptr=int(features.usegeneric),
        enable_sgpr_kernarg_segment_ptr=int(has_dispatch or features.useargs),
        enable_sgpr_dispatch_id=0,
        enable_sgpr_flat_scratch_init=int(has_flat_scratch),
        enable_sgpr_private_segment_size=0,
        enable_sgpr_grid_workgroup_count_x=0,
        enable_sgpr_grid_workgroup_count_y=0,
        enable_sgpr_grid_workgroup_count_z=0,
        enable_ordered_append_gds=0,
        private_element_size=1,
        is_ptr64=int(bits == 64),
        is_dynamic_callstack=0,
        is_debug_enabled=0,
        is_xnack_enabled=int(level >= GFX8 and generation is Generation.CRIMSON),
    )


@dataclass(frozen=True, slots=True)
class KernelNeeds:
    """What a kernel needs besides its features. `dimensions` is "x", "xy" or "xyz": which ids it gets."""

    dimensions: str = "x"
    sgprs: int = 32
    vgprs: int = 32
    lds_bytes: int = 0
    scratch_bytes: int = 0
    kernarg_bytes: int = 0
    work_group_info: bool = False


def kernel_code(level: int, features: Features, needs: KernelNeeds, bits: int, generation: Generation) -> KernelCode:
    """The code object of a kernel whose code follows it directly; `WireError` for dimensions that are none."""
    if needs.dimensions not in ("x", "xy", "xyz"):
        raise WireError(f"dimensions {needs.dimensions!r}, expected x, xy or xyz")
    is_new = generation.has_inner_elf
    properties = code_properties(level, features, bits, generation)
    ids = len(needs.dimensions)
    return KernelCode(
        amd_kernel_code_version_major=1,
        amd_kernel_code_version_minor=int(is_new),
        amd_machine_kind=1,
        amd_machine_version_major=0,
        amd_machine_version_minor=0,
        amd_machine_version_stepping=0,
        kernel_code_entry_byte_offset=KernelCode.size_bytes,
        kernel_code_prefetch_byte_offset=0,
        kernel_code_prefetch_byte_size=0,
        max_scratch_backing_memory_byte_size=0,
        compute_pgm_rsrc1=_rsrc1(needs, is_new),
        compute_pgm_rsrc2=_rsrc2(needs, user_sgprs(properties), ids, 3 if features.useenqueue else ids),
        kernel_code_properties=properties,
        workitem_private_segment_byte_size=needs.scratch_bytes,
        workgroup_group_segment_byte_size=needs.lds_bytes,
        gds_segment_byte_size=0,
        kernarg_segment_byte_size=needs.kernarg_bytes,
        workgroup_fbarrier_count=0,
        wavefront_sgpr_count=needs.sgprs,
        workitem_vgpr_count=needs.vgprs,
        reserved_vgpr_first=0,
        reserved_vgpr_count=0,
        reserved_sgpr_first=0,
        reserved_sgpr_count=0,
        debug_wavefront_private_segment_offset_sgpr=0,
        debug_private_segment_buffer_sgpr=0,
        kernarg_segment_alignment=4 if is_new else 3,
        group_segment_alignment=4,
        private_segment_alignment=4,
        wavefront_size=6,
        call_convention=0,
        runtime_loader_kernel_symbol=0,
        control_directives=ControlDirectives.parse(bytes(ControlDirectives.size_bytes)),
    )


def _rsrc1(needs: KernelNeeds, is_new: bool) -> Rsrc1:
    return Rsrc1(
        granulated_workitem_vgpr_count=(max(needs.vgprs, 1) - 1) // 4,
        granulated_wavefront_sgpr_count=(max(needs.sgprs, 1) - 1) // 8,
        priority=0,
        float_mode_round_32=0,
        float_mode_round_16_64=0,
        float_mode_denorm_32=0,
        float_mode_denorm_16_64=FLOAT_DENORM_16_64,
        priv=0,
        enable_dx10_clamp=int(is_new),
        debug_mode=0,
        enable_ieee_mode=0,
        bulky=0,
        cdbg_user=0,
        fp16_overflow=0,
    )


def _rsrc2(needs: KernelNeeds, user: int, groups: int, items: int) -> Rsrc2:
    return Rsrc2(
        enable_sgpr_private_segment_wave_byte_offset=int(needs.scratch_bytes > 0),
        user_sgpr_count=user,
        enable_trap_handler=0,
        enable_sgpr_workgroup_id_x=1,
        enable_sgpr_workgroup_id_y=int(groups > 1),
        enable_sgpr_workgroup_id_z=int(groups > 2),
        enable_sgpr_workgroup_info=int(needs.work_group_info),
        enable_vgpr_workitem_id=items - 1,
        enable_exception_address_watch=0,
        enable_exception_memory_violation=0,
        granulated_lds_size=0,
        enable_exception_ieee_754_fp_invalid_operation=0,
        enable_exception_fp_denormal_source=0,
        enable_exception_ieee_754_fp_division_by_zero=0,
        enable_exception_ieee_754_fp_overflow=0,
        enable_exception_ieee_754_fp_underflow=0,
        enable_exception_ieee_754_fp_inexact=0,
        enable_exception_int_divide_by_zero=0,
    )
