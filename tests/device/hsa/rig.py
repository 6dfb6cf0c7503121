"""A device with one queue, kernels from assembly text, and packets."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from softcard.core.event import Event
from softcard.device.hsa.device import HsaDevice
from softcard.device.hsa.queues.aql_queue import Queue
from softcard.device.hsa.queues.packets import BarrierPacket, KernelDispatchPacket, PacketType
from softcard.device.hsa.queues.signals import Signal
from softcard.image.hsa.records import USER_SGPRS
from softcard.isa.gcn.asm.assembler import assemble

ENTRY = 256
RSRC1 = 0x00AC_0000
"""Denormals kept, DX10_CLAMP and IEEE, as compilers have it."""
PTR64 = 19
"""Bit of kernel_code_properties."""
KERNARG = "enable_sgpr_kernarg_segment_ptr"

STORE = {
    7: "s_waitcnt vmcnt(0) lgkmcnt(0)\nflat_store_dword v[0:1], v2",
    8: "s_waitcnt vmcnt(0) lgkmcnt(0)\nflat_store_dword v[0:1], v2",
    9: "s_waitcnt vmcnt(0) lgkmcnt(0)\nflat_store_dword v[0:1], v2",
}

COUNT = """
    v_mov_b32 v0, s0
    v_mov_b32 v1, s1
    v_mov_b32 v2, 1
    flat_atomic_add v[0:1], v2
    s_endpgm
"""
"""Adds 1 to the dword at the kernarg address, for every work-item."""


FLAT_SCRATCH = "enable_sgpr_flat_scratch_init"
WAVE_OFFSET = 1
"""Bit of rsrc2: the first system SGPR is the scratch wave offset."""


def flat_scratch(agent: str, init: int) -> str:
    """The prologue that sets up FLAT_SCRATCH, from s[init:init + 1] and the wave offset behind them."""
    if agent == "gfx900":
        return f"s_add_u32 flat_scratch_lo, s{init}, s{init + 2}\ns_addc_u32 flat_scratch_hi, s{init + 1}, 0\n"
    return (
        f"s_add_u32 s{init}, s{init}, s{init + 2}\ns_lshr_b32 flat_scratch_hi, s{init}, 8\n"
        f"s_mov_b32 flat_scratch_lo, s{init + 1}\n"
    )


class Bench:
    """A device and its queue; `events` holds all that it told, if it was asked to listen."""

    def __init__(self, agent: str = "gfx900", size: int = 64, listen: bool = False, **options: Any) -> None:
        self.device = HsaDevice(agent, threads=1, **options)
        self.events: list[Event] = []
        if listen:
            self.device.probes.subscribe(self.events.append)
        self.errors: list[tuple[int, Exception]] = []
        self.queue = self.new_queue(size)

    def new_queue(self, size: int = 64, **options: Any) -> Queue:
        return self.device.create_queue(
            size, on_error=lambda queue, code, error: self.errors.append((code, error)), **options
        )

    def code(self, text: str) -> bytes:
        return assemble(self.device.agent.target, text)

    def kernel(
        self,
        text: str | bytes = "s_endpgm",
        enable: Sequence[str] = (KERNARG,),
        vgprs: int = 8,
        rsrc2: int = 0,
        count: int | None = None,
        ptr64: bool | None = None,
        accum_offset: int | None = None,
        rsrc3: int = 0,
        preload: tuple[int, int] = (0, 0),
    ) -> int:
        """Address of a kernel's header. `enable`: user SGPRs, from s0 on in the document's order.

        Without `ptr64` it is one that suits the device, in the large machine model a kernel descriptor. `vgprs` are all
        that are allocated; `rsrc3` are bits besides those of `accum_offset`, `preload` the first dword and the number
        of dwords of preloaded arguments.
        """
        target = self.device.agent.target
        code = self.code(text) if isinstance(text, str) else text
        places = {name: number for number, (name, _) in enumerate(USER_SGPRS)}
        properties = sum(1 << places[name] for name in enable)
        if count is None:
            count = sum(size for name, size in USER_SGPRS if name in enable) + preload[1]
        header = bytearray(ENTRY)
        if ptr64 is not None or self.device.settings.small:
            struct.pack_into("<IIHH", header, 0, 1, 1, 1, self.device.agent.target.level)
            properties |= bool(ptr64) << PTR64
        struct.pack_into("<q", header, 16, ENTRY)
        properties |= (preload[1] | preload[0] << 7) << 16
        granules = vgprs // target.vgpr_granule - 1
        struct.pack_into("<III", header, 48, RSRC1 | granules, rsrc2 | count << 1, properties)
        if target.has_unified_registers:
            rsrc3 |= (vgprs if accum_offset is None else accum_offset) // 4 - 1
        struct.pack_into("<I", header, 44, rsrc3)
        address = self.device.allocate(ENTRY + len(code) + 64, ENTRY)
        self.device.memory.write(address, bytes(header) + code)
        return address

    def words(self, count: int = 64) -> tuple[int, np.ndarray[Any, Any]]:
        """Address of zeroed dwords, and a view of them."""
        address = self.device.allocate(4 * count)
        return address, self.device.array(address, count, np.uint32)

    def value(self, signal: Signal) -> int:
        return signal.load()

    def reported(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def dispatch(kernel: int, kernarg: int = 0, signal: Signal | int | None = None, **fields: Any) -> bytes:
    """A kernel dispatch packet, one work-group of one work-item unless said otherwise."""
    handle = signal.address if isinstance(signal, Signal) else signal or 0
    values = {"dimensions": 1, "acquire_scope": 2, "release_scope": 2, **fields}
    return KernelDispatchPacket(
        kernel_object=kernel, kernarg_address=kernarg, completion_signal=handle, **values
    ).pack()


def barrier(
    *signals: Signal | int, signal: Signal | None = None, kind: PacketType = PacketType.BARRIER_AND, bit: int = 0
) -> bytes:
    """A barrier packet."""
    handles = [each.address if isinstance(each, Signal) else each for each in signals]
    return BarrierPacket(
        packet_type=kind,
        barrier=bit,
        dep_signal=tuple(handles + [0] * (5 - len(handles))),
        completion_signal=signal.address if signal else 0,
    ).pack()
