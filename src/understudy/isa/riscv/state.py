"""The architectural state of one RV64 hart, laid out so that translated code and Python share it."""

from __future__ import annotations

from typing import Final

import numpy as np

from understudy.core.errors import WireError
from understudy.core.shown import Rows, Shown
from understudy.core.snapshot import Stateful
from understudy.isa.riscv.isa import MOST_VLEN, REFSI, Isa
from understudy.isa.riscv.port import HartPort

# Word offsets in the shared state; translated code uses the same numbers.
X: Final = 0
F: Final = 32
PC: Final = 64
FUEL: Final = 65
RETIRED: Final = 66
FFLAGS: Final = 67
FRM: Final = 68
RETURN_ADDRESS: Final = 69
FAULT_ADDRESS: Final = 70
RESERVED_ADDRESS: Final = 71
RESERVED_VALUE: Final = 72
VSTART: Final = 73
VL: Final = 74
VTYPE: Final = 75
VXSAT: Final = 76
VXRM: Final = 77
ENGINE_WORDS: Final = 78
"""From here on the words are an engine's own and outlive `Hart.reset`."""
LOAD_TABLE: Final = 78
STORE_TABLE: Final = 79
CODE_TABLE: Final = 80
SCRATCH: Final = 81
LOAD_ENDS: Final = 82
STORE_ENDS: Final = 83
POLLS: Final = 84
"""Rounds of polling (see `engine.polling`) that the hart may still do before it hands itself back."""
SHARED: Final = 85
"""Not 0 while other harts run at the same time: whatever synchronizes with them then waits until they do not."""
SYNCHRONIZED: Final = 86
"""Not 0 once the hart has executed an atomic or a fence."""
VECTORS: Final = 87
"""The address of the vector registers."""
NATIVE_VLEN: Final = 88
"""Bits of a vector register where translated code may use them: vectors are on and known to be written; else 0."""
REFILL: Final = 89
"""The address of `jit.dispatcher.refill`, for a hart with a translation buffer."""
KNOWN_LOADS: Final = 90
KNOWN_STORES: Final = 91
TLB: Final = 92
TLB_MASK: Final = 93
"""Tables of a hart with a translation buffer, and its entries less one: see `engine.riscv.pages`."""
COUNTS: Final = 94
"""The address of the counters of translated code that counts its instructions: see `jit.counters`."""
MARKS: Final = 95
"""The address of the marks of its registers, where values are checked: see `engine.riscv.marks`."""
RACES: Final = 96
"""The address of the row of `engine.riscv.races.codes` that is its own, where races are looked for."""
CODE_STORES: Final = 97
"""The address of the row of `engine.riscv.code_stores.codes` that is its own, where stores into code are looked for."""
WORDS: Final = 98

NO_ADDRESS: Final = (1 << 64) - 1
"""Return or reservation address that no aligned access can match."""

FOREVER: Final = (1 << 64) - 1
"""Rounds of polling that nobody counts."""

M, S, U = 3, 1, 0

VECTOR_REGISTERS: Final = 32
LEAST_VLEN = 64


def check_vlen(bits: int) -> None:
    """`WireError` unless vector registers may have so many bits (V 1.0, chapter 2, with ELEN 64)."""
    if not LEAST_VLEN <= bits <= MOST_VLEN or bits & (bits - 1):
        raise WireError(f"vector registers have a power of two of bits, {LEAST_VLEN} to {MOST_VLEN}, not {bits}")


class Hart(Stateful, Shown):
    """Registers and privileged state of one hart.

    `words` is a memoryview of unsigned 64-bit words shared with translated code: use the word offsets of this
    module. `csr` holds the raw values of the other control and status registers by number (see `csr.py` for
    their rules). `port` is the hart's way to memory, and `isa` says which instructions it has. Everything persists
    until `reset`. `vectors` has the vector registers, one behind the other, as little-endian elements: a memoryview by
    their width in bits (8, 16, 32, 64).
    """

    STATE = ("own_words", "own_vectors", "csr", "privilege")

    def __init__(self, index: int, port: HartPort, isa: Isa = REFSI) -> None:
        self.index = index
        self.port = port
        self.isa = isa
        self.buffer = np.zeros(WORDS, dtype=np.uint64)
        self.words = self.buffer.data.cast("B").cast("Q")
        self.words[POLLS] = FOREVER
        self.address = int(self.buffer.ctypes.data)
        self.csr: dict[int, int] = {}
        self.privilege = M
        self.context: object | None = None
        self.vlen = 0
        self.set_vlen(LEAST_VLEN)
        self.reset()

    def set_vlen(self, bits: int) -> None:
        """Make vector registers of so many bits, all zero; `WireError` where there are none of that width."""
        check_vlen(bits)
        if bits != self.vlen:
            self.vlen = bits
            memory = np.zeros(VECTOR_REGISTERS * bits // 64, dtype=np.uint64)
            self.words[VECTORS] = int(memory.ctypes.data)
            registers = memory.data.cast("B")
            elements = registers, registers.cast("H"), registers.cast("I"), registers.cast("Q")
            self.vectors: dict[int, memoryview[int]] = dict(zip((8, 16, 32, 64), elements, strict=True))

    def reset(self) -> None:
        """Zero all registers; machine mode; no reservation, no return address.

        The words from `LOAD_TABLE` on are the engine's: they stay.
        """
        self.buffer[:LOAD_TABLE] = 0
        self.own_vectors[:] = bytes(len(self.own_vectors))
        self.words[RETURN_ADDRESS] = NO_ADDRESS
        self.words[RESERVED_ADDRESS] = NO_ADDRESS
        self.csr.clear()
        self.privilege = M

    def __repr__(self) -> str:
        return f"<hart {self.index}, pc {self.pc:#x}, {self.retired:,} instructions retired>"

    def _rows(self) -> Rows:
        yield "register", "value", "register", "value"
        for n in range(32):
            yield f"x{n}", f"{self.words[n]:#x}", f"f{n}", f"{self.words[F + n]:#x}"

    @property
    def own_words(self) -> memoryview[int]:
        """The words that are not the engine's."""
        return self.words[:ENGINE_WORDS]

    @property
    def own_vectors(self) -> memoryview[int]:
        """The bytes of the vector registers."""
        return self.vectors[8]

    @property
    def pc(self) -> int:
        """Address of the next instruction."""
        return self.words[PC]

    @pc.setter
    def pc(self, value: int) -> None:
        self.words[PC] = value

    @property
    def retired(self) -> int:
        """Instructions retired since reset; `minstret` and `mcycle` are offsets to this."""
        return self.words[RETIRED]

    def x(self, n: int) -> int:
        """Integer register `n`."""
        return self.words[n]

    def set_x(self, n: int, value: int) -> None:
        """Write integer register `n` (modulo 2**64); x0 stays zero."""
        if n:
            self.words[n] = value & 0xFFFF_FFFF_FFFF_FFFF
