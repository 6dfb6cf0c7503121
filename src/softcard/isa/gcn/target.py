"""The GCN processors and their generations, which determine the encoding of instructions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from softcard.core.errors import WireError

GFX7: Final = 7
GFX8: Final = 8
GFX9: Final = 9
LEVELS: Final = (GFX7, GFX8, GFX9)
GFX90A: Final = 90
GFX940: Final = 94
ENCODINGS: Final = (*LEVELS, GFX90A, GFX940)
"""The sets of encodings: of GFX7, GFX8 and GFX9, of gfx90a, and of gfx942 and later processors."""


@dataclass(frozen=True, slots=True)
class Target:
    """A processor by its LLVM name.

    `level` is the generation, which selects opcodes and semantics. `encoding` selects the fields of encodings.
    `has` names features that vary within a level:

    - ``mad_mix``: v_mad_mix* (gfx900 to gfx902, gfx909, gfx90c)
    - ``fma_mix``: v_fma_mix* (gfx904, gfx906 and all later ones)
    - ``dot``: v_dot*, v_fmac_f32, v_xnor_b32 (gfx906 and later)
    - ``mai``: accumulation registers and matrix instructions, v_dot*c, float atomics (gfx908 and later)
    - ``gfx90a``: the instructions and encodings of gfx90a (gfx90a and later)
    - ``gfx940``: the instructions and encodings of gfx942 (gfx942, gfx950, gfx9-4-generic)
    - ``gfx950``: the instructions and encodings of gfx950
    - ``fp8``: conversions and matrices of FP8 and BF8 (gfx942, gfx950)
    - ``xf32``: matrices of XF32 (gfx942)
    - ``xnack``: two SGPRs are reserved for the XNACK mask"""

    name: str
    level: int
    has: frozenset[str] = frozenset()
    encoding: int = field(init=False)
    """The set of encodings of the processor: one of `ENCODINGS`, which are in chronological order."""
    matrix: int = field(init=False, repr=False, compare=False)
    """The generation of CDNA's matrix instructions: 1 (gfx908) to 4 (gfx950), 0 for a processor without them."""
    has_unified_registers: bool = field(init=False, repr=False, compare=False)
    """True if accumulation registers are a part of the vector registers that a kernel allocates (gfx90a and later)."""
    has_packed_ids: bool = field(init=False, repr=False, compare=False)
    """True if all coordinates of a work-item are in v0 at the start of a wave.

    x is in bits 9:0, y in 19:10, z in 29:20.
    """

    def __post_init__(self) -> None:
        newest = GFX940 if "gfx940" in self.has else GFX90A if "gfx90a" in self.has else self.level
        object.__setattr__(self, "encoding", newest)
        object.__setattr__(self, "matrix", len(self.has & {"mai", "gfx90a", "gfx940", "gfx950"}))
        object.__setattr__(self, "has_unified_registers", "gfx90a" in self.has)
        object.__setattr__(self, "has_packed_ids", "gfx90a" in self.has)

    def __str__(self) -> str:
        return self.name

    @property
    def vgpr_granule(self) -> int:
        """The number of vector registers in an allocation block; kernels allocate whole blocks."""
        return 8 if "gfx90a" in self.has else 4

    @property
    def has_kernarg_preload(self) -> bool:
        """True if user SGPRs can be preloaded with the first kernel arguments (gfx90a and later)."""
        return "gfx90a" in self.has

    @property
    def has_architected_scratch(self) -> bool:
        """True if FLAT_SCRATCH holds the address of private memory when a wave starts (gfx942 and later)."""
        return "gfx940" in self.has

    @property
    def has_xccs(self) -> bool:
        """True if an agent can consist of several accelerator dies (XCC), each with its own second-level cache."""
        return "gfx940" in self.has

    def vmcnt(self, n: int) -> int:
        """Return the vmcnt field of the s_waitcnt immediate `n`: the number of accesses that may remain outstanding."""
        return n & 15 | (n >> 14 & 3) << 4 if self.level >= GFX9 else n & 15


_GFX908: Final = frozenset({"fma_mix", "dot", "mai"})
_GFX90A: Final = _GFX908 | {"gfx90a"}
_GFX940: Final = _GFX90A | {"gfx940"}
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
        Target("gfx904", GFX9, frozenset({"fma_mix"})),
        Target("gfx906", GFX9, frozenset({"fma_mix", "dot"})),
        Target("gfx908", GFX9, _GFX908),
        Target("gfx909", GFX9, frozenset({"mad_mix", "xnack"})),
        Target("gfx90a", GFX9, _GFX90A),
        Target("gfx90c", GFX9, frozenset({"mad_mix", "xnack"})),
        Target("gfx942", GFX9, _GFX940 | {"fp8", "xf32"}),
        Target("gfx950", GFX9, _GFX940 | {"fp8", "gfx950"}),
        Target("gfx9-generic", GFX9),
        Target("gfx9-4-generic", GFX9, _GFX940),
    )
}
"""All processors (`Target`) by LLVM name."""


def target(name: str) -> Target:
    """Return the processor called `name`, an LLVM name such as "gfx900"; raise `WireError` for an unknown name."""
    try:
        return TARGETS[name]
    except KeyError:
        raise WireError(f"unknown processor {name!r}, expected one of {', '.join(TARGETS)}") from None
