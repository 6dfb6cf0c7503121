"""What every strategy draws: a value, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Generic, NamedTuple, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from understudy.core.errors import WireError

T = TypeVar("T")
Maker = Callable[[DrawFn], T]
"""Draws one value."""


class Drawn(NamedTuple, Generic[T]):
    """A value for a parser or a driver. `breaks` names the one mistake in it: a rule's id or a damage; None: none."""

    value: T
    breaks: str | None = None


def drawn(
    valid: Maker[T], mistakes: Mapping[str, Maker[T]], breaks: Collection[str] | None
) -> SearchStrategy[Drawn[T]]:
    """Valid values as often as those with a mistake, of which each is as likely; towards valid ones they shrink.

    `breaks`: which of the mistakes there may be, None for all. `WireError` for one that there is not.
    """
    for name in breaks or ():
        if name not in mistakes:
            raise WireError(f"nothing here breaks {name!r}, expected some of {', '.join(mistakes)}")
    chosen = tuple(mistakes) if breaks is None else tuple(name for name in mistakes if name in breaks)
    which = st.none() | st.sampled_from(chosen) if chosen else st.none()

    @st.composite
    def draw_one(draw: DrawFn) -> Drawn[T]:
        name = draw(which)
        return Drawn((valid if name is None else mistakes[name])(draw), name)

    return draw_one()
