"""The interface between translated code and its users. The module does not import the translator."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from softcard.isa.gcn.insn import Insn

BlockKey = tuple[int, int]
"""The key of a block of translated code: a guest address and the value of MODE."""
Fetch = Callable[[int], "Insn"]
"""A function that decodes the instruction at an address."""
CompileIr = Callable[[str, int], bytes]
"""A function that compiles LLVM IR, like `llvm.compile_ir`."""


class Untranslated(Exception):
    """The signal that the JIT does not translate an instruction, so that the reference engine executes it."""


class Misspeculation(Exception):
    """The signal that concurrent work-groups conflict, and have to run again one after the other.

    None of their effects has been committed."""


class Observed(Enum):
    """The points at which a wave's registers can be observed from outside of the program."""

    NEVER = "never"
    PLACE = "place"
    """Registers are not observed, except for the pc at which a wave ended."""
    AT_END = "at end"
    ALWAYS = "always"


Parts = list[Any]
"""The serialised form of an object, as JSON values."""
