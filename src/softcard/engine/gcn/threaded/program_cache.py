"""The on-disk cache of direct-threaded programs, keyed by code.

A process whose programs are all cached compiles nothing. Programs are listed by the first bytes of their
code. Each list entry has the address ranges of a program's code and the digest of that code; the latest entry
also has the program itself. Other programs, and the optimised regions of all programs, are stored under their
digest."""

from __future__ import annotations

import hashlib
import json
import marshal
import sys
import weakref
from typing import Any, Final

from softcard.engine.gcn.jit.basics import BlockKey, CodeRanges, Observed
from softcard.engine.gcn.jit.code_metadata import CodeMetadata
from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.threaded.library import Library
from softcard.engine.gcn.threaded.program import Program, Tally
from softcard.engine.gcn.threaded.records import ROOM
from softcard.engine.gcn.threaded.unlinked import UnlinkedProgram
from softcard.ir.object_cache import ObjectCache
from softcard.isa.gcn.target import Target

BEGINNING: Final = 1024
"""The length in bytes of the prefix of the code that is its key; code that ends earlier has a shorter one."""
END: Final = b"\x00\x00\x81\xbf"
"""The encoding of s_endpgm as bytes; data with the same bytes is also taken for an end."""
MOST: Final = 64
"""The maximum number of programs cached for one prefix, and of regions cached for one program."""


class ProgramCache:
    """The cache of the programs of one processor's code.

    `observed` selects the optimised regions that match it: it tells when registers can be observed from outside
    of compiled code. With a `tally`, each instruction is a basic block with a separate counter."""

    def __init__(
        self, target: Target, library: Library, objects: ObjectCache, observed: Observed, tally: Tally | None = None
    ) -> None:
        self._tally = tally
        self._target = target
        self._library = library
        self._objects = objects
        self._observed = observed
        self._digests: weakref.WeakKeyDictionary[Program, str] = weakref.WeakKeyDictionary()
        self._missing: set[str] = set()
        self._seen: tuple[str, list[Any]] | None = None
        """The key and contents of the list in which a program was just not found.

        The program is compiled and added to this list next.
        """

    def get(self, place: BlockKey, memory: GpuMemory, profile: int) -> Program | None:
        """Return the cached program for the code at `place` in `memory`, or None.

        `profile` is the number of the first free profile counter."""
        key = self._listed(place, memory)
        self._seen = None if key is None or key in self._missing else (key, self._list(key))
        for runs, digest, data in self._seen[1] if self._seen is not None else ():
            code_ranges = code_ranges_at(runs, place[0], memory)
            if code_ranges is not None and _digest(code_ranges) == digest:
                data = data or self._objects.get(self._name(place[1], digest))
                unlinked = None if data is None else UnlinkedProgram.from_bytes(data)
                if unlinked is not None and self._library.has_all(unlinked.examples):
                    return self._linked(unlinked, digest, place[0], code_ranges, profile)
        if key is not None:
            self._missing.add(key)
        return None

    def put(self, unlinked: UnlinkedProgram, place: BlockKey, memory: GpuMemory, profile: int) -> Program | None:
        """Cache a program and link it; return None if memory has changed and does not hold its code any more."""
        code_ranges = code_ranges_at(unlinked.runs, place[0], memory)
        if code_ranges is None:
            return None
        key, digest = self._listed(place, memory), _digest(code_ranges)
        if key is not None:
            seen, self._seen = self._seen, None
            others = seen[1] if seen is not None and seen[0] == key else self._list(key)
            others = [each for each in others if each[1] != digest][1 - MOST :]
            apart = {self._name(place[1], other): data for _, other, data in others if data is not None}
            listed = [*((runs, other, None) for runs, other, _ in others), (unlinked.runs, digest, unlinked.to_bytes())]
            self._objects.put_all(apart | {key: marshal.dumps(listed)})
            self._missing.discard(key)
        return self._linked(unlinked, digest, place[0], code_ranges, profile)

    def _linked(
        self, unlinked: UnlinkedProgram, digest: str, start: int, code_ranges: CodeRanges, profile: int
    ) -> Program:
        if self._tally is None:
            made = unlinked.linked(self._library, start, code_ranges, profile)
        else:
            made = unlinked.linked(self._library, start, code_ranges, self._tally.room(len(unlinked.blocks)), ROOM)
            self._tally.add(made)
        self._digests[made] = digest
        return made

    # ---- optimised regions -----------------------------------------------------------------------------------------
    def regions(self, program: Program) -> list[tuple[str, CodeMetadata]]:
        """Return the optimised regions of a program: the object-cache key and metadata of each."""
        data = self._objects.get(self._name(program.start[1], self._hot(program)), fresh=True)
        found = [] if data is None else json.loads(data)
        return [(key, CodeMetadata.from_parts(parts, program.start[0])) for key, parts in found]

    def add_region(self, program: Program, key: str, metadata: CodeMetadata) -> None:
        """Cache one more optimised region of a program."""
        name = self._name(program.start[1], self._hot(program))
        data = self._objects.get(name, fresh=True)
        others = [] if data is None else [each for each in json.loads(data) if each[0] != key]
        self._objects.put(name, json.dumps([*others[1 - MOST :], [key, metadata.parts(program.start[0])]]).encode())

    def _hot(self, program: Program) -> str:
        return f"hot {self._digests[program]} {self._observed.value}"

    def _listed(self, place: BlockKey, memory: GpuMemory) -> str | None:
        """Return the key of the cached list of the programs whose code begins like that at `place`.

        Return None if `place` is not in plain memory."""
        pc, mode = place
        plain = memory.plain(pc, 4) if pc % 4 == 0 else None
        if plain is None:
            return None
        beginning = bytes(plain.view[pc - plain.base : pc - plain.base + BEGINNING])
        return self._name(mode, beginning.partition(END)[0].hex())

    def _list(self, key: str) -> list[Any]:
        """Return the cached list of the programs whose code begins alike; `key` is the result of `_listed`.

        Its entries have address ranges, digest and program. Only the last entry contains its program; the programs
        of the others are in files."""
        data = self._objects.get(key, fresh=True)
        return [] if data is None else list(marshal.loads(data))

    def _name(self, mode: int, what: str) -> str:
        form = "program" if self._tally is None else "program that counts"
        parts = (form, self._library.key, sys.version, self._target.name, mode, what)
        return hashlib.sha256(repr(parts).encode()).hexdigest()


def code_ranges_at(runs: list[Any], start: int, memory: GpuMemory) -> CodeRanges | None:
    """Return the contents of guest memory in the ranges `runs`, or None if a range is not in plain memory.

    `runs` has pairs: an address relative to `start`, and a size."""
    found: CodeRanges = []
    for at, size in runs:
        plain = memory.plain(start + at, size)
        if plain is None:
            return None
        found.append((start + at, bytes(plain.view[start + at - plain.base : start + at - plain.base + size])))
    return found


def _digest(code_ranges: CodeRanges) -> str:
    digest = hashlib.sha256()
    for _, data in code_ranges:
        digest.update(data)
    return digest.hexdigest()
