"""The result type of every strategy: a drawn value, with the name of the mistake that it contains."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Generic, NamedTuple, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from softcard.core.errors import WireError

T = TypeVar("T")
Maker = Callable[[DrawFn], T]
"""The type of a function that draws one value."""


class Drawn(NamedTuple, Generic[T]):
    """A drawn value for a parser or a driver.

    `breaks` is the name of the only mistake in it, or None for a valid value: the id of the violated rule, or the
    name of a defect."""

    value: T
    breaks: str | None = None


def drawn(
    valid: Maker[T], mistakes: Mapping[str, Maker[T]], breaks: Collection[str] | None
) -> SearchStrategy[Drawn[T]]:
    """Draw a valid value in about half of the cases, else a value with one of the selected mistakes.

    Failing examples are shrunk towards valid values. `breaks` selects the possible mistakes, which are equally
    probable; None selects all. An unknown mistake raises `WireError`."""
    for name in breaks or ():
        if name not in mistakes:
            raise WireError(
                f"the strategy cannot generate the mistake {name!r}, expected some of {', '.join(mistakes)}"
            )
    chosen = tuple(mistakes) if breaks is None else tuple(name for name in mistakes if name in breaks)
    which = st.none() | st.sampled_from(chosen) if chosen else st.none()

    @st.composite
    def draw_one(draw: DrawFn) -> Drawn[T]:
        name = draw(which)
        return Drawn((valid if name is None else mistakes[name])(draw), name)

    return draw_one()
