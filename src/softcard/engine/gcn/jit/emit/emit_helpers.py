"""Calls of compiled helpers for accesses of translated code, and inline caches of memory addresses."""

from __future__ import annotations

from typing import Final

from softcard.engine.gcn.jit import layout
from softcard.engine.gcn.jit.emit.emit_registers import REGISTERS, VectorFile
from softcard.ir.builder import LaneText
from softcard.ir.operand import Operand
from softcard.isa.gcn import state

LIKELY: Final = ", !prof !0"


class Helpers:
    """The emitter of calls of the compiled helpers (`helpers_ir`)."""

    def __init__(self, text: LaneText, vectors: VectorFile) -> None:
        self.text = text
        self.vectors = vectors

    def call(
        self,
        kind: str,
        space: str,
        bits: int,
        addresses: Operand,
        mask: Operand,
        data: tuple[Operand, ...],
        cache: Operand | None = None,
    ) -> list[Operand]:
        """Emit the call of a helper for an access of the lanes in `mask`; return the vectors that it loads.

        `data` are the further arguments. If the helper fails, the strip-mined loop takes its side exit. The helper
        updates the inline cache `cache`."""
        text, lanes = self.text, self.text.lanes
        vector, count = text.itype(32, True), max(1, bits // 32)
        m = mask.bitcast(f"i{lanes}")
        code = self.address(f"{kind}_{space}_{bits}")
        arguments = [self.vectors.state, addresses, m, text.word(f"%sh{self.vectors.label}")]
        if layout.remembers(space):
            arguments.append(text.pointer("null") if cache is None else cache)
        arguments += data
        if kind == "store":
            self.or_leave(text.invoke("i64", code, *arguments))
            return []
        result = "{ " + ", ".join([vector] * count) + ", i64 }"
        got = text.invoke(result, code, *arguments)
        names = [got.field(k, vector) for k in range(count)]
        self.or_leave(got.field(count, "i64"))
        return names

    def address(self, name: str) -> Operand:
        """Emit the host address of a helper."""
        at = self.text.pointer("%helpers").element("ptr", layout.HELPER_INDEX[name])
        return at.load("ptr")

    def or_leave(self, status: Operand) -> None:
        """Emit a side exit of the strip-mined loop if `status` is not 0."""
        on = self.text.fresh("on")
        self.text.branch(status.eq(0), on, f"leave{self.vectors.label}", LIKELY)
        self.text.start(on)


class InlineCaches:
    """The inline caches of accesses, in the wave's state: each holds the memory range that its access used last.

    `taken` is the number of caches in use, for each kind of access."""

    def __init__(self, text: LaneText, helpers: Helpers) -> None:
        self.text = text
        self.helpers = helpers
        self.taken = dict.fromkeys(layout.INLINE_CACHES, 0)

    def take(self, kind: str) -> Operand:
        """Reserve the inline cache for one more access, and emit its address.

        An array usually lies in one range of memory, so a cache nearly always hits. The emitted code loads the cache
        long before the address of the access is known."""
        number = self.taken[kind] % layout.INLINE_CACHES[kind]
        self.taken[kind] += 1
        before = sum(count for other, count in layout.INLINE_CACHES.items() if other < kind)
        word = layout.INLINE_CACHE + layout.INLINE_CACHE_WORDS * (before + number)
        return self.helpers.vectors.state.offset(state.WORDS_AT + 8 * word)

    def load(self, cache: Operand) -> tuple[Operand, Operand, Operand]:
        """Emit the contents of an inline cache: first guest address, limit and addend of a memory range.

        The addend converts a guest address to a host address.
        """
        ats = cache, *(cache.element("i64", k) for k in range(1, layout.INLINE_CACHE_WORDS))
        start, limit, addend = (at.load("i64", tail=REGISTERS) for at in ats)
        return start, limit, addend

    def refill(self, address: Operand, cache: Operand, is_store: bool = False) -> None:
        """Emit the refill of an inline cache with the range of memory around an address.

        Scalar accesses and atomics use it. If `is_store`, the range must be writable."""
        self.text.invoke("i64", self.helpers.address("note"), self.helpers.vectors.state, address, int(is_store), cache)


def fits_within(text: LaneText, offset: Operand, size: str, count: int) -> Operand:
    """Emit the condition that `count` bytes at an offset lie below a size, without overflow."""
    limit = text.call("i64", "llvm.usub.sat.i64", f"i64 {size}", f"i64 {count - 1}")
    return offset < limit
