"""What translated code and those who run it agree on; nothing here translates, or loads what does."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from understudy.isa.gcn.insn import Insn

BlockKey = tuple[int, int]
"""Address and MODE."""
Fetch = Callable[[int], "Insn"]
"""Decodes the instruction at an address."""
CompileIr = Callable[[str, int], bytes]
"""As `llvm.compile_ir`."""


class Untranslated(Exception):
    """The JIT leaves this instruction to the reference engine."""


class Misspeculation(Exception):
    """Work-groups that ran side by side have to run one after the other, with nothing done yet."""


class Observed(Enum):
    """When somebody besides the program looks at a wave's vector registers."""

    NEVER = "never"
    PLACE = "place"
    """Never, but where a wave ended is known."""
    AT_END = "at end"
    ALWAYS = "always"


Parts = list[Any]
"""What is kept of something, as JSON takes it."""
