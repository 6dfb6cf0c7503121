"""An algebra put together from parts that each know one subject."""

from __future__ import annotations

from typing import Final

from understudy.isa.gcn.algebra import WaveAlgebra

OPERATIONS: Final = frozenset(name for name in dir(WaveAlgebra) if not name.startswith("_"))
"""What meanings may ask for."""


class Composed:
    """`isa.gcn.algebra.WaveAlgebra`: each operation is that of the first of `parts` that has it."""

    def __init__(self, *parts: object) -> None:
        for part in reversed(parts):
            for name in OPERATIONS & set(dir(type(part))):
                setattr(self, name, getattr(part, name))
