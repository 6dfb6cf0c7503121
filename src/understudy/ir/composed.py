"""An algebra put together from parts that each know one subject."""

from __future__ import annotations

from operator import attrgetter
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
                    setattr(cls, name, property(attrgetter(f"{part}.{name}")))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
