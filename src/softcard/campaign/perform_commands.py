"""The execution of generated command buffers and packets on their devices."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np

from softcard.campaign.generators.tree import Choices, Node, leaf, lines, pick
from softcard.campaign.perform import GPU_CACHE
from softcard.campaign.task import Task
from softcard.core.errors import WireError
from softcard.device.acceldev.commands import Fence, Fill, Nop, UserCommand
from softcard.device.refsi.commands import (
    CHUNK_BYTES,
    CopyMem64,
    LoadReg64,
    StoreImm64,
    StoreReg64,
    SyncCache,
    WriteReg64,
)
from softcard.device.refsi.registers import DRAM_BASE, NUM_CMP_REGISTERS
from softcard.device.refsi.toolkit.listing import text

# ---- commands as text ------------------------------------------------------------------------------------------------
# Random valid command buffers of RefSi and Acceldev, and valid sequences of AQL packets, as text. Command buffers of
# RefSi are listings for `softcard refsi encode`. The text for Acceldev and AQL has one command on each line, a word
# followed by numbers. Acceldev has ``fill SLOT VALUE START LENGTH``, ``fence`` and ``nop``; AQL has ``add CELL VALUE
# GRID GROUP BARRIER``, ``and`` and ``or``.


MOST_COMMANDS: Final = 40
REFSI_BYTES: Final = 1 << 12
"""The number of bytes at the start of DRAM that generated commands write; the command buffer is elsewhere."""
ACCELDEV_SLOTS: Final = (4096, 8192)
AQL_CELLS: Final = 16
_WORD: Final = (1 << 64) - 1
_COPIED: Final = 8
_SCRATCH: Final = 0
"""The number of the RefSi register CMP_SCRATCH, which has no side effects."""
_UNITS: Final = (0, 2 << 24, 3 << 24)


def _list(choices: Choices, one: Callable[[Choices], str], ending: str = "") -> Node:
    commands = [Node(one(choices), may_go=True) for _ in range(choices.integer(1, MOST_COMMANDS))]
    return lines(*commands, *([leaf(ending)] if ending else []), leaf(""))


def make_refsi(choices: Choices) -> Node:
    """Draw a random command buffer that writes, copies and reads a part of DRAM, and the scratch register."""
    return _list(choices, _refsi, "FINISH")


def _refsi(choices: Choices) -> str:
    def place() -> int:
        return DRAM_BASE + CHUNK_BYTES * choices.integer(0, REFSI_BYTES // CHUNK_BYTES - _COPIED)

    how = choices.integer(0, 9)
    if how <= 2:
        return text(StoreImm64(place(), choices.integer(0, _WORD)))
    if how <= 5:
        return text(CopyMem64(choices.integer(0, _COPIED), place(), place(), pick(choices, _UNITS)))
    if how == 6:
        return text(WriteReg64(_SCRATCH, choices.integer(0, (1 << 32) - 1)))
    if how == 7:
        return text(LoadReg64(_SCRATCH, place()))
    if how == 8:
        return text(StoreReg64(pick(choices, [n for n in range(NUM_CMP_REGISTERS) if n != _WINDOW]), place()))
    return text(SyncCache(choices.integer(1, 3)))


_WINDOW: Final = 7
"""The number of a write-only RefSi register, which generated commands do not read."""


def make_acceldev(choices: Choices) -> Node:
    """Draw random user commands that fill parts of two buffers."""
    return _list(choices, _acceldev)


def _acceldev(choices: Choices) -> str:
    how = choices.integer(0, 9)
    if how <= 1:
        return pick(choices, ("fence", "nop"))
    slot = choices.integer(0, len(ACCELDEV_SLOTS) - 1)
    start = choices.integer(0, ACCELDEV_SLOTS[slot])
    length = choices.integer(0, ACCELDEV_SLOTS[slot] - start)
    return f"fill {slot} {choices.integer(0, (1 << 32) - 1):#x} {start} {length}"


def make_aql(choices: Choices) -> Node:
    """Draw random AQL packets: barriers, and kernels in which each work-item adds a number to a memory cell."""
    return _list(choices, _aql)


def _aql(choices: Choices) -> str:
    how = choices.integer(0, 5)
    if how == 0:
        return pick(choices, ("and", "or"))
    value = choices.integer(0, (1 << 32) - 1)
    grid, group, cell = choices.integer(1, 200), choices.integer(1, 130), choices.integer(0, AQL_CELLS - 1)
    return f"add {cell} {value:#x} {grid} {group} {choices.integer(0, 1)}"


# ---- runs of commands ------------------------------------------------------------------------------------------------


REFSI_BUFFER: Final = 0x4100_0000
"""The address of RefSi's command buffer, after the memory that its commands write."""
AQL_SLOTS: Final = 64
"""The size of the AQL queue; also the number of packets that are submitted at a time."""
ADD: Final = """s_load_dwordx2 s[4:5], s[0:1], 0x0
s_load_dword s6, s[0:1], {offset}
s_waitcnt lgkmcnt(0)
v_mov_b32 v1, s4
v_mov_b32 v2, s5
v_mov_b32 v3, s6
flat_atomic_add v[1:2], v3
s_endpgm
"""


def run_refsi(task: Task, source: str) -> tuple[bytes, float]:
    """Run a command buffer on RefSi M1; return the DRAM bytes that it can change, and the run time in seconds.

    Raise the device's error if the command buffer fails."""
    from softcard.device.refsi.device import RefSiDevice
    from softcard.device.refsi.registers import DRAM_BASE
    from softcard.device.refsi.toolkit.listing import assemble

    data = assemble(source)
    began = time.perf_counter()
    with RefSiDevice("m", engine=task.engine) as device:
        device.write(REFSI_BUFFER, data)
        device.submit(REFSI_BUFFER, len(data))
        for status in device.wait():
            if status.error is not None:
                raise status.error
        return bytes(device.read(DRAM_BASE, REFSI_BYTES)), time.perf_counter() - began


def run_acceldev(task: Task, source: str) -> tuple[bytes, float]:
    """Run user commands on Acceldev; return the final bytes and the run time in seconds.

    The bytes are the content of the commands' buffers, followed by the fence counter."""
    from softcard.host.acceldev.acceldev import Acceldev

    commands = [_user_command(line) for line in source.splitlines() if line]
    began = time.perf_counter()
    with Acceldev.open(engine=task.engine) as driver, driver.open_context() as context:
        buffers = [context.create_buffer(size) for size in ACCELDEV_SLOTS]
        if commands:
            context.run(context.create_code(*commands))
            context.drain()
        left = b"".join(bytes(each.view) for each in buffers)
        return left + context.fence_counter.to_bytes(8, "little"), time.perf_counter() - began


def _number(text: str, line: str) -> int:
    """Return a number from 0 to 2^32 - 1; raise a `WireError` that quotes the line for anything else."""
    try:
        number = int(text, 0)
    except ValueError:
        number = -1
    if not 0 <= number < 1 << 32:
        raise WireError(f"{line[:80]!r} has {text[:40]!r}, expected a number from 0 to 2^32 - 1")
    return number


def _user_command(line: str) -> UserCommand:
    match line.split():
        case ["fill", *numbers] if len(numbers) == 4:
            slot, value, start, length = (_number(each, line) for each in numbers)
            return Fill(value=value, buffer_slot=slot, start=start, length=length)
        case ["fence"]:
            return Fence()
        case ["nop"]:
            return Nop()
    raise WireError(f"{line!r} is not a user command, expected fill SLOT VALUE START LENGTH, fence or nop")


def run_aql(task: Task, source: str, agent: str) -> tuple[bytes, float]:
    """Run AQL packets; return the content of the memory cells that their kernels add to, and the run time in seconds.

    Raise the error that stops the queue.
    """
    began = time.perf_counter()
    lines = [line.split() for line in source.splitlines() if line]
    with GPU_CACHE.device(agent, task) as gpu:
        kernel = GPU_CACHE.loaded(gpu, _adding(agent)).kernel("add")
        cells, arguments = gpu.zeros(AQL_CELLS, np.uint32), gpu.zeros((max(1, len(lines)), 4), np.uint32)
        queue = gpu.queue(AQL_SLOTS)
        packets, arguments[: len(lines)] = _packets(kernel.address, gpu.address(cells), gpu.address(arguments), lines)
        for at in range(0, len(packets), AQL_SLOTS):
            queue.submit(*packets[at : at + AQL_SLOTS])
            if queue.error is not None:
                raise queue.error
        left = cells.tobytes()
        queue.destroy()
        for array in (cells, arguments):
            gpu.free(array)
    return left, time.perf_counter() - began


@cache
def _adding(agent: str) -> bytes:
    """Return the code object of the kernel that packets run; it adds its argument to a memory cell."""
    from softcard.image.hsa.writer import bare_code_object
    from softcard.isa.gcn.asm.assembler import assemble
    from softcard.isa.gcn.target import target

    code = assemble(target(agent), ADD.format(offset="0x2" if target(agent).level == 7 else "0x8"))
    return bare_code_object(
        code, agent, name="add", vgprs=4, sgprs=16, kernarg_bytes=16, user_sgprs=("kernarg_segment_ptr",)
    )


def _packets(kernel: int, cells: int, arguments: int, lines: list[list[str]]) -> tuple[list[bytes], Any]:
    """Return the AQL packets that `lines` describe, and for each packet a row of kernel arguments.

    Each line is a list of words. `kernel`, `cells` and `arguments` are the device addresses of the kernel, the
    memory cells and the rows."""
    from softcard.device.hsa.queues.packets import BarrierPacket, KernelDispatchPacket, PacketType

    packets: list[bytes] = []
    rows: list[tuple[int, ...]] = []
    for words in lines:
        row = (0, 0, 0, 0)
        match words:
            case ["add", *numbers] if len(numbers) == 5:
                cell, value, grid, group, barrier = (_number(each, " ".join(words)) for each in numbers)
                address = cells + 4 * cell
                row = (address & 0xFFFF_FFFF, address >> 32, value, 0)
                packet: Any = KernelDispatchPacket(
                    kernel_object=kernel, dimensions=1, workgroup_size_x=group, grid_size_x=grid, barrier=barrier,
                    kernarg_address=arguments + 16 * len(rows),
                )  # fmt: skip
            case ["and"]:
                packet = BarrierPacket(packet_type=PacketType.BARRIER_AND)
            case ["or"]:
                packet = BarrierPacket(packet_type=PacketType.BARRIER_OR)
            case _:
                text = f"{' '.join(words)!r} is not a packet, expected add CELL VALUE GRID GROUP BARRIER, and, or or"
                raise WireError(text)
        packets.append(packet.pack())
        rows.append(row)
    return packets, rows or np.zeros((0, 4), np.uint32)
