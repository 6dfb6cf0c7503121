"""Instruction sets of harts, by names such as ``rv64gc_zba_zbb_zbs`` (ISA manual I, "ISA Extension Naming")."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from softcard.core.errors import WireError, close_to

ALWAYS: Final = ("I", "Zicsr", "Zifencei", "Priv")
"""The extensions that every hart has."""
MISALIGNED: Final = "Zicclsm"
"""The name of the extension for misaligned loads and stores (RVA profiles); atomics must still be aligned."""
KNOWN: Final = (
    "I", "M", "A", "F", "D", "C", "V", "Zicsr", "Zifencei", MISALIGNED, "Zicntr", "Zicond", "Zfh", "Zba", "Zbb", "Zbc",
    "Zbs",
)  # fmt: skip
"""The names of all extensions, in the order in which names of instruction sets list them."""
IMPLIED: Final = {"G": ("I", "M", "A", "F", "D", "Zicsr", "Zifencei"), "B": ("Zba", "Zbb", "Zbs"), "D": ("F",),
                  "V": ("D", "F", "Zve64d"), "Zfh": ("F",)}  # fmt: skip
"""The extensions that another extension or a shorthand name, such as G, implies."""
OF_VECTORS: Final = re.compile(r"(zvl(?P<bits>\d+)b|zve(32[xf]|64[xfd]))(\d+p\d+)?")
"""A pattern of the names that may follow V but are not extensions of their own: Zvl*b and Zve*.

The source is V 1.0, chapters 18.1 and 18.2.
"""
MOST_VLEN: Final = 1 << 16


class Isa:
    """The instruction set of a hart. `isa_of` returns the same object for equivalent names.

    `least_vlen` is the minimum width of vector registers in bits that Zvl*b requires; 0 if the name has no Zvl*b."""

    def __init__(self, name: str, extensions: frozenset[str], least_vlen: int = 0) -> None:
        self.name = name
        self.extensions = extensions
        self.least_vlen = least_vlen

    def __repr__(self) -> str:
        return self.name

    def __contains__(self, extension: str) -> bool:
        return extension in self.extensions


def isa_of(name: str) -> Isa:
    """Return the instruction set for a name: rv64, single letters, and other extensions after underscores.

    Versions in the name are ignored. Every set has I, Zicsr, Zifencei and the privileged instructions. With V, the name
    may have Zvl*b, the minimum width of vector registers, and Zve*, which V includes. An invalid or unknown name raises
    `WireError`.
    """
    written = name.lower().removeprefix("rv64").split("_")
    of_vectors = [found for found in map(OF_VECTORS.fullmatch, written) if found]
    plain = "_".join(each for each in written if not OF_VECTORS.fullmatch(each))
    first, *others = re.sub(r"(?<=[a-z])\d+(p\d+)?(?=_|$|[a-z])", "", plain).split("_")
    single, _, rest = first.partition("z")
    words = [*single.upper(), *(["Z" + rest] if rest else []), *(each.capitalize() for each in others)]
    if not name.lower().startswith("rv64") or not words:
        raise WireError(f"{name!r} must be an instruction set of 64-bit harts, such as rv64gc_zba_zbb")
    found = set(ALWAYS)
    for word in words:
        if word not in KNOWN and word not in IMPLIED:
            listed = f", expected one of {', '.join(KNOWN[1:])}"
            raise WireError(f"{name!r} has the unknown extension {word!r}{close_to(word, KNOWN) or listed}")
        found |= {word, *IMPLIED.get(word, ())}
    least = max((_least_vlen(name, each, "V" in found) for each in of_vectors), default=0)
    return _made(frozenset(found - {"G", "B"}), least)


def _least_vlen(name: str, found: re.Match[str], has_vectors: bool) -> int:
    """Return the minimum width of vector registers, in bits, that an extension (Zvl*b or Zve*) requires.

    `found` is the match of the extension in `name`. Zve* requires no minimum (0). Raise `WireError` if the width
    is invalid, or if the instruction set lacks V."""
    word = found[1].capitalize()
    if found["bits"] is None:
        if not has_vectors:
            raise WireError(f"{name!r}: {word!r} is modelled only with V: use v, which includes it")
        return 0
    bits = int(found["bits"])
    if not 32 <= bits <= MOST_VLEN or bits & (bits - 1):
        raise WireError(f"{name!r}: the width in {word!r} must be a power of two from 32 to {MOST_VLEN}")
    if not has_vectors:
        raise WireError(f"{name!r}: {word!r} requires V")
    return bits


def of_linux(isa: Isa) -> Isa:
    """Return `isa` with support of misaligned accesses added, as in Linux programs (RVA20U64, uabi.rst)."""
    return _made(isa.extensions | {MISALIGNED}, isa.least_vlen)


@cache
def _made(extensions: frozenset[str], least_vlen: int) -> Isa:
    single = "".join(each for each in KNOWN if len(each) == 1 and each in extensions)
    general = "IMAFD"
    letters = single.replace(general, "G") if single.startswith(general) else single
    others: list[str] = [each for each in KNOWN[7:] if each in extensions and each not in ALWAYS]
    if least_vlen:
        others.append(f"Zvl{least_vlen}b")
    return Isa("_".join(["RV64" + letters, *others]), extensions, least_vlen)


REFSI: Final = isa_of("rv64gcv_zbc")
"""The default instruction set of harts, that of RefSi's harts."""
ALL: Final = isa_of("rv64gcv_" + "_".join(KNOWN[10:]))
"""The instruction set with all instructions that have semantics; misaligned accesses trap."""
