"""Cases run by qemu-riscv64: one static Linux program, written byte by byte here, carries thousands of them.

Each case owns a code slot and a data slot at fixed addresses. Its code loads every register from the data slot, runs
the instructions under test, stores every register back and falls through to the next case. One register, the
keeper, holds the address for storing back, so the instructions under test must not write it; in another case
another register does. The last slot writes all data slots to standard output and exits.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

QEMU = shutil.which("qemu-riscv64") or shutil.which("qemu-riscv64-static")

CODE = 0x0100_0000
CODE_SLOT = 1024
DATA = 0x1000_0000
DATA_SLOT = 2048
SLOTS = 1 << 14
"""Slots there is room for before the code would reach the data."""
SNIPPET_OFFSET = 268
"""Bytes of a code slot before the instructions under test: all loads."""
SNIPPET_BYTES = 456
"""Room for the instructions under test."""
OUT = 576
"""Offset of the stored registers in a data slot; the loaded ones are at its start."""
SCRATCH = 1152
"""Offset of the memory that instructions under test may reach."""
SCRATCH_BYTES = 256
X, F, FCSR = 0, 256, 512
"""Offsets in a register block: x0 to x31, f0 to f31, fcsr."""


@dataclass(frozen=True, slots=True)
class State:
    """Everything a user-level instruction may read or change, except pc."""

    x: tuple[int, ...]
    f: tuple[int, ...]
    fcsr: int
    memory: bytes
    """The scratch memory, `SCRATCH_BYTES` long."""

    def __post_init__(self) -> None:
        assert len(self.x) == len(self.f) == 32
        assert len(self.memory) == SCRATCH_BYTES


@dataclass(frozen=True, slots=True)
class Slot:
    """Where case number `index` lives."""

    index: int

    @property
    def code(self) -> int:
        """Address of the first instruction under test."""
        return CODE + self.index * CODE_SLOT + SNIPPET_OFFSET

    @property
    def data(self) -> int:
        """Address of the data slot."""
        return DATA + self.index * DATA_SLOT

    @property
    def scratch(self) -> int:
        """Address of the scratch memory."""
        return self.data + SCRATCH

    @property
    def out(self) -> int:
        """What the keeper register must hold."""
        return self.data + OUT


@dataclass(frozen=True, slots=True)
class Case:
    """Instructions under test, entered at their first byte and left behind their last, and the state before them."""

    slot: Slot
    code: bytes
    before: State
    keeper: int

    def __post_init__(self) -> None:
        assert 0 < len(self.code) <= SNIPPET_BYTES
        assert self.before.x[0] == 0
        assert self.before.x[self.keeper] == self.slot.out


# The few encodings the frame needs, so that it does not depend on the decoder under test.


def load_word(opcode: int, rd: int, base: int, offset: int) -> int:
    """An I-type instruction of width d: ld (opcode 0x03) or fld (0x07)."""
    return (offset & 0xFFF) << 20 | base << 15 | 3 << 12 | rd << 7 | opcode


def store_word(opcode: int, source: int, base: int, offset: int) -> int:
    """An S-type instruction of width d: sd (opcode 0x23) or fsd (0x27)."""
    return (offset >> 5 & 0x7F) << 25 | source << 20 | base << 15 | 3 << 12 | (offset & 0x1F) << 7 | opcode


def load_address(rd: int, address: int) -> list[int]:
    """lui and addi that set `rd` to an address below 2 GiB."""
    high = (address + 0x800) >> 12
    return [high << 12 | rd << 7 | 0x37, (address & 0xFFF) << 20 | rd << 15 | rd << 7 | 0x13]


FSCSR_X1 = 0x0030_9073
FRCSR_X1 = 0x0030_20F3
ECALL = 0x0000_0073


def _prologue(slot: Slot) -> list[int]:
    words = load_address(31, slot.data)
    words += [load_word(0x03, 1, 31, FCSR), FSCSR_X1]
    words += [load_word(0x07, n, 31, F + 8 * n) for n in range(32)]
    return words + [load_word(0x03, n, 31, X + 8 * n) for n in range(1, 32)]


def _epilogue(keeper: int) -> list[int]:
    temporary = 1 if keeper != 1 else 2
    words = [store_word(0x23, n, keeper, X + 8 * n) for n in range(32)]
    words += [store_word(0x27, n, keeper, F + 8 * n) for n in range(32)]
    read_fcsr = FRCSR_X1 & ~(31 << 7) | temporary << 7
    return [*words, read_fcsr, store_word(0x23, temporary, keeper, FCSR)]


def _finish(size: int) -> list[int]:
    """write(1, DATA, size) and exit(0) by the Linux calls 64 and 93."""
    words = [*load_address(10, 1), *load_address(11, DATA), *load_address(12, size), *load_address(17, 64), ECALL]
    return [*words, *load_address(10, 0), *load_address(17, 93), ECALL]


def _words(words: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(words)}I", *words)


def program(cases: Sequence[Case]) -> bytes:
    """The ELF file that runs `cases`, whose slots must be numbered from 0: code first, data at its own place."""
    code = bytearray()
    data = bytearray()
    for n, case in enumerate(cases):
        assert case.slot.index == n
        body = _words(_prologue(case.slot))
        assert len(body) == SNIPPET_OFFSET
        body += case.code + _words(_epilogue(case.keeper))
        # The rest of the slot is jumped over by 2-byte nops: c.nop, and no case ever falls into data.
        code += body + b"\x01\x00" * ((CODE_SLOT - len(body)) // 2)
        registers = struct.pack("<65Q", *case.before.x, *case.before.f, case.before.fcsr)
        data += registers.ljust(SCRATCH, b"\0") + case.before.memory.ljust(DATA_SLOT - SCRATCH, b"\0")
    code += _words(_finish(len(data)))
    return _elf([(CODE, bytes(code)), (DATA, bytes(data))])


def _elf(segments: Sequence[tuple[int, bytes]]) -> bytes:
    """A static RV64GC executable of readable, writable and executable segments, entered at the first."""
    offset = 0x1000
    headers, body = b"", b""
    for address, content in segments:
        headers += struct.pack("<IIQQQQQQ", 1, 7, offset, address, address, len(content), len(content), 0x1000)
        padded = content + b"\0" * (-len(content) % 0x1000)
        body += padded
        offset += len(padded)
    ident = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    sizes = (0, 0x5, 64, 56, len(segments), 0, 0, 0)
    head = ident + struct.pack("<HHIQQQIHHHHHH", 2, 243, 1, segments[0][0], 64, *sizes)
    return (head + headers).ljust(0x1000, b"\0") + body


def run(cases: Sequence[Case]) -> list[State]:
    """The states after each case, as qemu-riscv64 sees them; a `RuntimeError` names a case that ends the program."""
    raw, ending = _output(cases)
    if ending:
        low, high = 0, len(cases)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if _output(cases[:middle])[1] else (middle, high)
        raise RuntimeError(f"qemu-riscv64 in case {low}, code {cases[low].code.hex(' ')}: {ending}")
    return [_after(raw[n * DATA_SLOT : (n + 1) * DATA_SLOT]) for n in range(len(cases))]


def _output(cases: Sequence[Case]) -> tuple[bytes, str]:
    """What the program for `cases` writes, and what is wrong with its end, if anything."""
    assert QEMU is not None
    with tempfile.TemporaryDirectory() as folder:
        path, output = Path(folder) / "cases", Path(folder) / "after"
        path.write_bytes(program(cases))
        path.chmod(0o755)
        with output.open("wb") as stream:
            done = subprocess.run(
                [QEMU, "-cpu", "rv64,Zfh=true", str(path)],
                stdout=stream,
                stderr=subprocess.PIPE,
                timeout=300,
                check=False,
            )
        raw = output.read_bytes()
    if done.returncode == 0 and len(raw) == len(cases) * DATA_SLOT:
        return raw, ""
    return raw, f"status {done.returncode}, {len(raw)} bytes, {done.stderr.decode(errors='replace')}"


def _after(slot: bytes) -> State:
    registers = struct.unpack_from("<65Q", slot, OUT)
    memory = slot[SCRATCH : SCRATCH + SCRATCH_BYTES]
    return State(registers[:32], registers[32:64], registers[64], memory)
