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


class Isa:
    """The instructions that a hart has. Two of the same name are the same object: see `isa_of`."""

    def __init__(self, name: str, extensions: frozenset[str]) -> None:
        self.name = name
        self.extensions = extensions

    def __repr__(self) -> str:
        return self.name

    def __contains__(self, extension: str) -> bool:
        return extension in self.extensions


def isa_of(name: str) -> Isa:
    """The instruction set of a name: rv64, single letters, and others behind underscores; versions do not matter.

    `WireError` for what is none, or not known here. Every one has I, Zicsr, Zifencei and the privileged instructions.
    """
    text = re.sub(r"(?<=[a-z])\d+(p\d+)?(?=_|$|[a-z])", "", name.lower().removeprefix("rv64"))
    first, *others = text.split("_")
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
    return _made(frozenset(found - {"G", "B"}))


@cache
def _made(extensions: frozenset[str]) -> Isa:
    single = "".join(each for each in KNOWN if len(each) == 1 and each in extensions)
    general = "IMAFD"
    letters = single.replace(general, "G") if single.startswith(general) else single
    others = [each for each in KNOWN[7:] if each in extensions and each not in ALWAYS]
    return Isa("_".join(["RV64" + letters, *others]), extensions)


REFSI: Final = isa_of("rv64gcv_zbc")
"""What harts have unless somebody says otherwise."""
ALL: Final = isa_of("rv64gcv_" + "_".join(KNOWN[9:]))
"""Everything that there is a meaning for."""
