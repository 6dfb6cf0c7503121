"""Strategies for RV64 kernels: straight-line machine code whose registers are all set by the code itself."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache, partial
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from softcard.isa.pattern import Field
from softcard.isa.riscv.decode import assemble, encode
from softcard.isa.riscv.insn import Spec
from softcard.isa.riscv.rows import Row
from softcard.isa.riscv.table import BASE, HALFWORDS, Expansion
from softcard.testing.strategies.drawn import Drawn, drawn

FIRST, LAST = 8, 15
"""The numbers of the first and last register that kernels use: x8 to x15 and f8 to f15.

Compressed instructions can encode these registers.
"""
MOST_INSTRUCTIONS: Final = 8
EXTENSIONS: Final = frozenset({"I", "M", "F", "D", "Zbc"})
MEMORY: Final = frozenset({0x03, 0x07, 0x23, 0x27})
"""The major opcodes of loads and stores."""
AUIPC, FENCE = 0x17, 0x0F
REGISTERS: Final = ("rd", "rs1", "rs2", "rs3")
ROUNDING_MODES: Final = 5
RETURN: Final = assemble("jalr zero, 0(ra)")
WORD: Final = st.integers(0, (1 << 32) - 1)
RESERVED_HALFWORDS: Final = (0x0000, 0x0008, 0x2001, 0x6101, 0x6501, 0x4002, 0x6002, 0x8002, 0x9C41, 0x9C61, 0x8000)
"""Reserved encodings of compressed instructions, one of each kind."""
CUSTOM: Final = (0x0B, 0x2B, 0x5B, 0x7B)
"""The major opcodes that are reserved for custom instructions."""


def riscv_kernels(*, breaks: Collection[str] | None = None) -> SearchStrategy[Drawn[bytes]]:
    """Draw machine code of RV64GC with Zbc that returns to the address in x1.

    Valid code sets x8 to x15 and f8 to f15, computes with them and leaves the results in these registers. The
    results are the same on any hardware. The code has neither branches nor memory accesses, and runs at any
    address.

    `breaks` lists the possible mistakes, one of which is in one instruction: ``riscv/encoding`` (reserved, or
    custom), ``riscv/length`` (longer than 32 bits) or ``riscv/rounding-mode`` (5 or 6)."""
    instructions = st.sampled_from(_rows()).flatmap(_instruction)
    rounded = st.sampled_from([row for row in _rows() if any(part.name == "rm" for part in row.pattern.fields)])
    wrong: dict[str, SearchStrategy[bytes]] = {
        "riscv/encoding": st.sampled_from(RESERVED_HALFWORDS).map(lambda halfword: halfword.to_bytes(2, "little"))
        | st.builds(lambda bits, major: _word(bits & ~0x7F | major), WORD, st.sampled_from(CUSTOM)),
        "riscv/length": WORD.map(lambda bits: _word(bits | 0x1F)),
        "riscv/rounding-mode": st.builds(
            lambda code, mode: _word(int.from_bytes(code, "little") & ~0x7000 | mode << 12),
            rounded.flatmap(_instruction),
            st.integers(5, 6),
        ),
    }
    mistakes = {name: partial(_program, instructions, one) for name, one in wrong.items()}
    return drawn(partial(_program, instructions, None), mistakes, breaks)


def _program(instructions: SearchStrategy[bytes], wrong: SearchStrategy[bytes] | None, draw: DrawFn) -> bytes:
    """Draw code that sets the registers and computes with them.

    If `wrong` is given, an invalid instruction drawn from it follows, and then further code, which is never
    reached."""
    code = _first_values(draw(st.integers(0, 0xFFFFF)))
    code += b"".join(draw(st.lists(instructions, max_size=MOST_INSTRUCTIONS)))
    if wrong is not None:
        code += draw(wrong) + b"".join(draw(st.lists(instructions, max_size=MOST_INSTRUCTIONS)))
    return code + RETURN


def _first_values(seed: int) -> bytes:
    words = []
    for n in range(FIRST, LAST + 1):
        words.append(encode("lui", rd=n, imm=_signed(seed * (2 * n + 1) << 12)))
        words.append(encode("slli", rd=n, rs1=n, imm=n))
        words.append(encode("addi", rd=n, rs1=n, imm=seed % 2048 - n))
        words.append(encode("fmv.d.x", rd=n, rs1=n))
    return b"".join(map(_word, words))


def _signed(value: int) -> int:
    """Return the low 32 bits of `value` as a signed number."""
    return (value & 0xFFFF_FFFF ^ 0x8000_0000) - 0x8000_0000


def _word(word: int) -> bytes:
    return (word & 0xFFFF_FFFF).to_bytes(4, "little")


# ---- one instruction -------------------------------------------------------------------------------------------------


@cache
def _rows() -> tuple[Row[Any], ...]:
    """Return the table rows of the instructions that compute with registers: 32-bit ones and compressed forms."""
    whole = tuple(row for row in BASE if _computes(row.what, row.pattern.match))
    names = {row.name for row in whole}
    return *whole, *(row for row in HALFWORDS if row.what.spec.name in names and _is_free(row.what))


def _computes(spec: Spec, word: int) -> bool:
    return spec.flow == "next" and spec.extension in EXTENSIONS and word & 0x7F not in (*MEMORY, AUIPC, FENCE)


def _is_free(expansion: Expansion) -> bool:
    """Return True if the expansion of a compressed instruction uses no implicit register, such as the stack pointer."""
    return not any(expansion.fixed.get(name) for name in REGISTERS)


@st.composite
def _instruction(draw: DrawFn, row: Row[Any]) -> bytes:
    values = {part.name: draw(_values(part, row.pattern.width)) for part in row.pattern.fields}
    return encode(row.name, **values).to_bytes(row.pattern.width // 8, "little")


def _values(part: Field, width: int) -> SearchStrategy[int]:
    """Draw values that the field `part` of an instruction of `width` bits can have."""
    if part.name in REGISTERS:
        return st.integers(FIRST, LAST)
    if part.name == "rm":
        return st.integers(0, ROUNDING_MODES - 1)
    return st.integers(0, (1 << width) - 1).map(part.get).filter(lambda value: value not in part.never)
