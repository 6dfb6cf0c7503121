"""What the header of a kernel decides for all of its launches, found once for each header."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from understudy.core.errors import AccessFault, RuleError
from understudy.core.rule import Rule
from understudy.device.hsa.rules import KERNEL_OBJECT
from understudy.engine.gcn.api import NOWHERE
from understudy.engine.gcn.memory import GpuMemory
from understudy.image.hsa.records import USER_SGPRS, LaunchFacts, Rsrc2
from understudy.isa.gcn.state import Mode

MOST_USER_SGPRS: Final = 16
"""Hardware has as many USER_DATA registers."""
BAD_CODE: Final = 8
"""Bit of queue_inactive_signal: a kernel that cannot be launched."""
KEPT: Final = 64
"""Headers whose plans are kept."""


class DispatchRefused(RuleError):
    """A packet that the packet processor cannot start; `code` is the queue error that it reports."""

    def __init__(self, message: str, code: int, rule: Rule | None = None) -> None:
        super().__init__(message, rule=rule)
        self.code = code


@dataclass(frozen=True, slots=True, eq=False)
class LaunchPlan:
    """A kernel's header, read for launches. Numbers of registers are `NOWHERE` where the waves get no such value."""

    facts: LaunchFacts
    rsrc2: int
    """The word compute_pgm_rsrc2."""
    is_ptr64: bool
    mode: int
    """The word MODE of large machine models."""
    vgprs: int
    workitem_id: int
    user_words: npt.NDArray[np.intp]
    """Which of the words of all user SGPRs, in the order of `USER_SGPRS`, the waves get."""
    group_id_sgprs: tuple[int, int, int]
    group_info_sgpr: int
    wave_offset_sgpr: int


@lru_cache(KEPT)
def _plan(data: bytes) -> LaunchPlan:
    facts = LaunchFacts.parse(data)
    rsrc2 = facts.compute_pgm_rsrc2
    words, at = [], 0
    for name, size in USER_SGPRS:
        words += list(range(at, at + size)) if getattr(facts.properties, name) else []
        at += size
    x, y, z, info, offset = _system_sgprs(rsrc2)
    return LaunchPlan(
        facts=facts,
        rsrc2=int.from_bytes(rsrc2.pack(), "little"),
        is_ptr64=facts.is_ptr64,
        mode=Mode.of_rsrc1(int.from_bytes(facts.compute_pgm_rsrc1.pack(), "little")).encode(),
        vgprs=facts.compute_pgm_rsrc1.vgprs,
        workitem_id=rsrc2.enable_vgpr_workitem_id,
        user_words=np.array(words[: min(rsrc2.user_sgpr_count, MOST_USER_SGPRS)], np.intp),
        group_id_sgprs=(x, y, z),
        group_info_sgpr=info,
        wave_offset_sgpr=offset,
    )


def _system_sgprs(rsrc2: Rsrc2) -> list[int]:
    """Registers of work-group id x, y, z, work-group info and scratch wave offset."""
    enabled = (
        rsrc2.enable_sgpr_workgroup_id_x,
        rsrc2.enable_sgpr_workgroup_id_y,
        rsrc2.enable_sgpr_workgroup_id_z,
        rsrc2.enable_sgpr_workgroup_info,
        rsrc2.enable_sgpr_private_segment_wave_byte_offset,
    )
    numbers, at = [], rsrc2.user_sgpr_count
    for bit in enabled:
        numbers.append(at if bit else NOWHERE)
        at += bit
    return numbers


def read_plan(memory: GpuMemory, kernel_object: int) -> LaunchPlan:
    """What the header of a kernel in memory decides; `DispatchRefused` where there is none."""
    if kernel_object == 0:
        raise DispatchRefused("kernel_object is 0", BAD_CODE, KERNEL_OBJECT)
    if kernel_object % 64:
        raise DispatchRefused(f"kernel_object {kernel_object:#x} is not a multiple of 64", BAD_CODE, KERNEL_OBJECT)
    try:
        return _plan(memory.read(kernel_object, LaunchFacts.size_bytes))
    except AccessFault as fault:
        raise DispatchRefused(f"kernel_object {kernel_object:#x}: {fault}", BAD_CODE, KERNEL_OBJECT) from None
