"""Instructions whose meaning scalar registers decide (`Op.told`): code for each of the meanings that one has had.

A site is such an instruction at a place. Its records are a chain: each begins with a look at what the scalars say, and
goes on to the next where that is not what it was made for; the last leaves for Python, which adds another.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.jit.basics import BlockKey, Untranslated
from understudy.engine.gcn.jit.float_control import float_control, host_has, of_mode
from understudy.engine.gcn.jit.region import node_of
from understudy.engine.gcn.jit.spans import holds
from understudy.engine.gcn.memory import GpuMemory
from understudy.engine.gcn.threaded import records
from understudy.engine.gcn.threaded.kind import STEP, Kind, kind_of
from understudy.engine.gcn.threaded.library import Library
from understudy.engine.gcn.threaded.program import fill_begin
from understudy.engine.gcn.threaded.records import Handler
from understudy.engine.gcn.threaded.values import cache_rows, fill_caches, fill_parts, part_rows
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.state import VGPRS

HEAD_AT = records.BEGIN_BYTES
FIRST_AT = HEAD_AT + records.HEAD_BYTES
UNTOLD_AT = FIRST_AT + records.GOTO_BYTES
BYTES = UNTOLD_AT + records.LEAVE_BYTES


class Site:
    """The code of an instruction at a place; `following` is the one behind it where that is of the kind, too.

    `heat` is the number of its counter, `spans` its code. `Untranslated` where MODE asks for what the host cannot be
    set to.
    """

    is_closed = False
    """It is always left."""

    def __init__(self, library: Library, place: BlockKey, insn: Insn, following: Insn | None, heat: int) -> None:
        if not host_has(of_mode(place[1])):
            raise Untranslated
        self.library = library
        self.place = place
        self.insn = insn
        self._next = layout.JUMP if following is None else layout.SITE
        self._meanings: dict[tuple[int, ...], bool] = {}
        """By numbers: whether there is code for them."""
        self._records: list[npt.NDArray[np.uint64]] = []
        """Of each meaning that there is code for."""
        code = insn.words if following is None else insn.words + following.words
        self.spans = [(place[0], b"".join(word.to_bytes(4, "little") for word in code))]
        self._words = words = np.zeros(BYTES // 8, np.uint64)
        base = int(words.ctypes.data)
        fill_begin(words, 0, library, place[0], float_control(of_mode(place[1])), base + HEAD_AT)
        head, first = HEAD_AT // 8, FIRST_AT // 8
        words[head] = library.glue["head"]
        words[head + 1] = place[0]
        words[head + records.COUNT_AT // 8] = words[head + records.NEEDS_AT // 8] = 1
        words[head + records.HEAT_AT // 8] = heat * 8
        words[first] = library.glue["goto"]
        words[first + records.TARGET_AT // 8] = base + UNTOLD_AT
        self._fill_leave(words, UNTOLD_AT // 8, place[0], 1, layout.UNTOLD)
        library.programs.add(self)

    @property
    def key(self) -> BlockKey:
        """Where the table has it."""
        return self.place[0], self.place[1] | layout.SITE_KEY

    @property
    def rows(self) -> dict[BlockKey, tuple[int, int]]:
        """Where it is entered: the function, and the record it is called with."""
        return {self.key: (self.library.glue["enter"], int(self._words.ctypes.data))}

    @property
    def live(self) -> dict[BlockKey, int]:
        """Handlers leave all vector registers in memory."""
        return {self.key: VGPRS}

    def holds(self, memory: GpuMemory) -> bool:
        """Whether memory still has the code."""
        return holds(self.spans, memory)

    def patch(self, addresses: dict[int, int]) -> None:
        """Have handlers at other addresses, which do the same. Threads may be running the records."""
        for record in self._records:
            record[0] = addresses.get(int(record[0]), int(record[0]))

    def tell(self, insn: Insn) -> bool:
        """Have code for what the instruction means with its numbers; False where the reference engine executes that."""
        if insn.told is None or insn.words != self.insn.words:
            return False
        if insn.told not in self._meanings:
            try:
                self._add(insn)
                self._meanings[insn.told] = True
            except Untranslated:
                self._meanings[insn.told] = False
        return self._meanings[insn.told]

    def _add(self, insn: Insn) -> None:
        """Put a record before the others: what is read last is written last."""
        kind, address, handler = self._handler(insn)
        record = np.zeros((handler.size + records.LEAVE_BYTES) // 8, np.uint64)
        record[0], record[1], record[2] = address, self.place[0], 1
        getters = self.library.front(insn.target, self.place[1]).getters(insn, kind)
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
        """A number that differs from that of sites nearby."""
        return self.place[0] >> 3

    def _handler(self, insn: Insn) -> tuple[Kind, int, Handler]:
        """The kind of the instruction with its numbers, and its handler."""
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
        words[at], words[at + 1], words[at + 2] = self.library.glue["leave"], pc, refund
        words[at + records.CODE_AT // 8] = code


def _reaches_beyond(insn: Insn, kind: Kind) -> bool:
    """Whether an operand goes on behind the last vector register: handlers take what lies there."""
    fields = [part.field for part in kind.parts if part.role == "v"]
    found = kind.node.effects
    return any(insn[fields[n // STEP - 1]] + n % STEP >= VGPRS for n in found.v_reads | found.v_writes)
