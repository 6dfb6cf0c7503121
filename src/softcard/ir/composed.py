"""Composition of a class from parts, each of which implements one group of its methods."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any


class Composed:
    """A base class for classes that are composed of parts, given by keywords: ``class C(Composed, part=Class)``.

    The class gets the public methods of each part. If several parts have a method of the same name, the first
    part's method is used. Methods of the class itself take precedence over methods of parts. Instances hold the
    parts as attributes with the names of the keywords."""

    def __init_subclass__(cls, **parts: type) -> None:
        super().__init_subclass__()
        for part, kind in parts.items():
            for name in dir(kind):
                if not name.startswith("_") and callable(getattr(kind, name)) and not hasattr(cls, name):
                    setattr(cls, name, property(attrgetter(f"{part}.{name}")))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
