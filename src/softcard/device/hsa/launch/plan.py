"""Launch plans: the part of a launch that depends only on the kernel's header.

A plan is computed once for each header.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from softcard.core.errors import AccessFault, RuleError
from softcard.core.rule import Rule
from softcard.device.hsa import rules
from softcard.device.hsa.agents import GFX950_LDS_BYTES, LDS_BYTES
from softcard.device.hsa.rules import KERNEL_OBJECT, named
from softcard.engine.gcn.api import NOWHERE
from softcard.engine.gcn.memory import GpuMemory
from softcard.image.hsa.records import (
    MOST_USER_SGPRS,
    PRELOAD_ENTRY_BYTES,
    USER_SGPRS,
    DescriptorProperties,
    KernelCode,
    KernelDescriptor,
    LaunchFacts,
    Rsrc2,
    descriptor_faults,
    filled_in,
    user_sgprs,
)
from softcard.isa.gcn.state import Mode
from softcard.isa.gcn.target import Target

BAD_CODE: Final = 8
"""The bit of queue_inactive_signal for a kernel that cannot be launched."""
KERNARG_BYTES: Final = 16
"""The smallest valid kernarg_segment_alignment, in bytes."""
CACHED_PLANS: Final = 64
"""The maximum number of headers whose launch plans are cached."""


class DispatchRefused(RuleError):
    """The error for a packet that the packet processor cannot start; `code` is the resulting queue error."""

    def __init__(self, message: str, code: int, rule: Rule | None = None) -> None:
        super().__init__(message, rule=rule)
        self.code = code


@dataclass(frozen=True, slots=True, eq=False)
class LaunchPlan:
    """The decoded header of a kernel, prepared for launches.

    A field for the number of a register is `NOWHERE` if waves do not get the value in a register."""

    facts: LaunchFacts
    entry_offset: int
    """The offset of the first instruction from the header, in bytes."""
    rsrc2: int
    """The word compute_pgm_rsrc2."""
    is_ptr64: bool
    mode: int
    """The value of the MODE register for kernels of the large machine model."""
    vgprs: int
    """The number of vector registers that each work-item can access."""
    allocated_vgprs: int
    """The number of rows of the register file that a wave takes.

    If accumulation registers are a part of that file, they are included.
    """
    workitem_id: int
    user_words: npt.NDArray[np.intp]
    """For each user SGPR of the kernel, the index of its word among all possible words (`USER_SGPRS`)."""
    preload: Preload | None
    group_id_sgprs: tuple[int, int, int]
    group_info_sgpr: int
    wave_offset_sgpr: int
    sets_flat_scratch: bool
    """True if FLAT_SCRATCH initially holds the address of the wave's private memory."""
    tg_split: bool
    """True if the waves of a work-group may run on different compute units; such a work-group has no LDS."""
    faults: tuple[tuple[str, Rule], ...]
    """The reasons why the processor cannot start the kernel."""
    oddities: tuple[tuple[str, str, Rule], ...]
    """The lints about the header, for example for a reserved bit that is set (choice `hsa/kernel-headers`).

    Each has a name, a message and a rule.
    """
    doubt: str
    """The reason why the bytes cannot be the header of a kernel; "" if they can be one."""

    def has_arguments(self, memory: GpuMemory, kernel_object: int) -> bool:
        """Return True if the header at `kernel_object` shows that the kernel has a kernarg segment.

        This is the case if the segment's size in the header is not 0 and a user SGPR holds the segment's address."""
        if not self.facts.properties.enable_sgpr_kernarg_segment_ptr:
            return False
        header = KernelCode if self.facts.is_kernel_code else KernelDescriptor
        name, size = ("kernarg_segment_byte_size", 8) if header is KernelCode else ("kernarg_size", 4)
        return any(memory.read(kernel_object + header.offset_of(name), size))


@dataclass(frozen=True, slots=True)
class Preload:
    """The kernel arguments that are preloaded into user SGPRs.

    They are `dwords` dwords of the kernarg segment, starting at byte `offset`. They are in consecutive registers,
    starting at number `sgpr`."""

    sgpr: int
    offset: int
    dwords: int


@lru_cache(CACHED_PLANS)
def _plan(data: bytes, target: Target) -> LaunchPlan:
    facts = LaunchFacts.parse(data)
    rsrc2 = facts.compute_pgm_rsrc2
    words, at = [], 0
    for name, size in USER_SGPRS:
        words += list(range(at, at + size)) if getattr(facts.properties, name) else []
        at += size
    faults = tuple(_faults(facts, data, target))
    preload = None if faults else _preload(data, target, len(words), rsrc2)
    is_architected = target.has_architected_scratch
    x, y, z, info, offset = system_sgprs(rsrc2, is_architected)
    allocated = facts.compute_pgm_rsrc1.vgprs(target.vgpr_granule)
    return LaunchPlan(
        facts=facts,
        entry_offset=facts.kernel_code_entry_byte_offset + (PRELOAD_ENTRY_BYTES if preload else 0),
        rsrc2=int.from_bytes(rsrc2.pack(), "little"),
        is_ptr64=facts.is_ptr64,
        mode=Mode.of_rsrc1(int.from_bytes(facts.compute_pgm_rsrc1.pack(), "little")).encode(),
        vgprs=facts.compute_pgm_rsrc3.accum_offset if target.has_unified_registers else allocated,
        allocated_vgprs=allocated,
        workitem_id=rsrc2.enable_vgpr_workitem_id,
        user_words=np.array(words[: min(rsrc2.user_sgpr_count, MOST_USER_SGPRS)], np.intp),
        preload=preload,
        group_id_sgprs=(x, y, z),
        group_info_sgpr=info,
        wave_offset_sgpr=offset,
        sets_flat_scratch=is_architected and bool(rsrc2.enable_sgpr_private_segment_wave_byte_offset),
        tg_split=target.has_unified_registers and bool(facts.compute_pgm_rsrc3.tg_split),
        faults=faults,
        doubt=_doubt(facts, data, target),
        oddities=tuple(_oddities(facts, preload)),
    )


def _faults(facts: LaunchFacts, data: bytes, target: Target) -> Iterator[tuple[str, Rule]]:
    """Yield the reasons why a processor cannot start a kernel, each with the rule that the header violates."""
    if not target.has_unified_registers and facts.amd_kernel_code_version_major == 1:
        return  # an amd_kernel_code_t: older compilers leave the machine's fields 0
    if not facts.is_kernel_code:
        for name, text in descriptor_faults(KernelDescriptor.parse(data), target):
            yield text, named(name)
    else:
        text = f"an amd_kernel_code_t has no compute_pgm_rsrc3, expected a kernel descriptor for {target} (V3 or later)"
        yield text, rules.ACCUM_OFFSET


def _preload(data: bytes, target: Target, enabled: int, rsrc2: Rsrc2) -> Preload | None:
    """Return the preloaded arguments that a kernel descriptor requests, or None if it requests none.

    `enabled` is the number of user SGPRs that precede the preloaded arguments."""
    if not target.has_kernarg_preload:
        return None
    header = KernelDescriptor.parse(data)
    most = min(rsrc2.user_sgpr_count, MOST_USER_SGPRS) - enabled
    dwords = min(header.kernarg_preload_length, max(most, 0))
    return Preload(enabled, 4 * header.kernarg_preload_offset, dwords) if header.kernarg_preload_length else None


def _doubt(facts: LaunchFacts, data: bytes, target: Target) -> str:
    """Return the reason why `data` cannot be a kernel's header; "" if it can be one."""
    offset = facts.kernel_code_entry_byte_offset
    if 0 <= offset < len(data):
        return f"its entry offset is {offset}, which lies in the header itself"
    if offset % 4:
        return f"its entry offset is {offset}, expected a multiple of 4"
    if facts.is_kernel_code or facts.amd_kernel_code_version_major == 1:  # older compilers leave the machine's fields 0
        return ""
    descriptor = KernelDescriptor.parse(data)
    if found := descriptor.reserved_set():
        return f"its reserved bytes at {found[0].where} are not 0"
    if descriptor.group_segment_fixed_size > (GFX950_LDS_BYTES if "gfx950" in target.has else LDS_BYTES):
        return f"its size of LDS is {descriptor.group_segment_fixed_size} bytes, more than the GPU has"
    return ""


def _oddities(facts: LaunchFacts, preload: Preload | None) -> Iterator[tuple[str, str, Rule]]:
    """Yield a lint for each requirement of the ROCm Code Object specification that the header violates.

    Each lint is a tuple of a name, a message and a rule."""
    rsrc1, rsrc2 = facts.compute_pgm_rsrc1, facts.compute_pgm_rsrc2
    asked = user_sgprs(facts.properties) + (0 if preload is None else preload.dwords)
    if asked != rsrc2.user_sgpr_count:
        text = f"user_sgpr_count is {rsrc2.user_sgpr_count}, expected {asked}, which the enable bits add up to"
        yield "user-sgpr-count", text, rules.USER_SGPR_COUNT
    if names := filled_in(rsrc1):
        text = f"compute_pgm_rsrc1 sets {', '.join(names)}, expected 0: the packet processor fills them in"
        yield "reserved-for-cp", text, rules.RESERVED_FOR_CP
    properties = facts.properties if facts.is_kernel_code else DescriptorProperties.parse(facts.properties.pack()[:2])
    for name, part in (("compute_pgm_rsrc1", rsrc1), ("compute_pgm_rsrc2", rsrc2), ("properties", properties)):
        if slots := part.reserved_set():
            yield "reserved", f"{', '.join(f'{name} {slot.where}' for slot in slots)} must be 0", rules.RESERVED_ZERO


def system_sgprs(rsrc2: Rsrc2, is_architected: bool) -> list[int]:
    """Return the register numbers of work-group id x, y and z, work-group info, and scratch wave offset.

    If `is_architected`, FLAT_SCRATCH initially holds the address of private memory, and no register holds the
    scratch wave offset. The number of a disabled register is `NOWHERE`."""
    enabled = (
        rsrc2.enable_sgpr_workgroup_id_x,
        rsrc2.enable_sgpr_workgroup_id_y,
        rsrc2.enable_sgpr_workgroup_id_z,
        rsrc2.enable_sgpr_workgroup_info,
        0 if is_architected else rsrc2.enable_sgpr_private_segment_wave_byte_offset,
    )
    numbers, at = [], rsrc2.user_sgpr_count
    for bit in enabled:
        numbers.append(at if bit else NOWHERE)
        at += bit
    return numbers


def read_plan(memory: GpuMemory, kernel_object: int, target: Target) -> LaunchPlan:
    """Return the launch plan of the kernel whose header is at `kernel_object`.

    Raise `DispatchRefused` if the bytes cannot be a header, or if the processor cannot start the kernel.
    """
    if kernel_object == 0:
        raise DispatchRefused("kernel_object is 0, expected the address of a kernel header", BAD_CODE, KERNEL_OBJECT)
    if kernel_object % 64:
        raise DispatchRefused(
            f"kernel_object is {kernel_object:#x}, expected a multiple of 64", BAD_CODE, KERNEL_OBJECT
        )
    try:
        plan = _plan(memory.read(kernel_object, LaunchFacts.size_bytes), target)
    except AccessFault as fault:
        raise DispatchRefused(
            f"kernel_object {kernel_object:#x} cannot be read: {fault}", BAD_CODE, KERNEL_OBJECT
        ) from None
    if plan.doubt:
        raise DispatchRefused(
            f"kernel_object {kernel_object:#x} does not point to a kernel header ({plan.doubt}), expected the address "
            "of an amd_kernel_code_t or of a kernel descriptor (symbol NAME.kd), not that of code",
            BAD_CODE,
            KERNEL_OBJECT,
        )
    for text, rule in plan.faults:
        raise DispatchRefused(f"kernel_object {kernel_object:#x}: {text}", BAD_CODE, rule)
    return plan
