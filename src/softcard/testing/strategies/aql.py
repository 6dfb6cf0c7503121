"""Strategies for AQL packets: kernel dispatches and barriers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from softcard.device.hsa.queues.packets import DEPENDENCIES, BarrierPacket, KernelDispatchPacket, PacketType
from softcard.testing.strategies.drawn import Drawn, drawn

SCOPES: Final = st.integers(0, 2)
LARGEST_GROUP: Final = 1024
"""The maximum number of work-items of a drawn work-group."""
LARGEST_LDS: Final = 1 << 16
"""The maximum number of bytes of LDS of a drawn work-group."""


def aql_packets(
    kernel_object: int, *, breaks: Collection[str] | None = None, kernarg_address: int = 0, signals: Sequence[int] = ()
) -> SearchStrategy[Drawn[bytes]]:
    """Draw packets of 64 bytes: dispatches of the kernel at `kernel_object` and both kinds of barriers.

    The packets include their headers. `signals` are handles of signals with value 0. Barriers wait only for these
    signals, and packets use no other signals. A valid packet has a small grid of small work-groups without LDS or
    private memory. `breaks` lists the ids of the rules that may be broken, one at a time; a device reports
    reserved bits (``hsa/packet-types``) and fence scopes only as lints."""
    kernels = st.integers(1, 3).flatmap(
        lambda dimensions: _dispatches(dimensions, kernel_object=kernel_object, kernarg_address=kernarg_address)
    )
    handles = st.sampled_from([0, *signals])
    barriers = st.builds(
        BarrierPacket,
        packet_type=st.sampled_from([PacketType.BARRIER_AND, PacketType.BARRIER_OR]),
        barrier=st.integers(0, 1),
        acquire_scope=SCOPES,
        release_scope=SCOPES,
        dep_signal=st.tuples(*[handles] * DEPENDENCIES),
    )
    packets: SearchStrategy[KernelDispatchPacket | BarrierPacket] = kernels | barriers
    zero = ("workgroup_size_x", "workgroup_size_y", "workgroup_size_z", "grid_size_x", "grid_size_y", "grid_size_z")
    wrong: dict[str, SearchStrategy[bytes]] = {
        "packet-types": st.builds(_with_type, packets, st.integers(6, 255)) | packets.flatmap(_with_reserved_bit),
        "fence-scopes": st.builds(
            lambda packet, name: replace(packet, **{name: 3}).pack(),
            packets,
            st.sampled_from(["acquire_scope", "release_scope"]),
        ),
        "kernel-object": kernels.map(lambda packet: replace(packet, kernel_object=0).pack())
        | st.builds(
            lambda packet, off: replace(packet, kernel_object=kernel_object + off).pack(), kernels, st.integers(1, 63)
        ),
        "grid-checks": st.one_of(
            kernels.map(lambda packet: replace(packet, dimensions=0).pack()),
            st.builds(lambda packet, name: replace(packet, **{name: 0}).pack(), kernels, st.sampled_from(zero)),
            st.builds(
                lambda packet, size: replace(packet, workgroup_size_x=size).pack(),
                kernels,
                st.integers(LARGEST_GROUP + 1, (1 << 16) - 1),
            ),
            st.builds(
                lambda packet, size: replace(packet, group_segment_size=size).pack(),
                kernels,
                st.integers(LARGEST_LDS + 1, (1 << 32) - 1),
            ),
            _dispatches(1, kernel_object=kernel_object, kernarg_address=kernarg_address).map(
                lambda packet: replace(packet, grid_size_y=2).pack()
            ),
        ),
    }
    mistakes = {f"hsa/{name}": partial(_draw, one) for name, one in wrong.items()}
    return drawn(partial(_draw, packets.map(lambda packet: packet.pack())), mistakes, breaks)


def _draw(strategy: SearchStrategy[bytes], draw: DrawFn) -> bytes:
    return draw(strategy)


def _dispatches(dimensions: int, **fields: Any) -> SearchStrategy[KernelDispatchPacket]:
    """Draw kernel dispatch packets with `dimensions` dimensions and the given fields."""
    groups, grids = st.integers(1, 10), st.integers(1, 12)
    one = st.just(1)
    return st.builds(
        KernelDispatchPacket,
        dimensions=st.just(dimensions),
        barrier=st.integers(0, 1),
        acquire_scope=SCOPES,
        release_scope=SCOPES,
        workgroup_size_x=groups,
        workgroup_size_y=groups if dimensions > 1 else one,
        workgroup_size_z=groups if dimensions > 2 else one,
        grid_size_x=grids,
        grid_size_y=grids if dimensions > 1 else one,
        grid_size_z=grids if dimensions > 2 else one,
        **{name: st.just(value) for name, value in fields.items()},
    )


def _with_type(packet: KernelDispatchPacket | BarrierPacket, number: int) -> bytes:
    """Return the bytes of a packet with its type replaced by the invalid type `number`."""
    return bytes([number]) + packet.pack()[1:]


def _with_reserved_bit(packet: KernelDispatchPacket | BarrierPacket) -> SearchStrategy[bytes]:
    """Draw a copy of a packet with one of its reserved bits set."""
    data = int.from_bytes(packet.pack(), "little")
    mask = packet.reserved_mask()
    bits = [bit for bit in range(mask.bit_length()) if mask >> bit & 1]
    return st.sampled_from(bits).map(lambda bit: (data | 1 << bit).to_bytes(packet.size_bytes, "little"))
