"""Generations and the processors of each: what decides which opcode a word is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from understudy.core.errors import WireError

GFX7: Final = 7
GFX8: Final = 8
GFX9: Final = 9
LEVELS: Final = (GFX7, GFX8, GFX9)


@dataclass(frozen=True, slots=True)
class Target:
    """A processor by its LLVM name. `level` picks encodings and opcodes, `has` names what only some of a level have.

    Features: ``dot`` (gfx906: v_dot*, v_fma_mix*, v_fmac_f32, v_xnor_b32), ``mad_mix`` (gfx900 to gfx904), ``xnack``
    (reserves two SGPRs).
    """

    name: str
    level: int
    has: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return self.name

    def vmcnt(self, n: int) -> int:
        """How many vector memory accesses s_waitcnt with immediate `n` lets be outstanding."""
        return n & 15 | (n >> 14 & 3) << 4 if self.level >= GFX9 else n & 15


TARGETS: Final = {
    target.name: target
    for target in (
        Target("gfx700", GFX7),
        Target("gfx701", GFX7),
        Target("gfx702", GFX7),
        Target("gfx800", GFX8),
        Target("gfx801", GFX8, frozenset({"xnack"})),
        Target("gfx802", GFX8),
        Target("gfx803", GFX8),
        Target("gfx804", GFX8),
        Target("gfx810", GFX8, frozenset({"xnack"})),
        Target("gfx900", GFX9, frozenset({"mad_mix"})),
        Target("gfx901", GFX9, frozenset({"mad_mix", "xnack"})),
        Target("gfx902", GFX9, frozenset({"mad_mix", "xnack"})),
        Target("gfx906", GFX9, frozenset({"dot"})),
    )
}
"""All processors by name."""


def target(name: str) -> Target:
    """The processor of that name; `WireError` where there is none."""
    try:
        return TARGETS[name]
    except KeyError:
        raise WireError(f"no processor {name!r}: there are {', '.join(TARGETS)}") from None
