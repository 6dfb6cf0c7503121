"""The architectural state of one RV64 hart, in a layout that translated code and Python share."""

from __future__ import annotations

from typing import Final

import numpy as np

from softcard.core.display import RichDisplay, Rows
from softcard.core.errors import WireError
from softcard.core.snapshot import Stateful
from softcard.isa.riscv.isa import MOST_VLEN, REFSI, Isa
from softcard.isa.riscv.port import HartPort

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
"""The index of the first word that belongs to the engine; `Hart.reset` leaves it and later words unchanged."""
LOAD_TABLE: Final = 78
STORE_TABLE: Final = 79
CODE_TABLE: Final = 80
SCRATCH: Final = 81
LOAD_ENDS: Final = 82
STORE_ENDS: Final = 83
POLLS: Final = 84
"""The word with the number of polling rounds until the hart must return to the scheduler.

`engine.riscv.polling` describes polling.
"""
SHARED: Final = 85
"""The word that is not 0 while other harts run concurrently.

Synchronizing instructions then wait until the other harts have stopped.
"""
SYNCHRONIZED: Final = 86
"""The word that becomes non-zero when the hart executes an atomic or a fence."""
VECTORS: Final = 87
"""The word with the address of the vector registers."""
NATIVE_VLEN: Final = 88
"""The word with the width of vector registers in bits if translated code may use them directly, else 0.

It may if the VS field of mstatus is "dirty".
"""
REFILL: Final = 89
"""The word with the address of the function `jit.dispatcher.refill`, for a hart with a translation buffer."""
KNOWN_LOADS: Final = 90
KNOWN_STORES: Final = 91
TLB: Final = 92
TLB_MASK: Final = 93
"""The word with the number of entries of the hart's translation buffer minus one; see `engine.riscv.pages`."""
COUNTS: Final = 94
"""The word with the address of the execution counters of translated code: see `jit.counters`."""
SHADOW: Final = 95
"""The word with the address of the hart's shadow registers, if undefined values are tracked.

See `engine.riscv.shadow`.
"""
RACES: Final = 96
"""The word with the address of the hart's entry in `engine.riscv.races.layout`, if data races are checked."""
CODE_STORES: Final = 97
"""The word with the address of the hart's entry in `engine.riscv.code_stores.layout`.

It is used if stores to executed code are checked.
"""
WORDS: Final = 98

NO_ADDRESS: Final = (1 << 64) - 1
"""The value of a return or reservation address that is not set; no aligned access can match it."""

FOREVER: Final = (1 << 64) - 1
"""The value of the word `POLLS` that permits unlimited polling."""

M, S, U = 3, 1, 0

VECTOR_REGISTERS: Final = 32
LEAST_VLEN = 64


def check_vlen(bits: int) -> None:
    """Raise a `WireError` unless `bits` is a permitted width of vector registers (V 1.0, chapter 2, with ELEN 64)."""
    if not LEAST_VLEN <= bits <= MOST_VLEN or bits & (bits - 1):
        raise WireError(f"vector registers must have a power of two of bits, {LEAST_VLEN} to {MOST_VLEN}, not {bits}")


class Hart(Stateful, RichDisplay):
    """The registers and privileged state of one hart, which persist until `reset`.

    - `words`: a memoryview of unsigned 64-bit words shared with translated code, indexed by the constants of this
      module
    - `csr`: the raw values of the other control and status registers by number (see `csr.py` for their rules)
    - `port`: the hart's memory interface
    - `isa`: the hart's instruction set
    - `vectors`: the vector registers, one after another, as little-endian elements: a memoryview for each element
      width in bits (8, 16, 32, 64)"""

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
        """Create vector registers of `bits` bits, all zero; `WireError` for an invalid width."""
        check_vlen(bits)
        if bits != self.vlen:
            self.vlen = bits
            memory = np.zeros(VECTOR_REGISTERS * bits // 64, dtype=np.uint64)
            self.words[VECTORS] = int(memory.ctypes.data)
            registers = memory.data.cast("B")
            elements = registers, registers.cast("H"), registers.cast("I"), registers.cast("Q")
            self.vectors: dict[int, memoryview[int]] = dict(zip((8, 16, 32, 64), elements, strict=True))

    def reset(self) -> None:
        """Zero all registers; enter machine mode; drop the reservation, and the return address that ends a kernel call.

        The words from `ENGINE_WORDS` on belong to the engine and are unchanged."""
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
        """The state words that belong to the hart, not to the engine."""
        return self.words[:ENGINE_WORDS]

    @property
    def own_vectors(self) -> memoryview[int]:
        """The bytes of the vector registers."""
        return self.vectors[8]

    @property
    def pc(self) -> int:
        """The address of the next instruction."""
        return self.words[PC]

    @pc.setter
    def pc(self, value: int) -> None:
        self.words[PC] = value

    @property
    def retired(self) -> int:
        """The number of instructions retired since reset; `minstret` and `mcycle` are stored relative to it."""
        return self.words[RETIRED]

    def x(self, n: int) -> int:
        """Return integer register `n`."""
        return self.words[n]

    def set_x(self, n: int, value: int) -> None:
        """Write integer register `n` (modulo 2**64); x0 stays zero."""
        if n:
            self.words[n] = value & 0xFFFF_FFFF_FFFF_FFFF
