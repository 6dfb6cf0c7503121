"""What accesses of translated code call and remember: compiled helpers, and inline caches of where memory lies."""

from __future__ import annotations

from typing import Final

from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.jit.emit_registers import REGISTERS, VectorFile
from understudy.ir.builder import LaneText
from understudy.isa.gcn import state

LIKELY: Final = ", !prof !0"


class Helpers:
    """Calls of the compiled helpers (`helpers_ir`)."""

    def __init__(self, text: LaneText, vectors: VectorFile) -> None:
        self.text = text
        self.vectors = vectors

    def call(
        self, kind: str, space: str, bits: int, addresses: str, mask: str, data: tuple[str, ...], cache: str = ""
    ) -> list[str]:
        """Call a helper; leave the strip where it could not do its work. An inline cache learns where memory lies."""
        text, lanes = self.text, self.text.lanes
        vector, count = text.itype(32, True), max(1, bits // 32)
        wide = text.itype(64 if space in ("global", "flat") else 32, True)
        m = text.let(f"bitcast <{lanes} x i1> {mask} to i{lanes}")
        code = self.address(f"{kind}_{space}_{bits}")
        arguments = f"ptr {self.vectors.home.state}, {wide} {addresses}, i{lanes} {m}, i64 %sh{self.vectors.label}"
        if layout.remembers(space):
            arguments += f", ptr {cache or 'null'}"
        arguments += "".join(f", {vector} {each}" for each in data)
        if kind == "store":
            self.or_leave(text.let(f"call i64 {code}({arguments})"))
            return []
        result = "{ " + ", ".join([vector] * count) + ", i64 }"
        got = text.let(f"call {result} {code}({arguments})")
        names = [text.let(f"extractvalue {result} {got}, {k}") for k in range(count)]
        self.or_leave(text.let(f"extractvalue {result} {got}, {count}"))
        return names

    def address(self, name: str) -> str:
        """Host address of a helper."""
        at = self.text.let(f"getelementptr ptr, ptr %helpers, i64 {layout.HELPER_INDEX[name]}")
        return self.text.let(f"load ptr, ptr {at}")

    def or_leave(self, status: str) -> None:
        """Leave the strip where `status` is not 0."""
        on = self.text.fresh("on")
        self.text.branch(self.text.let(f"icmp eq i64 {status}, 0"), on, f"leave{self.vectors.label}", LIKELY)
        self.text.start(on)


class InlineCaches:
    """Each access keeps what it knows about the memory that it met last in words of the wave's own.

    `taken`: how many accesses of each kind have theirs.
    """

    def __init__(self, text: LaneText, helpers: Helpers) -> None:
        self.text = text
        self.helpers = helpers
        self.taken = dict.fromkeys(layout.INLINE_CACHES, 0)

    def take(self, kind: str) -> str:
        """Where one more access keeps what it knows about the memory that it met last: its inline cache.

        Arrays lie in few runs of memory, so this is nearly always the right one, and known long before the address.
        """
        number = self.taken[kind] % layout.INLINE_CACHES[kind]
        self.taken[kind] += 1
        before = sum(count for other, count in layout.INLINE_CACHES.items() if other < kind)
        word = layout.INLINE_CACHE + layout.INLINE_CACHE_WORDS * (before + number)
        return self.text.let(
            f"getelementptr i8, ptr {self.helpers.vectors.home.state}, i64 {state.WORDS_AT + 8 * word}"
        )

    def load(self, cache: str) -> tuple[str, str, str]:
        """First guest address, limit and addend of the run of memory that an inline cache knows."""
        let = self.text.let
        ats = cache, *(let(f"getelementptr i64, ptr {cache}, i64 {k}") for k in range(1, layout.INLINE_CACHE_WORDS))
        start, limit, addend = (let(f"load i64, ptr {at}{REGISTERS}") for at in ats)
        return start, limit, addend

    def refill(self, address: str, cache: str, is_store: bool = False) -> None:
        """Have the inline cache of a scalar access or of an atomic know the memory around an address."""
        arguments = f"ptr {self.helpers.vectors.home.state}, i64 {address}, i64 {int(is_store)}, ptr {cache}"
        self.text.put(f"call i64 {self.helpers.address('note')}({arguments})")


def fits_within(text: LaneText, offset: str, size: str, count: int) -> str:
    """Whether `count` bytes at an offset lie below a size; nothing can wrap around."""
    limit = text.call("i64", "llvm.usub.sat.i64", f"i64 {size}", f"i64 {count - 1}")
    return text.let(f"icmp ult i64 {offset}, {limit}")
