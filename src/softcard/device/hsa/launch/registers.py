"""Launches that PM4 commands start: from compute registers, without an AQL packet and a kernel's header.

SET_SH_REG writes the registers COMPUTE_*, DISPATCH_DIRECT starts the work-groups. Register numbers and fields are
those of the kernel driver's headers for GFX9."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from softcard.core.errors import BeyondModel, RuleError
from softcard.core.record import Record, bits
from softcard.device.hsa.launch.first_state import (
    BAD_DIMENSION,
    LDS_GRANULE,
    Size,
    Surroundings,
    check_limits,
    check_registers,
    work_groups,
)
from softcard.device.hsa.launch.plan import BAD_CODE, DispatchRefused, system_sgprs
from softcard.engine.gcn.api import Dispatch
from softcard.image.hsa.records import Rsrc1, Rsrc2, Rsrc3
from softcard.isa.gcn.state import CHECKED, LANES, Mode

GFX950_LDS_GRANULE: Final = 1280
SCRATCH_GRANULE: Final = 1024
"""The unit of the private memory of a wave in COMPUTE_TMPRING_SIZE, in bytes."""
ADDRESS_SHIFT: Final = 8
"""The number of address bits that the registers for addresses omit."""
USER_REGISTERS: Final = 16


class ComputeRegister(IntEnum):
    """The numbers of compute registers, in dwords from the first register that SET_SH_REG can write."""

    START_X = 0x204
    NUM_THREAD_X = 0x207
    PGM_LO = 0x20C
    PGM_HI = 0x20D
    DISPATCH_SCRATCH_BASE_LO = 0x210
    DISPATCH_SCRATCH_BASE_HI = 0x211
    PGM_RSRC1 = 0x212
    PGM_RSRC2 = 0x213
    TMPRING_SIZE = 0x218
    PGM_RSRC3 = 0x22D
    USER_DATA_0 = 0x240


FIRST: Final = 0x200
"""The number of the first compute register."""
COUNT: Final = 0x80
"""The number of compute registers.

Those that `ComputeRegister` does not name select compute units, or are for profiling and context switches. They have no
effect on results.
"""


class DispatchInitiator(Record, size=4):
    """The register COMPUTE_DISPATCH_INITIATOR, which DISPATCH_DIRECT contains. Reserved bits select cache policies."""

    compute_shader_en: int = bits(0, 0, default=1)
    partial_tg_en: int = bits(1, 1, default=0)
    force_start_at_000: int = bits(2, 2, default=0)
    ordered_append_enbl: int = bits(3, 3, default=0)
    ordered_append_mode: int = bits(4, 4, default=0)
    use_thread_dimensions: int = bits(5, 5, default=0)
    order_mode: int = bits(6, 6, default=0)
    cache_control: int = bits(12, 7, default=0)
    reserved_13: int = bits(13, 13, default=0)
    restore: int = bits(14, 14, default=0)
    reserved_15: int = bits(31, 15, default=0)


class TmpringSize(Record, size=4):
    """The register COMPUTE_TMPRING_SIZE: the number of waves with private memory, and its size for each wave.

    The size is in units of 1 KiB."""

    waves: int = bits(11, 0)
    wave_size: int = bits(24, 12)
    reserved_25: int = bits(31, 25, default=0)


class DispatchDirect(NamedTuple):
    """The body of the PM4 command DISPATCH_DIRECT: the size of the grid in work-groups or work-items."""

    x: int
    y: int
    z: int
    initiator: int


class ComputeRegisters:
    """The compute registers of one PM4 queue; all are initially 0."""

    def __init__(self) -> None:
        self._values = [0] * COUNT

    def store(self, first: int, values: Sequence[int]) -> None:
        """Store consecutive registers from number `first` on.

        Raise `BeyondModel` for other registers."""
        if not FIRST <= first <= first + len(values) <= FIRST + COUNT:
            raise BeyondModel(
                f"registers {first:#x} to {first + len(values) - 1:#x} are not modelled, expected compute registers "
                f"({FIRST:#x} to {FIRST + COUNT - 1:#x})"
            )
        self._values[first - FIRST : first - FIRST + len(values)] = values

    def load(self, number: int, count: int = 1) -> list[int]:
        """Return the values of `count` registers from `number` on."""
        return self._values[number - FIRST : number - FIRST + count]

    def __getitem__(self, number: ComputeRegister) -> int:
        """Return the value of a register."""
        return self._values[number - FIRST]

    @property
    def rsrc2(self) -> Rsrc2:
        """The fields of COMPUTE_PGM_RSRC2."""
        return Rsrc2.parse(self[ComputeRegister.PGM_RSRC2].to_bytes(4, "little"))

    def address(self, low: ComputeRegister) -> int:
        """Return the address in the two registers from `low` on."""
        first, second = self.load(low, 2)
        return (first | second << 32) << ADDRESS_SHIFT


def launch_registers(
    around: Surroundings, registers: ComputeRegisters, command: DispatchDirect, **options: Any
) -> Dispatch:
    """Return the dispatch that `command` starts from the compute registers.

    `options` are passed to `Dispatch`. Raise `DispatchRefused` for values with which no work-group can start, and
    `BeyondModel` for features that are not modelled."""
    target, word = around.target, registers[ComputeRegister.PGM_RSRC1]
    rsrc1, rsrc2 = Rsrc1.parse(word.to_bytes(4, "little")), registers.rsrc2
    group = _workgroup(registers)
    granule = GFX950_LDS_GRANULE if "gfx950" in target.has else LDS_GRANULE
    lds_bytes = rsrc2.granulated_lds_size * granule
    check_limits(around, prod(group), lds_bytes)
    shapes, groups = work_groups(
        _grid(registers, command, group), group, rsrc2.enable_vgpr_workitem_id, packed=target.has_packed_ids
    )
    vgprs = allocated = rsrc1.vgprs(target.vgpr_granule)
    tg_split = False
    if target.has_unified_registers:
        rsrc3 = Rsrc3.parse(registers[ComputeRegister.PGM_RSRC3].to_bytes(4, "little"))
        vgprs, tg_split = rsrc3.accum_offset, bool(rsrc3.tg_split)
        if vgprs > allocated:
            text = f"COMPUTE_PGM_RSRC3 has an accum_offset of {vgprs}, but a wave has {allocated} vector registers"
            raise DispatchRefused(text, BAD_CODE)
    check_registers(allocated, shapes.most_waves, target)
    if rsrc2.user_sgpr_count > USER_REGISTERS:
        text = f"COMPUTE_PGM_RSRC2 asks for {rsrc2.user_sgpr_count} user SGPRs, expected at most {USER_REGISTERS}"
        raise DispatchRefused(text, BAD_CODE)
    entry = registers.address(ComputeRegister.PGM_LO)
    if not 0 <= entry < around.memory.limit:
        raise DispatchRefused(
            f"COMPUTE_PGM_LO and HI have {entry:#x}, expected an address below {around.memory.limit:#x}", BAD_CODE
        )
    is_architected = target.has_architected_scratch
    x, y, z, info, offset = system_sgprs(rsrc2, is_architected)
    ring = TmpringSize.parse(registers[ComputeRegister.TMPRING_SIZE].to_bytes(4, "little"))
    has_scratch = bool(rsrc2.enable_sgpr_private_segment_wave_byte_offset and ring.waves and ring.wave_size)
    if has_scratch and ring.waves < shapes.most_waves:
        text = f"COMPUTE_TMPRING_SIZE has private memory for {ring.waves} waves, a work-group has {shapes.most_waves}"
        raise DispatchRefused(text, BAD_CODE)
    base = registers.address(ComputeRegister.DISPATCH_SCRATCH_BASE_LO) if has_scratch and is_architected else 0
    return Dispatch(
        target=target,
        memory=around.memory,
        entry=entry,
        shapes=shapes,
        groups=groups,
        sgprs=np.array(registers.load(ComputeRegister.USER_DATA_0, rsrc2.user_sgpr_count), np.uint32),
        group_id_sgprs=(x, y, z),
        group_info_sgpr=info,
        wave_offset_sgpr=offset,
        sets_flat_scratch=is_architected and has_scratch,
        tg_split=tg_split,
        xccs=around.xccs,
        mode=Mode.of_rsrc1(word).encode() | (around.memory.guard is not None) * CHECKED,
        vgpr_count=vgprs,
        lds_bytes=lds_bytes,
        lds_requested=None if around.memory.guard is None else lds_bytes,
        shared_base=around.shared_base,
        private_base=around.private_base,
        scratch_base=base,
        scratch_lane_bytes=ring.wave_size * SCRATCH_GRANULE // LANES if has_scratch else 0,
        scratch_slots=ring.waves if has_scratch else 0,
        **options,
    )


def _workgroup(registers: ComputeRegisters) -> Size:
    """Return the size of full work-groups, from COMPUTE_NUM_THREAD_X to Z."""
    x, y, z = (value & 0xFFFF for value in registers.load(ComputeRegister.NUM_THREAD_X, 3))
    if not x * y * z:
        raise DispatchRefused(
            f"COMPUTE_NUM_THREAD_X to Z are {(x, y, z)}, expected 1 or more in each dimension", BAD_DIMENSION
        )
    return x, y, z


def _grid(registers: ComputeRegisters, command: DispatchDirect, group: Size) -> Size:
    """Return the size of the grid in work-items."""
    initiator = DispatchInitiator.parse(command.initiator.to_bytes(4, "little"))
    if not initiator.compute_shader_en:
        raise RuleError("DISPATCH_DIRECT does not set COMPUTE_SHADER_EN, expected bit 0 of its initiator to be 1")
    odd = ("ordered_append_enbl", "ordered_append_mode", "restore", "reserved_13", "reserved_15")
    if names := [name for name in odd if getattr(initiator, name)]:
        raise BeyondModel(f"DISPATCH_DIRECT sets {', '.join(names)} in its initiator, which are not modelled")
    if not initiator.force_start_at_000 and any(registers.load(ComputeRegister.START_X, 3)):
        raise BeyondModel("COMPUTE_START_X to Z are not 0: dispatches of a part of a grid are not modelled")
    sizes = command.x, command.y, command.z
    if not all(sizes):
        raise DispatchRefused(
            f"DISPATCH_DIRECT has the size {sizes}, expected 1 or more in each dimension", BAD_DIMENSION
        )
    if not initiator.use_thread_dimensions:
        return sizes[0] * group[0], sizes[1] * group[1], sizes[2] * group[2]
    if not initiator.partial_tg_en and any(size % each for size, each in zip(sizes, group, strict=True)):
        raise BeyondModel(
            f"the grid {sizes} is not a multiple of the work-group {group}, but PARTIAL_TG_EN is 0: which work-items "
            "start is not modelled"
        )
    return sizes
