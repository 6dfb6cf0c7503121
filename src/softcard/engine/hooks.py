"""Collections of checks by hook point, for waves and for harts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from softcard.core.errors import ModelBug

T = TypeVar("T")


def hooks_of(base: type) -> tuple[str, ...]:
    """Return the names of all hooks of the base class of checks: its public methods."""
    return tuple(name for name, value in vars(base).items() if not name.startswith("_") and callable(value))


def by_hook(checks: Sequence[T], base: type[T]) -> dict[str, tuple[T, ...]]:
    """Return, for each hook of the base class, the checks whose class overrides it."""
    return {hook: tuple(each for each in checks if _overrides(each, base, hook)) for hook in hooks_of(base)}


def only(what: str, found: Iterable[T | None]) -> T | None:
    """Return the object in `found` that is not None, or None; `what` describes it.

    Raise `ModelBug` if there are several.
    """
    made = [each for each in found if each is not None]
    if len(made) > 1:
        raise ModelBug(f"{len(made)} checks use {what}, expected one at most")
    return made[0] if made else None


def _overrides(check: object, base: type, hook: str) -> bool:
    return getattr(type(check), hook) is not getattr(base, hook)
