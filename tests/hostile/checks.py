"""What must hold for any input: typed errors that name their place, no hang, and a device that goes on working."""

from __future__ import annotations

import signal
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from types import FrameType
from typing import Final

import numpy as np

from softcard.core.errors import AccessFault, GuestFault, ModelBug, RuleError, SoftcardError, WireError
from softcard.device.refsi import registers as r
from softcard.device.refsi.commands import (
    BufferStatus,
    Command,
    Finish,
    Opcode,
    RunInstances,
    SyncCache,
    WriteReg64,
    encode_all,
)
from softcard.device.refsi.device import RefSiDevice
from softcard.device.refsi.refsidrv.devices import ReferenceCrash
from softcard.device.refsi.toolkit.builder import REFSIDRV, SPEC
from softcard.ir.object_cache import ObjectCache
from softcard.isa.riscv.decode import assemble
from tests.hostile.generate import BUFFER, CODE, DATA, OUTPUT

ENGINES: Final = ("reference", "jit")
PROFILES: Final = (SPEC, REFSIDRV)
STEP_LIMIT: Final = 1000
SECONDS: Final = 8
"""Far more than any case needs; a case that takes longer hangs."""
AREAS: Final = ((r.TCDM_BASE, r.TCDM_SIZE), (DATA, 1 << 16), (OUTPUT, 1 << 16), (BUFFER, 1 << 12))
"""Memory that outcomes are compared in."""
GOOD_BUFFER: Final = 0x4E00_0000
GOOD_CODE: Final = 0x4E10_0000
GOOD_DATA: Final = 0x4E20_0000
GOOD_KERNEL: Final = "slli a2, a0, 3; add a1, a1, a2; addi a0, a0, 100; sd a0, 0(a1); jalr zero, 0(ra)"


class Hang(Exception):
    """A case took much longer than it may."""


@contextmanager
def in_time(seconds: float = SECONDS) -> Iterator[None]:
    """Raise `Hang` in the body after so many seconds, where the platform can do that."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise Hang(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@cache
def device(profile: str, engine: str, step_limit: int = STEP_LIMIT) -> RefSiDevice:
    """The device of that kind, shared by all cases: `fresh` resets it."""
    found = RefSiDevice("m", profile=profile, engine=engine, step_limit=step_limit)
    keep_in_memory(found)
    return found


def keep_in_memory(found: RefSiDevice) -> None:
    """Made-up code does not belong into the user's folder of compiled code."""
    if hasattr(found.engine, "cache"):
        found.engine.cache = ObjectCache()


def fresh(profile: str, engine: str, step_limit: int = STEP_LIMIT) -> RefSiDevice:
    """A device as just opened."""
    found = device(profile, engine, step_limit)
    found.reset()
    return found


@dataclass(slots=True)
class Outcome:
    """What is seen of a case: words for each step, and memory afterwards."""

    reported: list[str] = field(default_factory=list)
    memory: tuple[int, ...] = ()


def digest(found: RefSiDevice) -> tuple[int, ...]:
    """A checksum of each of `AREAS`, whatever windows lie over them."""
    sums = []
    for base, size in AREAS:
        view = ram_of(found, base)[:size]
        sums.append(zlib.crc32(view))
    return tuple(sums)


def ram_of(found: RefSiDevice, address: int) -> memoryview:
    """Physical memory from `address` on, past all windows."""
    memory = found.memory
    if hasattr(memory, "memories"):
        bases = {base: ram for base, ram in memory.memories.items() if base <= address < base + ram.size}
        ((base, ram),) = bases.items()
        view: memoryview = ram.view[address - base :]
        return view
    mapping = memory.decoder.space.find(address)  # type: ignore[attr-defined]
    rest: memoryview = mapping.region.view[address - mapping.base :]
    return rest


def place(found: RefSiDevice, address: int, data: bytes) -> None:
    """Put bytes into physical memory, past all windows."""
    view = ram_of(found, address)
    host = view[: len(data)]
    host[:] = data
    found.engine.code_written(int(np.frombuffer(host, dtype=np.uint8).ctypes.data), len(data))


def run_buffer(found: RefSiDevice, data: bytes, code: bytes = b"") -> BufferStatus:
    """Execute `data` as a command buffer, with `code` at `CODE`."""
    found.write(CODE, code)
    found.write(BUFFER, data)
    found.submit(BUFFER, len(data))
    (status,) = found.wait()
    return status


def check_status(status: BufferStatus, data: bytes, profile: str) -> None:
    """A failed buffer says what failed, where, and which clause was broken."""
    error = status.error
    if error is None:
        assert status.ok
        return
    check_error(error)
    text = str(error)
    assert f"at buffer {status.ticket}" in text, text
    if status.chunk is None:
        assert status.command is None, status
        assert isinstance(error, WireError | AccessFault), text
        assert profile != SPEC or error.rule is not None, text
        return
    assert status.chunk * 8 == status.offset, status
    assert status.command == status.commands, status
    assert f"at command {status.command}" in text, text
    assert f"at byte {status.offset:#x}" in text, text
    header = int.from_bytes(data[status.chunk * 8 :][:8], "little")
    number = header >> 8 & 0xFF
    if status.opcode:
        assert f"({status.opcode})" in text, text
        # A buffer may have been changed while it ran, by itself.
        assert status.opcode == Opcode(number).name if number in list(Opcode) else True
    else:
        assert f"at chunk {status.chunk}" in text, text  # it could not even be decoded
        assert isinstance(error, WireError), text
    if profile == SPEC and (isinstance(error, WireError | RuleError) or (type(error) is AccessFault)):
        assert error.rule is not None, text
        assert error.rule.clause in text, text


def check_error(error: SoftcardError) -> None:
    """Typed, no bug of ours, and one printable line."""
    assert isinstance(error, SoftcardError)
    assert not isinstance(error, ModelBug), error
    text = str(error)
    assert text, repr(error)
    assert text.isprintable(), repr(text)
    if isinstance(error, ReferenceCrash):
        assert "reference" in text or "DMA transfer would" in text, text


def check_usable(found: RefSiDevice) -> None:
    """A good buffer with a kernel works, whatever came before; windows over its memory have to go first."""
    good: list[Command] = [WriteReg64(r.WINDOW_MODE.offset + index, 0) for index in range(r.NUM_WINDOWS)]
    good += [
        SyncCache(3),
        WriteReg64(r.ENTRY_PT_FN.offset, GOOD_CODE),
        WriteReg64(r.STACK_TOP.offset, r.TCDM_HART_BASE),
        WriteReg64(r.RETURN_ADDR.offset, 0),
        RunInstances(0, 6, (GOOD_DATA,)),
        SyncCache(3),
        Finish(),
    ]
    data = encode_all(good)
    status = _good_buffer(found, data)
    if status is None or (status.error is not None and "claimed by" in str(status.error)):
        # A window lies over the memory that buffers go to: nothing but a reset helps, and that does.
        found.reset()
        status = _good_buffer(found, data)
    assert status is not None
    assert status.ok, status
    values = [int.from_bytes(found.read(GOOD_DATA + 8 * k, 8), "little") for k in range(6)]
    assert values == [100 + k for k in range(6)], values


def _good_buffer(found: RefSiDevice, data: bytes) -> BufferStatus | None:
    """Run the good buffer; None where the host cannot reach its memory."""
    place(found, GOOD_CODE, assemble(GOOD_KERNEL, GOOD_CODE))
    try:
        found.write(GOOD_BUFFER, data)
    except AccessFault as fault:
        if "claimed by" not in fault.message:
            raise
        return None
    found.submit(GOOD_BUFFER, len(data))
    (status,) = found.wait()
    return status


def check_buffer(data: bytes, code: bytes = b"", seconds: float = SECONDS) -> None:
    """Run a buffer on both engines in both profiles; every property of this module must hold."""
    for profile in PROFILES:
        outcomes = []
        for engine in ENGINES:
            with in_time(seconds):
                outcomes.append(_outcome(profile, engine, data, code))
        one, other = outcomes
        assert one.reported == other.reported, f"{profile}: engines differ\n  {one.reported}\n  {other.reported}"
        assert one.memory == other.memory, f"{profile}: engines leave different memory after {one.reported}"


def _outcome(profile: str, engine: str, data: bytes, code: bytes) -> Outcome:
    found = fresh(profile, engine)
    outcome = Outcome()
    status = run_buffer(found, data, code)
    check_status(status, data, profile)
    outcome.reported.append(f"{status} hart {status.hart} pc {status.pc} steps {status.steps}")
    outcome.reported.append(" ".join(f"{value:x}" for value in found.registers))
    outcome.memory = digest(found)
    if profile == SPEC:
        check_usable(found)
    else:
        try:
            check_again(found)
        except GuestFault as error:
            check_error(error)
    return outcome


def check_again(found: RefSiDevice) -> None:
    """As the reference, the device may be wedged or have lost its memory now; but it answers."""
    data = encode_all([SyncCache(3), WriteReg64(r.ENTRY_PT_FN.offset, CODE), RunInstances(1, 1), Finish()])
    try:
        found.write(GOOD_BUFFER, data)
    except AccessFault:
        return
    found.submit(GOOD_BUFFER, len(data))
    (status,) = found.wait()
    check_status(status, data, REFSIDRV)
