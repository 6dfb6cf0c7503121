"""Frozen dataclasses whose objects are made by the million."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, TypeVar

T = TypeVar("T")


def made_quickly(kind: type[T]) -> type[T]:
    """A frozen dataclass with slots whose objects are made in two thirds of the time; for use as a decorator above it.

    Fields are set through their slots, which need not be looked up by name as in `object.__setattr__`. `TypeError` for
    a class that does more when an object is made: default factories, `__post_init__`, fields by keyword only.
    """
    own: Any = kind
    names = [field.name for field in fields(own)]
    is_plain = all(each.init and not each.kw_only and each.default_factory is MISSING for each in fields(own))
    if not is_plain or hasattr(kind, "__post_init__"):
        raise TypeError(f"{kind.__name__} does more than take its fields, and cannot be made quickly")
    slots = {f"_set_{name}": getattr(kind, name).__set__ for name in names}
    body = "".join(f"\n    _set_{name}(self, {name})" for name in names)
    space: dict[str, Any] = dict(slots)
    exec(f"def __init__(self, {', '.join(names)}):{body}", space)
    made = space["__init__"]
    made.__defaults__, made.__annotations__ = own.__init__.__defaults__, own.__init__.__annotations__
    made.__qualname__, made.__module__ = f"{kind.__qualname__}.__init__", kind.__module__
    own.__init__ = made
    return kind
