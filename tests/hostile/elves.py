"""ELF files that went wrong, loaded through the host library and through the player."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from random import Random

from softcard.cli.recordings import Settings
from softcard.core.errors import AccessFault, RuleError, SoftcardError, WireError
from softcard.device.refsi.toolkit.builder import SPEC
from softcard.host.refsi.refsi import RefSi
from tests.device.refsi.recordings import FOLDER
from tests.hostile.checks import check_error, fresh, in_time
from tests.hostile.generate import HUGE, address
from tests.hostile.scripts import check_script

HEADER_BYTES = 64
SEGMENT = struct.Struct("<IIQQQQQQ")
SMALL = 1 << 16


@dataclass(frozen=True, slots=True)
class Claim:
    """A program header: where its bytes go, how many the file has and how many memory shall have."""

    at: int
    file_size: int
    memory_size: int


def elf_file(claims: list[Claim], body: bytes = b"") -> bytes:
    """A RISC-V file without sections; segments take their bytes from the end of the headers on."""
    start = HEADER_BYTES + SEGMENT.size * len(claims)
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 2, 243, 1, 0, HEADER_BYTES, 0, 0, HEADER_BYTES, SEGMENT.size, len(claims), 64, 0, 0
    )
    table = b"".join(SEGMENT.pack(1, 5, start, c.at, c.at, c.file_size, c.memory_size, 1) for c in claims)
    return header + table + body


def mutated(random: Random) -> bytes:
    """The recordings' file with bytes changed, mostly in its headers and tables, or a made-up one."""
    if random.random() < 0.3:
        claims = [
            Claim(address(random), random.choice((0, 8, 64, 65)), random.choice((0, 8, 64, SMALL, *HUGE)))
            for _ in range(random.randrange(5))
        ]
        return elf_file(claims, random.randbytes(64))
    data = bytearray((FOLDER / "kernels.elf").read_bytes())
    tables = int.from_bytes(data[40:48], "little")
    for _ in range(random.choice((1, 1, 2, 4, 16))):
        choice = random.randrange(10)
        place = random.randrange(len(data))
        if choice < 5:
            place = random.randrange(HEADER_BYTES + 4 * SEGMENT.size)
        elif choice < 8:
            place = random.randrange(tables, len(data))
        if random.random() < 0.2:
            size = random.choice((2, 4, 8))
            data[place : place + size] = address(random).to_bytes(8, "little")[:size]
        else:
            data[place : place + 1] = bytes([data[place] ^ 1 << random.randrange(8)])
    if random.random() < 0.1:
        del data[random.randrange(len(data)) :]
    return bytes(data)


def is_small(data: bytes) -> bool:
    """Whether no segment claims much memory: filling gigabytes with zeros is legal, but takes its time."""
    start, size, count = struct.unpack_from("<Q14xHH", data.ljust(HEADER_BYTES, b"\0"), 32)
    for number in range(min(count, len(data) // SEGMENT.size)):
        at = start + number * size
        if at + SEGMENT.size > len(data):
            break
        kind, _, _, _, _, _, memory, _ = SEGMENT.unpack_from(data, at)
        if kind == 1 and 1 << 24 < memory <= 1 << 32:
            return False
    return True


def check_file(data: bytes, folder: Path) -> None:
    """Load a file through the host library, and through the player."""
    if not is_small(data):
        return
    with in_time():
        check_host(data)
    (folder / "hostile.elf").write_bytes(data)
    with in_time():
        for profile in ("spec", "refsidrv"):
            settings = Settings(profile, "reference", 0, 100)
            lines = ["open m", "elf hostile.elf", "close"]
            check_script(lines, settings, folder)


def check_host(data: bytes) -> None:
    """`load_elf` gives a program whose kernels can be called, or an error that says what is wrong with the file."""
    device = RefSi(fresh(SPEC, "reference"))
    try:
        program = device.load_elf(data)
    except SoftcardError as error:
        check_refusal(error)
        return
    for name in program.kernels[:3]:
        try:
            device.launch(name, 1, [0x5000_0000, 0x5000_0000, 0x5000_0000, 1])
        except SoftcardError as error:
            check_failure(error, name)
    program.unload()


def check_refusal(error: SoftcardError) -> None:
    """What refuses a file says so."""
    check_error(error)
    assert isinstance(error, WireError | RuleError | AccessFault), error


def check_failure(error: SoftcardError, kernel: str) -> None:
    """A kernel that fails is named."""
    check_error(error)
    assert f"at kernel {kernel}" in str(error), error
