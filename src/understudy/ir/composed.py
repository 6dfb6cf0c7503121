"""An algebra put together from parts that each know one subject."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def _operations(protocol: type, part: type) -> tuple[str, ...]:
    """Operations of a protocol that a class of parts has."""
    return tuple(name for name in dir(protocol) if not name.startswith("_") and hasattr(part, name))


class Composed:
    """The algebra `protocol`: each operation is that of the first of `parts` that has it."""

    def __init__(self, protocol: type, *parts: Any) -> None:
        for part in reversed(parts):
            for name in _operations(protocol, part.__class__):
                setattr(self, name, getattr(part, name))
