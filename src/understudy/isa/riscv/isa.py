"""Instruction sets of harts, by name: ``rv64gc_zba_zbb_zbs`` (ISA manual volume I, chapter "ISA Extension Naming")."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from understudy.core.errors import WireError, close_to

ALWAYS: Final = ("I", "Zicsr", "Zifencei", "Priv")
"""What every hart of ours has."""
KNOWN: Final = (
    "I", "M", "A", "F", "D", "C", "V", "Zicsr", "Zifencei", "Zicntr", "Zicond", "Zfh", "Zba", "Zbb", "Zbc", "Zbs",
)  # fmt: skip
"""All extensions, in the order of names."""
IMPLIED: Final = {"G": ("I", "M", "A", "F", "D", "Zicsr", "Zifencei"), "B": ("Zba", "Zbb", "Zbs"), "D": ("F",),
                  "V": ("D", "F", "Zve64d"), "Zfh": ("F",)}  # fmt: skip
"""What a name brings along."""
OF_VECTORS: Final = re.compile(r"(zvl(?P<bits>\d+)b|zve(32[xf]|64[xfd]))(\d+p\d+)?")
"""Names beside V that are no extensions of their own (V 1.0, chapters 18.1 and 18.2)."""
MOST_VLEN: Final = 1 << 16


class Isa:
    """The instructions that a hart has. Two of the same name are the same object: see `isa_of`.

    `least_vlen` is what Zvl*b asks of vector registers, in bits; 0 where the name does not say.
    """

    def __init__(self, name: str, extensions: frozenset[str], least_vlen: int = 0) -> None:
        self.name = name
        self.extensions = extensions
        self.least_vlen = least_vlen

    def __repr__(self) -> str:
        return self.name

    def __contains__(self, extension: str) -> bool:
        return extension in self.extensions


def isa_of(name: str) -> Isa:
    """The instruction set of a name: rv64, single letters, and others behind underscores; versions do not matter.

    `WireError` for what is none, or not known here. Every one has I, Zicsr, Zifencei and the privileged instructions.
    Beside V there may be Zvl*b, which says how wide vector registers are at least, and Zve*, which V has anyhow.
    """
    written = name.lower().removeprefix("rv64").split("_")
    of_vectors = [found for found in map(OF_VECTORS.fullmatch, written) if found]
    plain = "_".join(each for each in written if not OF_VECTORS.fullmatch(each))
    first, *others = re.sub(r"(?<=[a-z])\d+(p\d+)?(?=_|$|[a-z])", "", plain).split("_")
    single, _, rest = first.partition("z")
    words = [*single.upper(), *(["Z" + rest] if rest else []), *(each.capitalize() for each in others)]
    if not name.lower().startswith("rv64") or not words:
        raise WireError(f"{name!r} is no instruction set of 64-bit harts, expected a name like rv64gc_zba_zbb")
    found = set(ALWAYS)
    for word in words:
        if word not in KNOWN and word not in IMPLIED:
            listed = f"; there are {', '.join(KNOWN[1:])}"
            raise WireError(f"{name!r}: no extension {word!r}{close_to(word, KNOWN) or listed}")
        found |= {word, *IMPLIED.get(word, ())}
    least = max((_least_vlen(name, each, "V" in found) for each in of_vectors), default=0)
    return _made(frozenset(found - {"G", "B"}), least)


def _least_vlen(name: str, found: re.Match[str], has_vectors: bool) -> int:
    """The bits that a name beside V asks for."""
    word = found[1].capitalize()
    if found["bits"] is None:
        if not has_vectors:
            raise WireError(f"{name!r}: {word!r} without V is not modelled, expected v, which has all of it")
        return 0
    bits = int(found["bits"])
    if not 32 <= bits <= MOST_VLEN or bits & (bits - 1):
        raise WireError(f"{name!r}: {word!r} asks for no power of two from 32 to {MOST_VLEN}")
    if not has_vectors:
        raise WireError(f"{name!r}: {word!r} is of vectors, and there is no V")
    return bits


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
"""What harts have unless somebody says otherwise."""
ALL: Final = isa_of("rv64gcv_" + "_".join(KNOWN[9:]))
"""Everything that there is a meaning for."""
