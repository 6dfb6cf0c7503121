"""The architectural state of one RV64 hart, laid out so that translated code and Python share it."""

from __future__ import annotations

from typing import Final

import numpy as np

from understudy.core.snapshot import Stateful
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
ENGINE_WORDS: Final = 73
"""From here on the words are an engine's own and outlive `Hart.reset`."""
LOAD_TABLE: Final = 73
STORE_TABLE: Final = 74
CODE_TABLE: Final = 75
SCRATCH: Final = 77
LOAD_ENDS: Final = 78
STORE_ENDS: Final = 79
POLLS: Final = 80
"""Rounds of polling (see `engine.polling`) that the hart may still do before it hands itself back."""
SHARED: Final = 81
"""Not 0 while other harts run at the same time: whatever synchronizes with them then waits until they do not."""
SYNCHRONIZED: Final = 82
"""Not 0 once the hart has executed an atomic or a fence."""
WORDS: Final = 96

NO_ADDRESS: Final = (1 << 64) - 1
"""Return or reservation address that no aligned access can match."""

FOREVER: Final = (1 << 64) - 1
"""Rounds of polling that nobody counts."""

M, S, U = 3, 1, 0


class Hart(Stateful):
    """Registers and privileged state of one hart.

    `words` is a memoryview of unsigned 64-bit words shared with translated code: use the word offsets of this
    module. `csr` holds the raw values of the other control and status registers by number (see `csr.py` for
    their rules). `port` is the hart's way to memory. Everything persists until `reset`.
    """

    STATE = ("own_words", "csr", "privilege")

    def __init__(self, index: int, port: HartPort) -> None:
        self.index = index
        self.port = port
        self.buffer = np.zeros(WORDS, dtype=np.uint64)
        self.words = self.buffer.data.cast("B").cast("Q")
        self.words[POLLS] = FOREVER
        self.address = int(self.buffer.ctypes.data)
        self.csr: dict[int, int] = {}
        self.privilege = M
        self.context: object | None = None
        self.reset()

    def reset(self) -> None:
        """Zero all registers; machine mode; no reservation, no return address.

        The words from `LOAD_TABLE` on are the engine's: they stay.
        """
        self.buffer[:LOAD_TABLE] = 0
        self.words[RETURN_ADDRESS] = NO_ADDRESS
        self.words[RESERVED_ADDRESS] = NO_ADDRESS
        self.csr.clear()
        self.privilege = M

    @property
    def own_words(self) -> memoryview[int]:
        """The words that are not the engine's."""
        return self.words[:ENGINE_WORDS]

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
