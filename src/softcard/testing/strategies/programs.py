"""Strategies for generated programs: hypothesis makes the choices of the program generators of `campaign`."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from softcard.campaign.generators.registry import GENERATORS
from softcard.core.errors import WireError, close_to


def generated_programs(name: str) -> SearchStrategy[str]:
    """Draw programs, as text, of one generator: ``opencl``, ``rv64``, ``gcn``, ``refsi``, ``acceldev`` or ``aql``.

    All programs have defined behaviour; docs/campaigns.md describes them. An unknown `name` raises `WireError`."""
    if name not in GENERATORS:
        raise WireError(
            f"unknown generator {name!r}{close_to(name, GENERATORS) or ', expected one of ' + ', '.join(GENERATORS)}"
        )

    @st.composite
    def program(draw: DrawFn) -> str:
        return GENERATORS[name].tree(_Drawing(draw)).text()

    return program()


class _Drawing:
    """A source of a program generator's random choices, which hypothesis draws."""

    def __init__(self, draw: DrawFn) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        """Draw a number from `low` to `high`."""
        return self._draw(st.integers(low, high))
