"""Programs of the generators of campaigns, as hypothesis decides."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from understudy.campaign.generators.registry import GENERATORS
from understudy.core.errors import WireError, close_to


def generated_programs(name: str) -> SearchStrategy[str]:
    """Programs of one of the generators, as text: ``opencl``, ``rv64``, ``gcn``, ``refsi``, ``acceldev``, ``aql``.

    They are defined and accepted; see docs/campaigns.md for what they are. `WireError` for another name.
    """
    if name not in GENERATORS:
        raise WireError(f"no generator {name!r}{close_to(name, GENERATORS) or ', there are ' + ', '.join(GENERATORS)}")

    @st.composite
    def program(draw: DrawFn) -> str:
        return GENERATORS[name].tree(_Drawing(draw)).text()

    return program()


class _Drawing:
    """Decisions that hypothesis takes."""

    def __init__(self, draw: DrawFn) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        """A number from `low` to `high`."""
        return self._draw(st.integers(low, high))
