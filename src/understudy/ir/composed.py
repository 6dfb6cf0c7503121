"""An algebra put together from parts that each know one subject."""

from __future__ import annotations

from typing import Any


class Composed:
    """Each operation is that of the first of `parts` that has it, looked up when it is first asked for."""

    def __init__(self, *parts: object) -> None:
        self._parts = parts

    def __getattr__(self, name: str) -> Any:
        for part in () if name.startswith("_") else self._parts:
            if hasattr(type(part), name):
                operation = getattr(part, name)
                setattr(self, name, operation)
                return operation
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
