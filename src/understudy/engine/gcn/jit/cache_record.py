"""What the emission of a region gave, kept beside its machine code: a later process need not emit it again."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from understudy.engine.gcn.jit.emit_strip import Resume
from understudy.engine.gcn.jit.region import BlockKey, Region
from understudy.ir.translator import translator_key


def record_key(region: Region, *options: object) -> str:
    """The key of a region's record in the object cache; `options` are what else its emission depends on.

    The same code at another address has the same.
    """
    start, mode = region.start
    entries = [(pc - start, each) for pc, each in region.entries]
    words = [(pc - start, after, word) for pc, after, word in region.words]
    parts = (translator_key(), mode, entries, words, *options)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def to_record(object_key: str, region: Region, resumes: list[Resume], live: dict[BlockKey, int]) -> bytes:
    """A record: the key of the machine code, and what goes with it."""
    parts = {
        "object": object_key,
        "live": [live[place] for place in region.entries],
        "resumes": [([insn.pc - region.start[0] for insn in each.insns], each.masks) for each in resumes],
    }
    return json.dumps(parts).encode()


def from_record(record: bytes, region: Region) -> tuple[str, list[Resume], dict[BlockKey, int]]:
    """What `to_record` was given."""
    parts: dict[str, Any] = json.loads(record)
    insns = {node.insn.pc - region.start[0]: node.insn for block in region.blocks.values() for node in block.nodes}
    resumes = [Resume([insns[at] for at in ats], masks) for ats, masks in parts["resumes"]]
    return parts["object"], resumes, dict(zip(region.entries, parts["live"], strict=True))
