"""Which kinds the library has, and where: a line for each on disk, which is read when it is asked for.

There are thousands of them, and a process needs a few dozen: neither reading nor writing the index looks into the
lines of others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from understudy.engine.gcn.threaded.records import Handler
from understudy.ir.object_cache import ObjectCache


@dataclass(frozen=True, slots=True)
class Known:
    """What the library has of a kind: its handler, the object that it is in, and whether that is optimised."""

    handler: Handler
    image: str
    is_optimised: bool


class Index:
    """What is known of each kind, by its key: a `Known`, or None where it has no handler. `name` is the file's."""

    def __init__(self, objects: ObjectCache, name: str) -> None:
        self._objects = objects
        self._name = name
        self._lines: dict[str, str] = {}
        self._data = b""
        """What was read or written last. Of a kind that is there twice, the later line counts."""
        self._count = 0
        """Lines in it."""
        self._added: dict[str, str] = {}
        """Those that are not in it."""
        self.refresh()
        self._found: dict[str, Known | None] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._lines

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __getitem__(self, key: str) -> Known | None:
        if key not in self._found:
            self._found[key] = _parsed(self._lines[key])
        return self._found[key]

    def __setitem__(self, key: str, known: Known | None) -> None:
        self._lines[key] = self._added[key] = _written(known)
        self._found[key] = known

    def __delitem__(self, key: str) -> None:
        del self._lines[key]
        self._added.pop(key, None)
        self._found.pop(key, None)

    def refresh(self) -> None:
        """Take up what other processes have added."""
        data = self._objects.get(self._name, fresh=True)
        if data is None or data is not self._data:
            self._data, found = data or b"", _parsed_lines(data or b"")
            self._count = len(found)
            self._added = {key: line for key, line in self._lines.items() if found.get(key) != line}
            self._lines = found | self._lines

    def write(self) -> None:
        """Keep it, with what other processes have added."""
        self.refresh()
        if self._count + len(self._added) > 2 * len(self._lines):  # too many of them are no longer true
            self._data, self._count, self._added = b"", 0, self._lines
        self._data += "".join(f"{key}\t{line}\n" for key, line in self._added.items()).encode()
        self._count += len(self._added)
        self._added = {}
        self._objects.put(self._name, self._data)


def _parsed_lines(data: bytes) -> dict[str, str]:
    return dict(line.split("\t", 1) for line in data.decode().split("\n") if line)


def _written(known: Known | None) -> str:
    if known is None:
        return "null"
    made = known.handler
    parts = (known.image, known.is_optimised, made.name, made.size, made.places, made.caches, made.target)
    return json.dumps(parts, separators=(",", ":"))


def _parsed(line: str) -> Known | None:
    parts = json.loads(line)
    if parts is None:
        return None
    image, is_optimised, name, size, places, caches, target = parts
    handler = Handler(name, size, tuple(places), tuple((kind, at) for kind, at in caches), target)
    return Known(handler, image, is_optimised)
