"""Direct-threaded programs in unlinked form, which are valid for code at any address.

They are cached, and linked to the present addresses of code and handlers.
"""

from __future__ import annotations

import marshal
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from softcard.engine.gcn.jit.basics import CodeRanges
from softcard.engine.gcn.threaded.program import PROFILE, Program
from softcard.engine.gcn.threaded.records import Example

if TYPE_CHECKING:
    from softcard.engine.gcn.threaded.library import Library

Places = npt.NDArray[np.int32]
"""The type of an array of indices of words in records."""


@dataclass(frozen=True, slots=True, eq=False)
class UnlinkedProgram:
    """A direct-threaded program in unlinked form, whose addresses are relative to the code or to the records.

    - `pcs`, `pointers` and `profiles` are the indices of the words that hold guest addresses, addresses of
        records, and numbers of profile counters.
    - `stubs` has the indices of the words for addresses of stubs, by name.
    - `kinds` has the handler keys, `counts` the number of words that refer to each handler, and `handled` the
        indices of all these words.
    - `runs` has the code, as pairs of a relative address and a size.
    - `blocks` has the address and MODE of each block, the offset of its first record, and its number of
        instructions.
    - `entered` has the address, MODE, and record offset of each entry point.
    """

    mode: int
    runs: list[tuple[int, int]]
    is_closed: bool
    words: npt.NDArray[np.uint64]
    pcs: Places
    pointers: Places
    profiles: Places
    stubs: dict[str, Places]
    kinds: list[str]
    counts: Places
    handled: Places
    examples: dict[str, Example]
    blocks: list[tuple[int, int, int, int]]
    entered: list[tuple[int, int, int]]
    controls: dict[int, int]

    def linked(
        self, library: Library, start: int, code_ranges: CodeRanges, profile: int, room: int = PROFILE
    ) -> Program:
        """Return the program linked to code at address `start`. `library` must have all of its handlers.

        `code_ranges` has the code's contents. `room` profile counters are free, and `profile` is the first one's
        number."""
        words = self.words.copy()
        base = int(words.ctypes.data)
        words[self.pcs] += np.uint64(start)
        words[self.pointers] += np.uint64(base)
        words[self.profiles] = (words[self.profiles] + np.uint64(profile)) % np.uint64(room) * np.uint64(8)
        for name, here in self.stubs.items():
            words[here] = library.stubs[name]
        addresses = []
        for key in self.kinds:
            known = library.find(key)
            assert known is not None
            addresses.append(known[0])
        words[self.handled] = np.repeat(np.array(addresses, np.uint64), self.counts)
        places = [(start + pc, mode) for pc, mode, _, _ in self.blocks]
        made = Program(
            (start, self.mode),
            code_ranges,
            self.is_closed,
            library,
            words,
            {place: at for place, (_, _, at, _) in zip(places, self.blocks, strict=True)},
            {place: count for place, (_, _, _, count) in zip(places, self.blocks, strict=True)},
            {place: (profile + number) % room for number, place in enumerate(places)},
            self.controls,
            self.handled,
            {(start + pc, mode): base + at for pc, mode, at in self.entered},
        )
        library.programs.add(made)
        return made

    def to_bytes(self) -> bytes:
        """Return the program as bytes, to be persisted."""
        examples = {key: (each.words, each.mode, each.has_fixed_numbers) for key, each in self.examples.items()}
        places = (self.pcs, self.pointers, self.profiles, self.counts, self.handled)
        arrays = [each.tobytes() for each in (self.words, *places)]
        stubs = {key: here.tobytes() for key, here in self.stubs.items()}
        heads = (self.mode, self.runs, self.is_closed)
        return marshal.dumps((heads, arrays, stubs, self.kinds, examples, (self.blocks, self.entered, self.controls)))

    @classmethod
    def from_bytes(cls, data: bytes) -> UnlinkedProgram:
        """Return the program that `to_bytes` has written as `data`, in the same version of Python."""
        (mode, runs, is_closed), arrays, stubs, kinds, examples, rest = marshal.loads(data)
        blocks, entered, controls = rest
        words = np.frombuffer(arrays[0], np.uint64)
        pcs, pointers, profiles, counts, handled = map(_place, arrays[1:])
        return cls(
            mode,
            runs,
            is_closed,
            words,
            pcs,
            pointers,
            profiles,
            {name: _place(here) for name, here in stubs.items()},
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
