"""Programs that earlier processes have made, by the content of their code: a process that knows all compiles nothing.

What begins like some code is listed by that: the runs of bytes that it consists of, with their digest, and of the one
that was listed last the program. Other programs, and which regions of any were optimised, are kept by that digest.
"""

from __future__ import annotations

import hashlib
import json
import marshal
import sys
import weakref
from typing import Any, Final

from understudy.engine.gcn.jit.basics import BlockKey, Observed
from understudy.engine.gcn.jit.counters import ROOM, Tally
from understudy.engine.gcn.jit.outline import Outline
from understudy.engine.gcn.jit.spans import Spans
from understudy.engine.gcn.memory import GpuMemory
from understudy.engine.gcn.threaded.draft import Draft
from understudy.engine.gcn.threaded.library import Library
from understudy.engine.gcn.threaded.program import Program
from understudy.ir.object_cache import ObjectCache
from understudy.isa.gcn.target import Target

BEGINNING: Final = 1024
"""Bytes of code that it is looked up by, if it does not end before."""
END: Final = b"\x00\x00\x81\xbf"
"""s_endpgm, or what looks like it."""
MOST: Final = 64
"""Codes with the same beginning that are kept, and regions of a code."""


class KeptPrograms:
    """Those of one processor's code. `observed` is what optimised regions depend on beside their code.

    With a `tally` they are those whose blocks have one instruction each, and counters of their own.
    """

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
        """What was listed where a program was asked for last: it is made, and kept, next."""

    def get(self, place: BlockKey, memory: GpuMemory, heat: int) -> Program | None:
        """The program of what begins at a place; `heat` is the number of the first free counter."""
        key = self._listed(place, memory)
        self._seen = None if key is None or key in self._missing else (key, self._list(key))
        for runs, digest, data in self._seen[1] if self._seen is not None else ():
            spans = spans_at(runs, place[0], memory)
            if spans is not None and _digest(spans) == digest:
                data = data or self._objects.get(self._name(place[1], digest))
                draft = None if data is None else Draft.from_bytes(data)
                if draft is not None and self._library.has_all(draft.examples):
                    return self._linked(draft, digest, place[0], spans, heat)
        if key is not None:
            self._missing.add(key)
        return None

    def put(self, draft: Draft, place: BlockKey, memory: GpuMemory, heat: int) -> Program | None:
        """Keep a program, and link it; None where memory is no longer what it was made of."""
        spans = spans_at(draft.runs, place[0], memory)
        if spans is None:
            return None
        key, digest = self._listed(place, memory), _digest(spans)
        if key is not None:
            seen, self._seen = self._seen, None
            others = seen[1] if seen is not None and seen[0] == key else self._list(key)
            others = [each for each in others if each[1] != digest][1 - MOST :]
            apart = {self._name(place[1], other): data for _, other, data in others if data is not None}
            listed = [*((runs, other, None) for runs, other, _ in others), (draft.runs, digest, draft.to_bytes())]
            self._objects.put_all(apart | {key: marshal.dumps(listed)})
            self._missing.discard(key)
        return self._linked(draft, digest, place[0], spans, heat)

    def _linked(self, draft: Draft, digest: str, start: int, spans: Spans, heat: int) -> Program:
        if self._tally is None:
            made = draft.linked(self._library, start, spans, heat)
        else:
            made = draft.linked(self._library, start, spans, self._tally.room(len(draft.blocks)), ROOM)
            self._tally.add(made)
        self._digests[made] = digest
        return made

    # ---- what was hot ----------------------------------------------------------------------------------------------
    def regions(self, program: Program) -> list[tuple[str, Outline]]:
        """The regions of a program that were optimised, as keys of objects and what is known of them."""
        data = self._objects.get(self._name(program.start[1], self._hot(program)), fresh=True)
        found = [] if data is None else json.loads(data)
        return [(key, Outline.from_parts(parts, program.start[0])) for key, parts in found]

    def add_region(self, program: Program, key: str, outline: Outline) -> None:
        """One more of them was optimised."""
        name = self._name(program.start[1], self._hot(program))
        data = self._objects.get(name, fresh=True)
        others = [] if data is None else [each for each in json.loads(data) if each[0] != key]
        self._objects.put(name, json.dumps([*others[1 - MOST :], [key, outline.parts(program.start[0])]]).encode())

    def _hot(self, program: Program) -> str:
        return f"hot {self._digests[program]} {self._observed.value}"

    def _listed(self, place: BlockKey, memory: GpuMemory) -> str | None:
        """What code that begins like this is listed by."""
        pc, mode = place
        plain = memory.plain(pc, 4) if pc % 4 == 0 else None
        if plain is None:
            return None
        beginning = bytes(plain.view[pc - plain.base : pc - plain.base + BEGINNING])
        return self._name(mode, beginning.partition(END)[0].hex())

    def _list(self, key: str) -> list[Any]:
        """Codes as runs, with their digests; the last one with its program, others' have files of their own."""
        data = self._objects.get(key, fresh=True)
        return [] if data is None else list(marshal.loads(data))

    def _name(self, mode: int, what: str) -> str:
        form = "program" if self._tally is None else "program that counts"
        parts = (form, self._library.key, sys.version, self._target.name, mode, what)
        return hashlib.sha256(repr(parts).encode()).hexdigest()


def spans_at(runs: list[Any], start: int, memory: GpuMemory) -> Spans | None:
    """What memory has in runs of addresses and sizes that count from `start`; None where it is not plain memory."""
    found: Spans = []
    for at, size in runs:
        plain = memory.plain(start + at, size)
        if plain is None:
            return None
        found.append((start + at, bytes(plain.view[start + at - plain.base : start + at - plain.base + size])))
    return found


def _digest(spans: Spans) -> str:
    digest = hashlib.sha256()
    for _, data in spans:
        digest.update(data)
    return digest.hexdigest()
