"""Short ways to say, on a device in the profile spec, what obeys a rule and what breaks it."""

from __future__ import annotations

from collections.abc import Sequence

from softcard.core.rule import load_rules
from softcard.device.refsi.commands import BufferStatus, Command, Finish, LoadReg64, StoreImm64, StoreReg64, encode_all
from softcard.device.refsi.registers import DMA, DMA_BASE, KARGS_INFO, KUB_DESC, TSD_INFO
from tests.device.refsi.m1 import FLAG, OUT, RETURN, STACK_TOP, Bench, entry, flag, write

KUB = 0x5300_0000
"""Where `slice_setup` puts a Kernel Uniform Block: each of its 64-bit words is 32 to 1 in every byte, counting up."""
PHYSICAL = 0x5200_0000
"""Memory for windows to show."""
WINDOW = 0x3000_0000
"""An address where nothing is, for windows."""
SOURCE = 0x5400_0000
TARGET = 0x5500_0000
PATTERN = bytes(range(1, 252)) * 16
HART_BLOCKS = 0x1020_0000
STRIDES = {"": 0, "source": 0x80, "target": 0x40, "both": 0xC0}
WHO = "csrrs t0, mhartid, zero; addi t0, t0, 1; sd t0, 0(a1); jalr zero, 0(ra)"
"""A kernel that stores its hart ID plus one at its first argument."""


def word(number: int) -> int:
    """Word `number` of the Kernel Uniform Block that `slice_setup` makes."""
    return int.from_bytes(bytes([number + 1]) * 8, "little")


# ---- what breaks a rule


def refused(bench: Bench, rule: str, message: str, *commands: Command) -> BufferStatus:
    """Run `commands`, the last of which must break `rule`, say `message` and where, and end the buffer only."""
    *before, last = commands
    status = bench.run(*commands, flag())
    assert status.opcode == last.opcode.name
    return _checked(bench, status, rule, message, len(before), len(encode_all(before)))


def refused_words(
    bench: Bench, rule: str, message: str, chunks: Sequence[int], command: int = 0, chunk: int = 0
) -> None:
    """Run `chunks`; command number `command`, whose header is chunk number `chunk`, must be refused when it is read."""
    status = bench.words(b"".join(value.to_bytes(8, "little") for value in chunks))
    assert status.opcode == ""
    _checked(bench, status, rule, message, command, 8 * chunk)


def _checked(bench: Bench, status: BufferStatus, rule: str, message: str, command: int, offset: int) -> BufferStatus:
    error = status.error
    assert error is not None
    assert error.message == message
    assert error.rule is load_rules("softcard.device.refsi")[f"refsi/{rule}"]
    assert (status.commands, status.command, status.offset) == (command, command, offset)
    places = [(place.kind, place.where) for place in error.path]
    assert ("command", str(command)) in places
    assert ("byte", f"{offset:#x}") in places
    assert bench.r64(FLAG) == [0]
    assert bench.run(flag(), StoreImm64(FLAG, 0)).ok
    return status


# ---- kernels


def slice_setup(
    bench: Bench,
    kernel: str | int = "k_slice",
    kub_size: int = 1,
    kargs: tuple[int, int] = (0, 0),
    tsd: tuple[int, int] = (0, 0),
    stack: int = STACK_TOP,
) -> list[Command]:
    """The six registers of RUN_KERNEL_SLICE; `kargs` and `tsd` are (offset, size)."""
    bench.device.write(KUB, b"".join(bytes([k]) * 8 for k in range(1, 33)))
    return [
        write("ENTRY_PT_FN", entry(kernel) if isinstance(kernel, str) else kernel),
        write("KUB_DESC", KUB_DESC.encode(KUB_ADDR=KUB, KUB_SIZE=kub_size)),
        write("KARGS_INFO", KARGS_INFO.encode(KARGS_OFFSET=kargs[0], KARGS_SIZE=kargs[1])),
        write("TSD_INFO", TSD_INFO.encode(TSD_OFFSET=tsd[0], TSD_SIZE=tsd[1])),
        write("STACK_TOP", stack),
        write("RETURN_ADDR", RETURN),
    ]


def slices(bench: Bench, count: int, slice_id: int = 0) -> list[list[int]]:
    """What k_slice stored for each instance: [instance, slice, packed_args, ktb, sp, hart]."""
    return [bench.r64(OUT + 0x1000 * slice_id + 0x40 * instance, 6) for instance in range(count)]


def dumps(bench: Bench, count: int, offset: int, words: int = 1) -> list[list[int]]:
    """What k_dump (at OUT) stored at `offset` for each instance: 8 * n is register xn, 0x100 mhartid."""
    return [bench.r64(OUT + 0x400 * instance + offset, words) for instance in range(count)]


# ---- the DMA controller by commands


def dma(name: str, value: int) -> StoreImm64:
    """Write a DMA register of the CMP."""
    return StoreImm64(DMA_BASE + 8 * DMA.offset_of(name), value)


def read_dma(name: str, address: int = OUT) -> list[Command]:
    """Store a DMA register of the CMP at `address`, by way of CMP_SCRATCH."""
    return [LoadReg64(0, DMA_BASE + 8 * DMA.offset_of(name)), StoreReg64(0, address)]


def transfer(
    *sizes: int,
    source: int = SOURCE,
    target: int = TARGET,
    strides: str = "",
    by: tuple[int, int] = (0, 0),
    to: tuple[int, int] = (0, 0),
) -> list[Command]:
    """Start a transfer; `by` and `to` are the source and destination strides. The last command starts it."""
    return [
        dma("DMASRCADDR", source),
        dma("DMADSTADDR", target),
        *(dma(f"DMAXFERSIZE{number}", size) for number, size in enumerate(sizes)),
        *(dma(f"DMAXFERSRCSTRIDE{number}", stride) for number, stride in enumerate(by)),
        *(dma(f"DMAXFERDSTSTRIDE{number}", stride) for number, stride in enumerate(to)),
        dma("DMACTRL", 1 | len(sizes) << 4 | STRIDES[strides]),
    ]


def finished(command: Command) -> bytes:
    """The bytes of a buffer of `command` and FINISH."""
    return encode_all([command, Finish()])
