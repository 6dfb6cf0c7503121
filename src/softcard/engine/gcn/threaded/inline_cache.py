"""The polymorphic inline caches of instructions whose semantics depend on scalar registers (`Op.selectors`).

The records of an inline cache form a chain. Each begins with a guard that compares the scalar registers. If they differ
from the expected values, execution continues with the next record. The last record exits to Python, which adds another
record.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from softcard.engine.gcn.jit import layout
from softcard.engine.gcn.jit.basics import BlockKey, Untranslated, holds
from softcard.engine.gcn.jit.float_control import float_control, host_has, of_mode
from softcard.engine.gcn.jit.region import node_of
from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.threaded import records
from softcard.engine.gcn.threaded.kind import STEP, Kind, kind_of
from softcard.engine.gcn.threaded.library import Library
from softcard.engine.gcn.threaded.program import fill_begin
from softcard.engine.gcn.threaded.records import Handler
from softcard.engine.gcn.threaded.values import cache_rows, fill_caches, fill_parts, part_rows
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.state import ROWS, VGPRS

HEAD_AT = records.BEGIN_BYTES
FIRST_AT = HEAD_AT + records.HEAD_BYTES
UNTOLD_AT = FIRST_AT + records.GOTO_BYTES
BYTES = UNTOLD_AT + records.LEAVE_BYTES


class InlineCache:
    """The inline cache of one instruction at a pc, under a MODE.

    `following` is the next instruction if it has an inline cache, too, else None. `profile` is the number of the
    profile counter, and `code_ranges` has the guest code that the cache depends on. With `is_counting`, executions
    without an active lane are counted too. The constructor raises
    `Untranslated` if the host does not support the float mode of MODE.
    """

    is_closed = False
    """False, since an inline cache always exits to the engine."""

    def __init__(
        self,
        library: Library,
        place: BlockKey,
        insn: Insn,
        following: Insn | None,
        profile: int,
        is_counting: bool = False,
    ) -> None:
        if not host_has(of_mode(place[1])):
            raise Untranslated
        self.library = library
        self.place = place
        self.insn = insn
        self._next = layout.JUMP if following is None else layout.SPECIALISE
        self._variants: dict[tuple[int, ...], bool] = {}
        """For each combination of register values, True if a handler specialised for them exists."""
        self._records: list[npt.NDArray[np.uint64]] = []
        """The records of the instruction's specialised forms."""
        code = insn.words if following is None else insn.words + following.words
        self.code_ranges = [(place[0], b"".join(word.to_bytes(4, "little") for word in code))]
        self._words = words = np.zeros(BYTES // 8, np.uint64)
        base = int(words.ctypes.data)
        fill_begin(words, 0, library, place[0], float_control(of_mode(place[1])), base + HEAD_AT)
        head, first = HEAD_AT // 8, FIRST_AT // 8
        words[head] = library.stubs["counted_head" if is_counting else "head"]
        words[head + 1] = place[0]
        words[head + records.COUNT_AT // 8] = words[head + records.NEEDS_AT // 8] = 1
        words[head + records.PROFILE_AT // 8] = profile * 8
        words[first] = library.stubs["goto"]
        words[first + records.TARGET_AT // 8] = base + UNTOLD_AT
        self._fill_leave(words, UNTOLD_AT // 8, place[0], 1, layout.UNSPECIALISED)
        library.programs.add(self)

    @property
    def key(self) -> BlockKey:
        """The key of the inline cache in the table of translated code."""
        return self.place[0], self.place[1] | layout.INLINE_CACHE_KEY

    @property
    def rows(self) -> dict[BlockKey, tuple[int, int]]:
        """The row for the table of translated code, by its key.

        It has the function to call, and the address of the record that is its argument."""
        return {self.key: (self.library.stubs["enter"], int(self._words.ctypes.data))}

    @property
    def live(self) -> dict[BlockKey, int]:
        """The number of vector registers that are live at the entry: all of them.

        Handlers keep vector registers in memory, so all must be initialised.
        """
        return {self.key: ROWS}

    def holds(self, memory: GpuMemory) -> bool:
        """Return True if memory still has the code of which the inline cache was made."""
        return holds(self.code_ranges, memory)

    def patch(self, addresses: dict[int, int]) -> None:
        """Replace addresses of handlers by those of equivalent handlers.

        `addresses` maps old addresses to new ones. Threads may be running the records.
        """
        for record in self._records:
            record[0] = addresses.get(int(record[0]), int(record[0]))

    def specialise(self, insn: Insn) -> bool:
        """Specialise the instruction for its register values, unless a handler for them exists already.

        Return False if the reference engine must execute the instruction.
        """
        if insn.selectors is None or insn.words != self.insn.words:
            return False
        if insn.selectors not in self._variants:
            try:
                self._add(insn)
                self._variants[insn.selectors] = True
            except Untranslated:
                self._variants[insn.selectors] = False
        return self._variants[insn.selectors]

    def _add(self, insn: Insn) -> None:
        """Specialise the instruction for its register values, and prepend the record to the inline cache's chain.

        The word that running threads read is written last."""
        kind, address, handler = self._handler(insn)
        record = np.zeros((handler.size + records.LEAVE_BYTES) // 8, np.uint64)
        record[0], record[1], record[2] = address, self.place[0], 1
        getters = self.library.frontend(insn.target, self.place[1]).getters(insn, kind)
        parts, caches = (np.array(rows, np.uint64) for rows in (part_rows(getters, handler), cache_rows(handler)))
        if len(parts):
            words = (np.full(len(parts), word, np.uint64) for word in (insn.encoded, insn.words[-1]))
            fill_parts(record, np.zeros(len(parts), np.int64), parts, *words)
        if len(caches):
            fill_caches(record, np.zeros(len(caches), np.int64), caches, self._rank)
        first = FIRST_AT + records.TARGET_AT >> 3
        record[handler.target >> 3] = self._words[first]
        self._fill_leave(record, handler.size >> 3, insn.next_pc, 0, self._next)
        self._records.append(record)
        self._words[first] = int(record.ctypes.data)

    @property
    def _rank(self) -> int:
        """The number of the inline cache of memory ranges that the handler's first access of each kind gets.

        It is taken modulo the number of inline caches for that kind of access, and differs between nearby pcs."""
        return self.place[0] >> 3

    def _handler(self, insn: Insn) -> tuple[Kind, int, Handler]:
        """Return the specification, address and record layout of the specialised instruction's handler."""
        node = node_of(insn, self.place[1])
        for has_fixed_numbers in (False, True):
            kind = kind_of(node, self.place[1], has_fixed_numbers)
            if _reaches_beyond(insn, kind):
                break
            self.library.make([kind])
            found = self.library.find(kind.key)
            if found is not None:
                return kind, *found
        raise Untranslated

    def _fill_leave(self, words: Any, at: int, pc: int, refund: int, code: int) -> None:
        words[at], words[at + 1], words[at + 2] = self.library.stubs["leave"], pc, refund
        words[at + records.CODE_AT // 8] = code


def _reaches_beyond(insn: Insn, kind: Kind) -> bool:
    """Return True if an operand extends past the last vector register.

    A handler would access unrelated data there."""
    fields = [part.field for part in kind.parts if part.role == "v"]
    found = kind.node.effects
    return any(insn[fields[n // STEP - 1]] % VGPRS + n % STEP >= VGPRS for n in found.v_reads | found.v_writes)
