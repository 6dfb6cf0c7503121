"""Machine code that nobody compiled, run as kernels: both engines must end it alike, whatever it does."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Final

from softcard.core.errors import AccessFault
from softcard.core.space import Unit
from softcard.device.refsi import registers as r
from softcard.device.refsi.commands import (
    Command,
    Finish,
    RunInstances,
    RunKernelSlice,
    SyncCache,
    WriteReg64,
    encode_all,
)
from softcard.device.refsi.device import RefSiDevice
from softcard.device.refsi.interfaces import HART
from softcard.device.refsi.toolkit.builder import REFSIDRV, SPEC
from softcard.isa.riscv.decode import SPECS, decode, encode
from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.state import VL, VSTART, VTYPE, VXRM, VXSAT, F, Hart
from softcard.isa.riscv.table import FURTHER
from tests.agree.values import integer, pattern
from tests.agree.words import SIZES, compressed, names, sample, with_registers
from tests.device.refsi import m1
from tests.hostile.checks import (
    check_again,
    check_error,
    check_status,
    check_usable,
    digest,
    fresh,
    in_time,
    keep_in_memory,
    place,
    ram_of,
)
from tests.hostile.generate import BUFFER, CODE, DATA, EDGES, OUTPUT, address, word
from tests.hostile.vectors import word as vector_word

STEP_LIMIT: Final = 3000
G1_RESET: Final = 0x1000
RETURN: Final = 0x6007_7000
SPACE: Final = 4096
POINTERS: Final = (8, 9, 18)
"""Registers that hold good addresses, as long as nothing wild overwrites them."""
SCRATCH: Final = (5, 6, 7, 10, 11, 12, 13, 14, 28)
TAME: Final = tuple(
    name
    for name in names()
    if name not in FURTHER and (name not in SPECS or (SPECS[name].flow == "next" and not name.startswith("csr")))
)


@dataclass(frozen=True, slots=True)
class Case:
    """Code at `CODE` and the recordings' kernels with some bytes changed, registers, and how it is launched."""

    code: bytes
    text: bytes
    entry: int
    x: tuple[int, ...]
    f: tuple[int, ...]
    args: tuple[int, ...]
    back: int
    stack: int
    instances: int
    harts: int
    is_slice: bool


def case(random: Random) -> Case:
    """A random launch: mostly of code that runs for a while."""
    text = m1.kernels().segments[0].data
    entry = CODE
    kind = random.choice((0, 0, 1, 2, 3, 3, 3, 3))
    if kind == 0:
        text, entry = mutated_text(random, text)
    code = made_up(random, kind)
    if random.random() < 0.03:
        entry = address(random) & 0xFFFF_FFFF | 1
    return Case(
        code,
        text,
        entry or CODE,
        tuple(DATA + 64 * number if number in POINTERS else register(random) for number in range(32)),
        tuple(
            0xFFFF_FFFF << 32 | pattern(random, "s") if random.random() < 0.5 else pattern(random, "d")
            for _ in range(32)
        ),
        tuple(random.choice((pointer(random), random.randrange(20), word(random))) for _ in range(random.randrange(8))),
        random.choice((RETURN, RETURN, RETURN, 0, CODE, CODE + 8, address(random))),
        random.choice((0x1408_0000, 0x1408_0000, pointer(random), integer(random))),
        random.choice((1, 1, 1, 3, 6)),
        1 if random.random() < 0.8 else random.choice((0, 2, 4)),
        random.random() < 0.1,
    )


def vector_case(random: Random) -> Case:
    """The same with a loop of vector instructions, whose bases are good addresses more often than not."""
    given, words = case(random), []
    for _ in range(random.randrange(2, 16)):
        if random.random() < 0.3:
            words.append(encode("vsetvli", rd=random.choice(SCRATCH), rs1=random.choice((0, 5)), imm=vtype(random)))
        if random.random() < 0.3:
            words.append(with_registers(random, sample(random, "addi"), SCRATCH).word)
        found = vector_word(random)
        if is_access(found):
            found = found & ~(31 << 15) | random.choice((*POINTERS, *POINTERS, 10, 11)) << 15
        words.append(found)
    words.append(encode("jal", rd=0, imm=-4 * len(words)))
    code = struct.pack(f"<{len(words)}I", *words)
    return replace(given, code=code, text=m1.kernels().segments[0].data, entry=CODE, harts=1)


def vtype(random: Random) -> int:
    """Often one that exists."""
    return random.choice((0xC0, 0xC8, 0xD0, 0xD8, 0xD1, 0xC3, random.randrange(256)))


def is_access(word_: int) -> bool:
    """Whether it has the opcode of loads or stores."""
    return word_ & 0x7F in (0x07, 0x27)


def mutated_text(random: Random, text: bytes) -> tuple[bytes, int]:
    """The recordings' kernels with a few bits changed in the one that is called, and its address."""
    starts = sorted({symbol.address for symbol in (m1.kernels().symbols or {}).values() if symbol.is_global})
    at = random.randrange(len(starts))
    end = starts[at + 1] if at + 1 < len(starts) else 0x1_0000 + len(text)
    changed = bytearray(text)
    for _ in range(random.choice((0, 1, 1, 2, 4))):
        changed[random.randrange(starts[at], end) - 0x1_0000] ^= 1 << random.randrange(8)
    return bytes(changed), starts[at]


def made_up(random: Random, kind: int) -> bytes:
    """Code of random words, of random parcels, or of instructions that mostly behave, in loops."""
    count = random.randrange(1, 40)
    if kind == 1:
        return random.randbytes(4 * count)
    if kind == 2:
        parcels = [insn.word for group in compressed().values() for insn in random.sample(group, 1)]
        return struct.pack(f"<{count}H", *random.choices(parcels, k=count))
    wild = random.choice((0, 0, 0.02, 0.3))
    out: list[Insn | None] = [None if random.random() < 0.2 else instruction(random, wild) for _ in range(count)]
    starts = [0]
    for insn in [*out, None]:
        starts.append(starts[-1] + (4 if insn is None else insn.length))
    code = bytearray()
    for insn, at in zip(out, starts, strict=False):
        code += (branch(random, random.choice(starts[:-1]) - at) if insn is None else insn.word).to_bytes(
            4 if insn is None else insn.length, "little"
        )
    code += encode("jal", rd=0, imm=random.choice(starts[:-1]) - starts[-2]).to_bytes(4, "little")
    return bytes(code)


def instruction(random: Random, wild: float) -> Insn:
    """A random instruction; unless it is a wild one, it goes on to the next, and its pointer is one."""
    if random.random() < wild:
        return sample(random, random.choice(names()))
    while True:
        insn = sample(random, random.choice(TAME))
        if insn.rm in (5, 6) or (insn.length == 2 and (insn.rd in POINTERS or insn.name in SIZES)):
            continue
        if insn.length == 2:
            return insn
        insn = with_registers(random, insn, SCRATCH)
        return decode(insn.word & ~(31 << 15) | random.choice(POINTERS) << 15) if insn.name in SIZES else insn


def branch(random: Random, distance: int) -> int:
    """A branch or jump over that many bytes."""
    if random.random() < 0.15:
        return encode("jal", rd=random.choice((0, 1, 5)), imm=distance)
    name = random.choice(("beq", "bne", "blt", "bge", "bltu", "bgeu"))
    return encode(name, rs1=random.choice((0, *SCRATCH)), rs2=random.choice((0, *SCRATCH)), imm=distance)


def register(random: Random) -> int:
    """What a register holds at first."""
    return pointer(random) if random.random() < 0.5 else integer(random)


def pointer(random: Random) -> int:
    """An address that loads and stores may well like, often near where something ends or is executed."""
    base = random.choice(
        (DATA, OUTPUT, CODE, 0x1400_0000, 0x1_0000, r.TCDM_BASE, r.DMA_BASE, r.PERF_COUNTERS_BASE, RETURN)
    )
    if random.random() < 0.2:
        base = random.choice(EDGES)
    return (base + random.choice((0, 8, 16, 2048, 4088, -8, 1, random.randrange(64)))) & ((1 << 64) - 1)


@dataclass(slots=True)
class Bench:
    """A device with the kernels of a case in it."""

    device: RefSiDevice

    @classmethod
    def of(cls, profile: str, engine: str, given: Case) -> Bench:
        """Windows as a real host has them, code in memory, registers of all harts filled."""
        device = fresh(profile, engine, STEP_LIMIT)
        place(device, m1.ELF_TARGET, given.text)
        place(device, CODE, given.code.ljust(SPACE, b"\0"))
        place(device, RETURN, struct.pack("<3I", 0x0000_0513, 0x0000_0893, 0x0000_0073))
        scale = 0x7FFFF_00000001 if profile == REFSIDRV else 0x3FFFF_00000001
        windows = [
            *m1.window(0, 0x1_0000, m1.ELF_TARGET, 0x7FF_0000),
            *m1.window(1, 0x1400_0000, r.TCDM_HART_BASE, 0x8_0000, mode=1, scale=scale),
        ]
        bench = cls(device)
        reported, data = bench.run([*windows, SyncCache(3)])
        assert "at command" not in reported, (reported, data)
        for hart in device.accelerator.harts:
            for number in range(1, 32):
                hart.set_x(number, given.x[number])
            for number in range(32):
                hart.words[F + number] = given.f[number]
        return bench

    def run(self, commands: list[Command]) -> tuple[str, bytes]:
        """Execute these commands; what the status says."""
        data = encode_all([*commands, Finish()])
        place(self.device, BUFFER, data)
        self.device.submit(BUFFER, len(data))
        (status,) = self.device.wait()
        check_status(status, data, self.device.profile_name)
        return f"{status} hart {status.hart} pc {status.pc} instance {status.instance} steps {status.steps}", data


def launch(given: Case) -> list[Command]:
    """The kernel command of a case."""
    run: Command
    if given.is_slice:
        run = RunKernelSlice(given.harts, given.instances, 7)
    else:
        run = RunInstances(given.harts, given.instances, given.args)
    return [
        WriteReg64(r.ENTRY_PT_FN.offset, given.entry),
        WriteReg64(r.STACK_TOP.offset, given.stack),
        WriteReg64(r.RETURN_ADDR.offset, given.back),
        run,
    ]


def state(hart: Hart) -> tuple[object, ...]:
    """What software can see of a hart."""
    return (
        [f"{value:x}" for value in hart.words[:64]],
        hart.pc,
        hart.retired,
        hart.privilege,
        {number: value for number, value in sorted(hart.csr.items()) if value},
        [hart.words[n] for n in (VL, VTYPE, VSTART, VXRM, VXSAT)],
        zlib.crc32(hart.own_vectors),
    )


def outcome(profile: str, engine: str, given: Case) -> tuple[list[object], bool]:
    """Everything that can be told of a case on one engine, and whether the code is still the same."""
    bench = Bench.of(profile, engine, given)
    device = bench.device
    before = code_of(device)
    reported: list[object] = [bench.run(launch(given))[0]]
    reported += [state(hart) for hart in device.accelerator.harts]
    reported.append((digest(device), counters(device)))
    same_code = code_of(device) == before
    if profile == SPEC:
        check_usable(device)
    else:
        check_again(device)
    return reported, same_code


def counters(device: RefSiDevice) -> list[str]:
    """The first counters of hart 0 as the host sees them, if no window hides them."""
    try:
        unit = Unit(HART, 0)
        return [device.read(r.PERF_COUNTERS_BASE + 8 * slot, 8, unit).hex() for slot in range(4)]
    except AccessFault as fault:
        return [str(fault)]


def check_case(given: Case) -> None:
    """Run a case everywhere; on one hart both engines must tell the same.

    Not where the reference driver's stale instruction cache shows which instructions were fetched before they changed:
    a translator fetches more at once.
    """
    for profile in (SPEC, REFSIDRV):
        found, same_code = [], True
        for engine in ("reference", "jit"):
            with in_time():
                reported, same = outcome(profile, engine, given)
            found.append(reported)
            same_code &= same
        if profile == SPEC and given.harts != 1 and given.instances != 1:
            continue  # races
        if profile == SPEC or same_code:
            for one, other in zip(*found, strict=True):
                assert one == other, f"{profile}: engines differ\n  {one}\n  {other}\n  {given}"


def code_of(device: RefSiDevice) -> tuple[int, ...]:
    """A checksum of the code."""
    return tuple(zlib.crc32(ram_of(device, base)[:size]) for base, size in ((CODE, SPACE), (m1.ELF_TARGET, SPACE)))


def check_boot(random: Random) -> None:
    """Boot G1 on made-up code in its ROM, which no hart can change: both engines must tell the same."""
    code, harts = made_up(random, random.choice((1, 2, 3, 3))), random.choice((0, 1, 1, 2, 3, 65))
    entry = random.choice((G1_RESET, G1_RESET + 4, CODE, address(random)))
    reported = []
    for engine in ("reference", "jit"):
        device = boot_device(engine)
        with in_time():
            device.reset()
            device.write(G1_RESET, code.ljust(256, b"\0"))
            status = device.execute_kernel(entry, harts)
            if status.error is not None:
                check_error(status.error)
            reported.append((str(status), [state(hart) for hart in device.accelerator.harts]))
    assert reported[0] == reported[1], f"engines differ on {code.hex()} with {harts} harts"


@cache
def boot_device(engine: str) -> RefSiDevice:
    """A G1, shared by all cases."""
    found = RefSiDevice("g", profile=REFSIDRV, engine=engine, step_limit=1000)
    keep_in_memory(found)
    return found
