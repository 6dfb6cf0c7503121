"""Programs as they are for code at any address: what is kept of them, and linked to where code and handlers lie now."""

from __future__ import annotations

import marshal
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from understudy.engine.gcn.jit.spans import Spans
from understudy.engine.gcn.threaded.example import Example
from understudy.engine.gcn.threaded.program import HEAT, Program

if TYPE_CHECKING:
    from understudy.engine.gcn.threaded.library import Library

Places = npt.NDArray[np.int32]
"""Numbers of words in records."""


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """Records whose words count addresses from the beginning: of the code, or of the records.

    `pcs`, `pointers` and `heats` are the words that hold guest addresses, addresses of records, and numbers of
    counters; `glue` those that functions go to, by name. `kinds` are those of instructions, `counts` how many words
    each one's handler goes to, and `handled` all of these. `runs`: the code, as runs of addresses and sizes.
    `blocks`: address and MODE of each, where its first record lies, and how many instructions it has; `entered`:
    address, MODE, and where the record is with which it is entered.
    """

    mode: int
    runs: list[tuple[int, int]]
    is_closed: bool
    words: npt.NDArray[np.uint64]
    pcs: Places
    pointers: Places
    heats: Places
    glue: dict[str, Places]
    kinds: list[str]
    counts: Places
    handled: Places
    examples: dict[str, Example]
    blocks: list[tuple[int, int, int, int]]
    entered: list[tuple[int, int, int]]
    controls: dict[int, int]

    def linked(self, library: Library, start: int, spans: Spans, heat: int, room: int = HEAT) -> Program:
        """The program for code at an address. The library has all handlers.

        `heat` is the first free counter of `room`.
        """
        words = self.words.copy()
        base = int(words.ctypes.data)
        words[self.pcs] += np.uint64(start)
        words[self.pointers] += np.uint64(base)
        words[self.heats] = (words[self.heats] + np.uint64(heat)) % np.uint64(room) * np.uint64(8)
        for name, here in self.glue.items():
            words[here] = library.glue[name]
        addresses = []
        for key in self.kinds:
            known = library.find(key)
            assert known is not None
            addresses.append(known[0])
        words[self.handled] = np.repeat(np.array(addresses, np.uint64), self.counts)
        places = [(start + pc, mode) for pc, mode, _, _ in self.blocks]
        made = Program(
            (start, self.mode),
            spans,
            self.is_closed,
            library,
            words,
            {place: at for place, (_, _, at, _) in zip(places, self.blocks, strict=True)},
            {place: count for place, (_, _, _, count) in zip(places, self.blocks, strict=True)},
            {place: (heat + number) % room for number, place in enumerate(places)},
            self.controls,
            self.handled,
            {(start + pc, mode): base + at for pc, mode, at in self.entered},
        )
        library.programs.add(made)
        return made

    def to_bytes(self) -> bytes:
        """To keep."""
        examples = {key: (each.words, each.mode, each.has_fixed_numbers) for key, each in self.examples.items()}
        places = (self.pcs, self.pointers, self.heats, self.counts, self.handled)
        arrays = [each.tobytes() for each in (self.words, *places)]
        glue = {key: here.tobytes() for key, here in self.glue.items()}
        heads = (self.mode, self.runs, self.is_closed)
        return marshal.dumps((heads, arrays, glue, self.kinds, examples, (self.blocks, self.entered, self.controls)))

    @classmethod
    def from_bytes(cls, data: bytes) -> Draft:
        """What `to_bytes` gave, in the same version of Python."""
        (mode, runs, is_closed), arrays, glue, kinds, examples, rest = marshal.loads(data)
        blocks, entered, controls = rest
        words = np.frombuffer(arrays[0], np.uint64)
        pcs, pointers, heats, counts, handled = map(_place, arrays[1:])
        return cls(
            mode,
            runs,
            is_closed,
            words,
            pcs,
            pointers,
            heats,
            {name: _place(here) for name, here in glue.items()},
            kinds,
            counts,
            handled,
            {key: Example(*each) for key, each in examples.items()},
            blocks,
            entered,
            controls,
        )


def _place(data: bytes) -> Places:
    return np.frombuffer(data, np.int32)
