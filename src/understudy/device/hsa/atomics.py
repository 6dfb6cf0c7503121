"""Atomic operations of the host on guest memory, as machine code: the same that waves on other threads execute.

Names of operations are those of HSA signals; all are sequentially consistent, which every order that a caller may ask
for allows.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Final

from understudy.core.errors import AccessFault, RuleError
from understudy.core.words import U64, signed
from understudy.engine.gcn.memory import GpuMemory, Plain
from understudy.ir.object_cache import ObjectCache, default_folder, linked

OPERATIONS: Final = {
    "exch": "xchg", "add": "add", "sub": "sub", "and": "and", "or": "or", "xor": "xor", "min": "min", "max": "max",
}  # fmt: skip
"""Read-modify-write operations, and what LLVM calls them; `cas` stands apart."""
WIDTHS: Final = (32, 64)


def _functions(bits: int) -> str:
    word, align = f"i{bits}", bits // 8
    text = f"""
define i64 @load{bits}(ptr %p) {{
  %v = load atomic {word}, ptr %p seq_cst, align {align}
  %w = {"add i64 %v, 0" if bits == 64 else "zext i32 %v to i64"}
  ret i64 %w
}}
define void @store{bits}(ptr %p, i64 %w) {{
  %v = {"add i64 %w, 0" if bits == 64 else "trunc i64 %w to i32"}
  store atomic {word} %v, ptr %p seq_cst, align {align}
  ret void
}}
define i64 @cas{bits}(ptr %p, i64 %a, i64 %b) {{
  %e = {"add i64 %a, 0" if bits == 64 else "trunc i64 %a to i32"}
  %n = {"add i64 %b, 0" if bits == 64 else "trunc i64 %b to i32"}
  %r = cmpxchg ptr %p, {word} %e, {word} %n seq_cst seq_cst, align {align}
  %v = extractvalue {{ {word}, i1 }} %r, 0
  %w = {"add i64 %v, 0" if bits == 64 else "zext i32 %v to i64"}
  ret i64 %w
}}
"""
    for name, operation in OPERATIONS.items():
        text += f"""
define i64 @{name}{bits}(ptr %p, i64 %a) {{
  %n = {"add i64 %a, 0" if bits == 64 else "trunc i64 %a to i32"}
  %v = atomicrmw {operation} ptr %p, {word} %n seq_cst, align {align}
  %w = {"add i64 %v, 0" if bits == 64 else "zext i32 %v to i64"}
  ret i64 %w
}}
"""
    return text


@cache
def compiled() -> dict[str, Callable[..., int]]:
    """The functions by name and width, such as ``add64``: host address first; values as unsigned numbers."""
    code = linked("".join(map(_functions, WIDTHS)), ObjectCache(default_folder()))
    word, place = ctypes.c_uint64, ctypes.c_void_p
    found: dict[str, Callable[..., int]] = {}
    for bits in WIDTHS:
        found[f"load{bits}"] = code.function(f"load{bits}", word, place)
        found[f"store{bits}"] = code.function(f"store{bits}", None, place, word)
        found[f"cas{bits}"] = code.function(f"cas{bits}", word, place, word, word)
        for name in OPERATIONS:
            found[f"{name}{bits}"] = code.function(f"{name}{bits}", word, place, word)
    return found


class Word:
    """An aligned word of guest memory, reached atomically. Values are signed numbers of its width.

    An `AccessFault` where there is no plain memory that takes stores, a `RuleError` where the word is not aligned.
    """

    __slots__ = ("_cas", "_host", "_load", "_memory", "_plain", "_sign", "_store", "_version", "address", "bits")

    def __init__(self, memory: GpuMemory, address: int, bits: int = 64) -> None:
        if address % (bits // 8):
            raise RuleError(f"atomic access of {bits // 8} bytes at {address:#x}, expected an aligned address")
        self.address = address
        self.bits = bits
        self._memory = memory
        functions = compiled()
        self._load, self._store, self._cas = (functions[f"{name}{bits}"] for name in ("load", "store", "cas"))
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
            self._host = int(found.bytes.ctypes.data) + self.address - found.base
            self._version = version
        return self._host

    def load(self) -> int:
        """The value."""
        return (self.load_unsigned() ^ self._sign) - self._sign

    def load_unsigned(self) -> int:
        """The value as an unsigned number."""
        return self._load(self._host if self._version == self._memory.version else self._find())

    def store(self, value: int) -> None:
        """Write it."""
        self._store(self._find(), value & U64)

    def rmw(self, operation: str, value: int) -> int:
        """Apply one of `OPERATIONS`; the value before."""
        return signed(compiled()[f"{operation}{self.bits}"](self._find(), value & U64), self.bits)

    def cas(self, expected: int, value: int) -> int:
        """Write `value` where `expected` is; the value before."""
        return signed(self._cas(self._find(), expected & U64, value & U64), self.bits)
