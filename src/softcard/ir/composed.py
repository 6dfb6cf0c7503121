"""Composition of a class from parts, each of which implements one group of its methods."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any


class Composed:
    """A base class for classes that are composed of parts, given by keywords: ``class C(Composed, part=Class)``.

    The class gets the public methods of each part; if several parts have a method, that of the first is taken. Methods
    of the class itself take precedence. Instances hold the parts as attributes with the names of the keywords.
    """

    def __init_subclass__(cls, **parts: type) -> None:
        super().__init_subclass__()
        for part, kind in parts.items():
            for name in dir(kind):
                if not name.startswith("_") and callable(getattr(kind, name)) and not hasattr(cls, name):
                    setattr(cls, name, property(attrgetter(f"{part}.{name}")))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
