"""Atomic operations of the host on guest memory; waves on other threads may access the memory at the same time.

They are executed by the same machine code that waves use. The operations have the names of HSA signal
operations. All are sequentially consistent, which satisfies every memory order."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

from softcard.core.errors import AccessFault, RuleError
from softcard.core.words import signed
from softcard.engine.gcn.jit import native_atomics as lanes
from softcard.engine.gcn.memory import MASK64, GpuMemory, Plain
from softcard.ir.native import A32, A64, link, native
from softcard.ir.object_cache import ObjectCache, default_folder

OPERATIONS: Final = {
    "exch": lanes.SWAP, "add": lanes.ADD, "sub": lanes.SUB, "and": lanes.AND, "or": lanes.OR, "xor": lanes.XOR,
    "min": lanes.SMIN, "max": lanes.SMAX,
}  # fmt: skip
"""The read-modify-write operations by name, with the equivalent operations of waves; `cas` is not included."""


@native
def load32(place: int) -> int:
    """Return the dword at address `place` in the address space of this process."""
    return A32.load(place)


@native
def load64(place: int) -> int:
    """Return the quadword at address `place` in the address space of this process."""
    return A64.load(place)


@native
def store32(place: int, value: int) -> None:
    """Store the dword `value` at address `place` in the address space of this process."""
    A32.store(place, value)


@native
def store64(place: int, value: int) -> None:
    """Store the quadword `value` at address `place` in the address space of this process."""
    A64.store(place, value)


@dataclass(frozen=True, slots=True)
class Compiled:
    """The machine code functions for atomic access to words of one width; values are unsigned.

    The word's address in this process is the first argument of `load` and `store`, and the second argument of
    `change`."""

    load: Callable[[int], int]
    store: Callable[[int, int], None]
    change: Callable[[int, int, int, int], int]
    """A function that changes a word atomically; it returns the previous value.

    Its arguments are the operation, the address, and two data values: see `native_atomics.changed`.
    """


FUNCTIONS: Final = (load32, load64, store32, store64, lanes.change32, lanes.change64)


@cache
def compiled(bits: int) -> Compiled:
    """Return the machine code functions for atomic access to words of `bits` bits, 32 or 64."""
    code = link(ObjectCache(default_folder()), *FUNCTIONS)
    result, word = ctypes.c_uint64, ctypes.c_void_p  # as an argument, c_void_p is a word with a faster conversion
    return Compiled(
        code.function(f"load{bits}", result, word, is_brief=True),
        code.function(f"store{bits}", None, word, word, is_brief=True),
        code.function(f"change{bits}", result, word, word, word, word, is_brief=True),
    )


class Word:
    """An aligned word of guest memory with atomic access. Values are signed numbers of the word's width.

    Raise `AccessFault` if the word is not in plain writable memory, and `RuleError` if it is not aligned.
    """

    __slots__ = (
        "_change", "_host", "_load", "_mask", "_memory", "_plain", "_sign", "_store", "_version", "address", "bits",
    )  # fmt: skip

    def __init__(self, memory: GpuMemory, address: int, bits: int = 64) -> None:
        if address % (bits // 8):
            raise RuleError(
                f"atomic access of {bits // 8} bytes at {address:#x}: the address must be a multiple of {bits // 8}"
            )
        self.address = address
        self.bits = bits
        self._memory = memory
        functions = compiled(bits)
        self._load, self._store, self._change = functions.load, functions.store, functions.change
        self._mask = (1 << bits) - 1
        self._sign = 1 << bits - 1
        self._version = -1
        self._host = 0
        self._plain: Plain | None = None
        self._find()

    def _find(self) -> int:
        """Return the address of the word in this process; raise an error if the word cannot be accessed."""
        memory = self._memory
        if self._version != memory.version:
            version, size = memory.version, self.bits // 8
            found = memory.plain(self.address, size, store=True)
            if found is None:
                memory.check(self.address, size, "write")
                text = f"atomic access of {size} bytes at {self.address:#x}: the address is not in RAM"
                raise AccessFault(text, address=self.address, access="write")
            self._plain = found  # keeps the memory alive
            self._host = self.address + found.addend & MASK64
            self._version = version
        return self._host

    @property
    def place(self) -> int:
        """The address of the word in this process."""
        return self._find()

    def load(self) -> int:
        """Return the value of the word as a signed number."""
        word = self._load(self._host if self._version == self._memory.version else self._find())
        return (word ^ self._sign) - self._sign

    def load_unsigned(self) -> int:
        """Return the value of the word as an unsigned number."""
        return self._load(self._host if self._version == self._memory.version else self._find())

    def store(self, value: int) -> None:
        """Store `value` in the word."""
        self._store(self._host if self._version == self._memory.version else self._find(), value & self._mask)

    def rmw(self, operation: str, value: int) -> int:
        """Apply `operation`, one of `OPERATIONS`, with `value` to the word; return its previous value."""
        host = self._host if self._version == self._memory.version else self._find()
        before = self._change(OPERATIONS[operation], host, value & self._mask, 0)
        return (before ^ self._sign) - self._sign

    def cas(self, expected: int, value: int) -> int:
        """Store `value` in the word if it holds `expected`; return the previous value."""
        before = self._change(lanes.CMPSWAP, self._find(), value & self._mask, expected & self._mask)
        return signed(before, self.bits)
