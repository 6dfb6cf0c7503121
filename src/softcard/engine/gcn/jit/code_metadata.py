"""The metadata of optimised code, and the records in which it is cached together with the code.

A process that finds such a record need not translate the code again."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from softcard.engine.gcn.jit.basics import BlockKey, Parts
from softcard.ir.translator import translator_key

if TYPE_CHECKING:
    from softcard.engine.gcn.jit.emit.emit_strip import Resume
    from softcard.engine.gcn.jit.region import Region


@dataclass(frozen=True, slots=True, eq=False)
class CodeMetadata:
    """The metadata of a region's code: its start, its numbered entries, and all its blocks.

    `live` is, for each entry, the number of vector registers from v0 on that may be read before they are written.
    `is_closed` is True if no instruction exits from the region. `resumes` has four items for each strip-mined
    loop (see `Resume`): the addresses of its instructions, the lane masks that it writes, the lane masks of
    shadow registers that it writes (for each kind of shadow), and a flag that is True if uses of values with a
    shadow have been counted."""

    start: BlockKey
    entries: list[BlockKey]
    blocks: list[BlockKey]
    live: list[int]
    is_closed: bool
    resumes: list[tuple[list[int], list[int], list[list[int]], bool]]

    @classmethod
    def of(cls, region: Region, resumes: list[Resume], live: dict[BlockKey, int]) -> CodeMetadata:
        """Return the metadata of a region, with the results of its translation."""
        marks = [([insn.pc for insn in each.insns], each.masks, each.shadows, each.is_counted) for each in resumes]
        rows = [live[place] for place in region.entries]
        return cls(region.start, region.entries, list(region.blocks), rows, region.is_closed, marks)

    def parts(self, start: int) -> Parts:
        """Return the serialised form, with addresses relative to `start`.

        The same code at another address has an equal serialised form."""
        places = [[[pc - start, mode] for pc, mode in each] for each in ([self.start], self.entries, self.blocks)]
        resumes = [[[pc - start for pc in pcs], *others] for pcs, *others in self.resumes]
        return [*places, self.live, self.is_closed, resumes]

    @classmethod
    def from_parts(cls, parts: Parts, start: int) -> CodeMetadata:
        """Return the metadata from its serialised form `parts`, for code at address `start`."""
        ((pc, mode),), entries, blocks, live, is_closed, resumes = parts
        return cls(
            (start + pc, mode),
            [(start + pc, mode) for pc, mode in entries],
            [(start + pc, mode) for pc, mode in blocks],
            live,
            is_closed,
            [([start + pc for pc in pcs], masks, shadows, counted) for pcs, masks, shadows, counted in resumes],
        )


# ---- cache records ---------------------------------------------------------------------------------------------------
# Cache records of translated regions: a later process reuses their machine code without emitting them again.


def record_key(region: Region, *options: object) -> str:
    """Return the key of a region's record in the object cache.

    `options` are the other inputs of the translation. Equal code at another address has the same key.
    """
    start, mode = region.start
    entries = [(pc - start, each) for pc, each in region.entries]
    words = [(pc - start, after, word) for pc, after, word in region.words]
    parts = (translator_key(), mode, entries, words, *options)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def to_record(object_key: str, metadata: CodeMetadata, start: int) -> bytes:
    """Return a region's cache record: the object-cache key of its machine code, and its metadata.

    The record stores addresses relative to `start`."""
    return json.dumps([object_key, metadata.parts(start)]).encode()


def from_record(record: bytes, start: int) -> tuple[str, CodeMetadata]:
    """Return the object-cache key and the metadata of a cache record.

    The addresses in the record are relative to `start`; those in the result are absolute."""
    object_key, parts = json.loads(record)
    return object_key, CodeMetadata.from_parts(parts, start)
