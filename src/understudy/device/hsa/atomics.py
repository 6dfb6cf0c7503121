"""Atomic operations of the host on guest memory, as machine code: the same that waves on other threads execute.

Names of operations are those of HSA signals; all are sequentially consistent, which every order that a caller may ask
for allows.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

from understudy.core.errors import AccessFault, RuleError
from understudy.core.words import signed
from understudy.engine.gcn.jit import native_atomics as lanes
from understudy.engine.gcn.memory import MASK64, GpuMemory, Plain
from understudy.ir.native import A32, A64, link, native
from understudy.ir.object_cache import ObjectCache, default_folder

OPERATIONS: Final = {
    "exch": lanes.SWAP, "add": lanes.ADD, "sub": lanes.SUB, "and": lanes.AND, "or": lanes.OR, "xor": lanes.XOR,
    "min": lanes.SMIN, "max": lanes.SMAX,
}  # fmt: skip
"""Read-modify-write operations, and those of waves that are the same; `cas` stands apart."""


@native
def load32(place: int) -> int:
    """The dword at a host address."""
    return A32.load(place)


@native
def load64(place: int) -> int:
    """The quadword at a host address."""
    return A64.load(place)


@native
def store32(place: int, value: int) -> None:
    """Write a dword."""
    A32.store(place, value)


@native
def store64(place: int, value: int) -> None:
    """Write a quadword."""
    A64.store(place, value)


@dataclass(frozen=True, slots=True)
class Compiled:
    """Machine code for words of one width: host address first (`change`: second); values as unsigned numbers."""

    load: Callable[[int], int]
    store: Callable[[int, int], None]
    change: Callable[[int, int, int, int], int]
    """Operation, place, data and second data; the value before: see `native_atomics.changed`."""


FUNCTIONS: Final = (load32, load64, store32, store64, lanes.change32, lanes.change64)


@cache
def compiled(bits: int) -> Compiled:
    """Machine code for words of 32 or 64 bits."""
    code = link(ObjectCache(default_folder()), *FUNCTIONS)
    result, word = ctypes.c_uint64, ctypes.c_void_p  # as an argument, c_void_p is a word that is converted faster
    return Compiled(
        code.function(f"load{bits}", result, word, is_brief=True),
        code.function(f"store{bits}", None, word, word, is_brief=True),
        code.function(f"change{bits}", result, word, word, word, word, is_brief=True),
    )


class Word:
    """An aligned word of guest memory, reached atomically. Values are signed numbers of its width.

    An `AccessFault` where there is no plain memory that takes stores, a `RuleError` where the word is not aligned.
    """

    __slots__ = (
        "_change", "_host", "_load", "_mask", "_memory", "_plain", "_sign", "_store", "_version", "address", "bits",
    )  # fmt: skip

    def __init__(self, memory: GpuMemory, address: int, bits: int = 64) -> None:
        if address % (bits // 8):
            raise RuleError(f"atomic access of {bits // 8} bytes at {address:#x}, expected an aligned address")
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
        """Address of the word in this process."""
        memory = self._memory
        if self._version != memory.version:
            version, size = memory.version, self.bits // 8
            found = memory.plain(self.address, size, store=True)
            if found is None:
                memory.check(self.address, size, "write")
                text = f"atomic access of {size} bytes at {self.address:#x}: not plain memory"
                raise AccessFault(text, address=self.address, access="write")
            self._plain = found  # keeps it alive
            self._host = self.address + found.addend & MASK64
            self._version = version
        return self._host

    @property
    def place(self) -> int:
        """Address of the word in this process."""
        return self._find()

    def load(self) -> int:
        """The value."""
        word = self._load(self._host if self._version == self._memory.version else self._find())
        return (word ^ self._sign) - self._sign

    def load_unsigned(self) -> int:
        """The value as an unsigned number."""
        return self._load(self._host if self._version == self._memory.version else self._find())

    def store(self, value: int) -> None:
        """Write it."""
        self._store(self._host if self._version == self._memory.version else self._find(), value & self._mask)

    def rmw(self, operation: str, value: int) -> int:
        """Apply one of `OPERATIONS`; the value before."""
        host = self._host if self._version == self._memory.version else self._find()
        before = self._change(OPERATIONS[operation], host, value & self._mask, 0)
        return (before ^ self._sign) - self._sign

    def cas(self, expected: int, value: int) -> int:
        """Write `value` where `expected` is; the value before."""
        before = self._change(lanes.CMPSWAP, self._find(), value & self._mask, expected & self._mask)
        return signed(before, self.bits)
