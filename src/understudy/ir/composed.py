"""An algebra put together from parts that each know one subject."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any


class Composed:
    """A class with keywords ``part=Class``: it has the public methods of each part, those of the first that has one.

    Instances hold the parts under these names. What a class defines itself comes first.
    """

    def __init_subclass__(cls, **parts: type) -> None:
        super().__init_subclass__()
        for part, kind in parts.items():
            for name in dir(kind):
                if not name.startswith("_") and callable(getattr(kind, name)) and not hasattr(cls, name):
                    setattr(cls, name, _Operation(part, name))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class _Operation:
    """A method of a part, which its owner keeps once somebody has asked for it."""

    def __init__(self, part: str, name: str) -> None:
        self.part = part
        self.name = name

    def __get__(self, owner: Any, kind: type) -> Any:
        if owner is None:
            return self
        operation = getattr(getattr(owner, self.part), self.name)
        owner.__dict__[self.name] = operation
        return operation
