"""What the emission of a region gave, kept beside its machine code: a later process need not emit it again."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from understudy.engine.gcn.jit.outline import Outline
from understudy.ir.translator import translator_key

if TYPE_CHECKING:
    from understudy.engine.gcn.jit.region import Region


def record_key(region: Region, *options: object) -> str:
    """The key of a region's record in the object cache; `options` are what else its emission depends on.

    The same code at another address has the same.
    """
    start, mode = region.start
    entries = [(pc - start, each) for pc, each in region.entries]
    words = [(pc - start, after, word) for pc, after, word in region.words]
    parts = (translator_key(), mode, entries, words, *options)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def to_record(object_key: str, outline: Outline, start: int) -> bytes:
    """A record: the key of the machine code, and what goes with it."""
    return json.dumps([object_key, outline.parts(start)]).encode()


def from_record(record: bytes, start: int) -> tuple[str, Outline]:
    """What `to_record` was given."""
    object_key, parts = json.loads(record)
    return object_key, Outline.from_parts(parts, start)
