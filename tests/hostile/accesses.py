"""Reads and writes of registers, counters and windows by units of every kind, in any state the windows may be in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from softcard.core.errors import AccessFault, BeyondModel, RuleError, SoftcardError
from softcard.core.space import Unit
from softcard.device.refsi.commands import Command, Finish, LoadReg64, StoreImm64, StoreReg64, WriteReg64, encode_all
from softcard.device.refsi.device import RefSiDevice
from softcard.device.refsi.refsidrv.devices import ReferenceCrash
from softcard.device.refsi.registers import DMA_BASE, NUM_CMP_REGISTERS, NUM_DMA_REGISTERS, PERF_COUNTERS_BASE
from softcard.device.refsi.toolkit.builder import SPEC
from tests.hostile.checks import (
    ENGINES,
    PROFILES,
    STEP_LIMIT,
    check_again,
    check_error,
    check_status,
    check_usable,
    digest,
    fresh,
    in_time,
    keep_in_memory,
    place,
    run_buffer,
)
from tests.hostile.generate import BUFFER, HUGE, MASK32, address, buffer, code, plain, size, transfer, window, word

UNITS = (*(Unit(kind, index) for kind in range(6) for index in (0, 1, 3, 4, 0xFFFF)), Unit(255, 0xFFFFFF))
MAX_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Access:
    """One access of the host as `unit`; `data` is None for a read."""

    address: int
    size: int
    unit: Unit
    data: bytes | None = None


SHAPES: tuple[dict[str, Any], ...] = (
    {"engine": "reference", "cores": 2, "coherence": "strict", "dma": "immediate"},
    {"engine": "jit", "cores": 3, "harts": 1, "coherence": "strict"},
    {"engine": "jit", "cores": 1, "harts": 64, "dma": "immediate"},
)

Step = Access | tuple[Command, ...]


def steps(random: Random) -> list[Step]:
    """Accesses with commands between them."""
    out: list[Step] = []
    for _ in range(random.randrange(1, 12)):
        choice = random.randrange(8)
        if choice == 0:
            out.append(tuple(window(random)))
        elif choice == 1:
            out.append(tuple(transfer(random)))
        elif choice == 2:
            out.append(tuple(registers(random)))
        elif choice == 3:
            out += dma(random)
        else:
            out.append(access(random))
    return out


def registers(random: Random) -> list[Command]:
    """Writes, loads and stores of CMP registers, whether they exist or not."""
    out: list[Command] = []
    for _ in range(random.randrange(1, 5)):
        number = random.choice((random.randrange(NUM_CMP_REGISTERS), random.randrange(48), MASK32))
        out.append(
            random.choice(
                (
                    WriteReg64(number, word(random)),
                    LoadReg64(number, address(random)),
                    StoreReg64(number, address(random)),
                    StoreImm64(DMA_BASE + 8 * random.randrange(NUM_DMA_REGISTERS + 1), word(random)),
                    *plain(random),
                )
            )
        )
    return out


def access(random: Random) -> Access:
    """One access of any unit: registers in whole and in parts, memory, nothing at all."""
    at = address(random)
    choice = random.randrange(4)
    if choice == 0:
        at = DMA_BASE + 8 * random.randrange(NUM_DMA_REGISTERS) + random.choice((0, 0, 0, 4, 1))
    elif choice == 1:
        at = PERF_COUNTERS_BASE + 8 * random.randrange(64) + random.choice((0, 0, 0, 4, 1))
    unit = random.choice(UNITS)
    length = random.choice((8, 8, 8, 4, 1, 0, 16, min(size(random), MAX_BYTES)))
    if random.random() < 0.5:
        # All of DRAM may be read at once, but that takes seconds: only sizes beyond any memory.
        return Access(at, random.choice(HUGE[1:]) if random.random() < 0.1 else length, unit)
    return Access(at, length, unit, random.randbytes(length))


def dma(random: Random) -> list[Access]:
    """A transfer started by the host in the name of some unit."""
    unit = random.choice(UNITS)
    writes = [command for command in transfer(random) if isinstance(command, StoreImm64)]
    return [Access(command.dst_addr_lo, 8, unit, command.imm_val.to_bytes(8, "little")) for command in writes]


def perform(device: RefSiDevice, step: Step) -> str:
    """Do one step; what is told of it."""
    if isinstance(step, tuple):
        data = encode_all([*step, Finish()])
        place(device, BUFFER, data)
        device.submit(BUFFER, len(data))
        (status,) = device.wait()
        check_status(status, data, device.profile_name)
        return str(status)
    try:
        if step.data is not None:
            device.write(step.address, step.data, step.unit)
            return "written"
        seen = device.read(step.address, step.size, step.unit)
        assert len(seen) == step.size
        return seen.hex()
    except SoftcardError as error:
        check_refusal(error, device.profile_name)
        return f"{type(error).__name__}: {error}"


def check_refusal(error: SoftcardError, profile: str) -> None:
    """Of the right type, and with the rule where there is a document."""
    check_error(error)
    assert isinstance(error, AccessFault | RuleError | ReferenceCrash | BeyondModel), error
    if profile == SPEC and isinstance(error, AccessFault):
        assert error.rule is not None, error
        assert error.rule.clause in str(error), error


def check_steps(given: list[Step]) -> None:
    """Do all steps in both profiles and on both engines, which must tell the same; then the device must go on."""
    for profile in PROFILES:
        reported = []
        for engine in ENGINES:
            with in_time():
                device = fresh(profile, engine)
                reported.append([*(perform(device, step) for step in given), str(digest(device))])
                if profile == SPEC:
                    check_usable(device)
                else:
                    check_again(device)
        for one, other in zip(*reported, strict=True):
            assert one == other, f"{profile}: engines differ\n  {one}\n  {other}"


def check_shapes(random: Random) -> None:
    """A buffer and accesses on devices of other shapes, somebody listening to one of them."""
    data, text, given = buffer(random), code(random), steps(random)
    for index in range(len(SHAPES)):
        with in_time():
            device = shaped(index)
            device.reset()
            check_status(run_buffer(device, data, text), data, SPEC)
            for step in given:
                perform(device, step)
            check_usable(device)


@cache
def shaped(index: int) -> RefSiDevice:
    """The device of `SHAPES[index]`, shared by all cases."""
    device = RefSiDevice("m", profile=SPEC, step_limit=STEP_LIMIT, **SHAPES[index])
    keep_in_memory(device)
    if index == 0:
        device.probes.subscribe(lambda event: None)
    return device
