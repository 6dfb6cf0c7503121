"""AMD OpenCL 2.0 containers that went wrong: read, described, loaded, written, and run where they still can be."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import numpy as np

from softcard.core.errors import ModelBug, SoftcardError
from softcard.host.amdcl2.program import DeviceQueue, Image, Kernel, Local, Program, Sampler
from softcard.image.amdcl2.arguments import Argument, Kind
from softcard.image.amdcl2.build import pointer
from softcard.image.amdcl2.container import GLOBAL, READ_ONLY, Container, read_container
from softcard.image.amdcl2.formats import ChannelOrder, ChannelType
from softcard.image.amdcl2.load import load
from softcard.image.amdcl2.records import SamplerInit
from softcard.image.amdcl2.writer import CodeRelocation, ProgramSource, source_of, write_container
from softcard.report import amdcl2
from tests.host.amdcl2.rig import kernel, vector, vectors
from tests.hostile.checks import in_time

STEP_LIMIT = 500
HUGE = (0, 1, 0x7F, 0xFF, 0xFFFF, 0x7FFF_FFFF, 0xFFFF_FFFF, 1 << 63, (1 << 64) - 1)


@cache
def good() -> tuple[bytes, ...]:
    """Files to begin with: some vectors, and programs with data, samplers and relocations."""
    found = [vector(name) for name in vectors()[::5]]
    text = "s_mov_b32 s12, 0x12345678\n s_mov_b32 s13, 0x12345678\n s_endpgm"
    relocations = (CodeRelocation(4, READ_ONLY, 8), CodeRelocation(12, GLOBAL, 8, high=True))
    init = SamplerInit(coordinate=1, filter=1, addressing=2)
    for driver, bits in ((191205, 64), (252700, 32)):
        source = kernel("tonga", "k", text, [pointer("p", "int*")], driver=driver, bits=bits, relocations=relocations)
        program = ProgramSource(
            "tonga", driver, bits, (source,), bytes(32), b"data", 64, 8, (init,), (16,), brig=b"HSAIL"
        )
        found.append(write_container(program))
    return tuple(found)


def mutated(random: Random) -> bytes:
    """A good file with some bytes or words changed, or cut short."""
    data = bytearray(random.choice(good()))
    for _ in range(random.choice((1, 1, 2, 4, 16))):
        size = random.choice((1, 2, 4, 8))
        place = random.randrange(len(data) - size)
        if random.random() < 0.5:  # tables stand at the front and at the end
            place = random.choice(
                (random.randrange(min(0x200, len(data) - size)), max(len(data) - size - place % 600, 0))
            )
        value = random.choice((random.getrandbits(64), random.choice(HUGE), random.randrange(len(data))))
        data[place : place + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
    return bytes(data[: random.randrange(len(data))] if random.random() < 0.1 else data)


def check(data: bytes) -> None:
    """Only typed errors, in time; and no model bug."""
    with in_time():
        container = _checked(lambda: read_container(data))
        if container is None:
            return
        for name in container.kernels:
            _checked(lambda name=name: container.metadata(name).arguments)
        _checked(lambda: load(container, 0x1000))
        document = _checked(lambda: amdcl2.describe(data))
        if document is not None:
            assert all(isinstance(line, str) for line in amdcl2.lines(document, True))
        _write(container, data)
        _run(container)


def _write(container: Container, data: bytes) -> None:
    """What was read comes back; changes are written or refused."""
    source = _checked(lambda: source_of(container))
    if source is not None:
        assert write_container(source) == data
        for changes in ({"origin": None}, {"compile_options": "-O1"}, {"global_data": b"atad"}, {"driver": 252700}):
            _checked(lambda changes=changes: write_container(replace(source, **changes)))
        longer = tuple(replace(each, code=each.code + bytes(100)) for each in source.kernels)
        changed = replace(source, kernels=longer, brig=source.brig and source.brig + b"and more")
        written = _checked(lambda: write_container(changed))
        assert written is None or source_of(read_container(written)) == changed


def _checked(action: Any) -> Any:
    try:
        return action()
    except ModelBug:
        raise
    except SoftcardError:
        return None


def _run(container: Container) -> None:
    program = _checked(lambda: Program(container, "reference"))
    if program is None:
        return
    for name in program.kernels:
        found = _checked(lambda name=name: program.kernel(name))
        if found is not None:
            _checked(lambda found=found: found.run(64, None, _arguments(found), step_limit=STEP_LIMIT))


def _arguments(found: Kernel) -> list[Any]:
    return [_argument(argument) for argument in found.arguments]


def _argument(argument: Argument) -> Any:
    if argument.is_local:
        return Local(64)
    if argument.kind is Kind.VALUE:
        return [0] * argument.length
    return {
        Kind.POINTER: np.zeros(64, np.uint32),
        Kind.IMAGE: Image(np.zeros((4, 4, 4), np.uint8), ChannelOrder.CL_RGBA, ChannelType.CL_UNORM_INT8),
        Kind.SAMPLER: Sampler(),
        Kind.QUEUE: DeviceQueue(),
        Kind.STRUCTURE: bytes(min(argument.structure_bytes, 1 << 16)),
    }.get(argument.kind, 0)
