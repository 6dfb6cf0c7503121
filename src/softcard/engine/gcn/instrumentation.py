"""The code that checks insert into translated code: cache keys, hook points, and functions that emit IR.

Translated code is shared by all launches over one memory whose checks have the same `kinds`. An `Instrumentation`
therefore refers to no memory and to no launch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from softcard.core.errors import ModelBug
from softcard.isa.gcn.insn import Insn

Perform = Callable[[Insn], None]
"""A function that emits the IR of one instruction."""


@dataclass(frozen=True, slots=True)
class HookPoints:
    """The classes of instructions that checks observe, and for which code is therefore translated differently.

    The reference engine executes the instructions of all selected classes except `order`, and calls the
    checks' observers."""

    order: bool = False
    """True if checks are called for accesses of memory and the instructions that order them.

    Translated code reports accesses (`Instrumentation.accesses`). The reference engine executes instructions that
    acquire, and each access that translated code cannot report.
    """
    accesses: bool = False
    """True if the observers are called for each access of memory."""
    barriers: bool = False
    """True if the observers are called for s_barrier."""
    waits: bool = False
    """True if the observers are called for s_waitcnt and cache invalidations."""
    ends: bool = False
    """True if the observers are called for s_endpgm."""

    def joined(self, other: HookPoints) -> HookPoints:
        """Return the union of two sets of hook points."""
        if NO_HOOKS in (self, other):
            return other if self == NO_HOOKS else self
        return HookPoints(
            self.order or other.order,
            self.accesses or other.accesses,
            self.barriers or other.barriers,
            self.waits or other.waits,
            self.ends or other.ends,
        )


NO_HOOKS: Final = HookPoints()


@dataclass(frozen=True, slots=True)
class Instrumentation:
    """The code that checks insert into translated code.

    `kinds` are the names of the checks, which also identify cached code.
    """

    kinds: tuple[str, ...] = ()
    shadows: tuple[str, ...] = ()
    """The kinds of shadow (such as definedness) that have shadow registers, in the order of these registers."""
    points: HookPoints = NO_HOOKS
    performer: Callable[[Any, tuple[str, ...]], Perform] | None = None
    """A function that returns an emitter of instructions which also update shadow registers.

    Its arguments are an operations interface with shadow registers, and their kinds.
    """
    is_source: Callable[[str, Insn], bool] | None = None
    """A function that returns True if an instruction may set shadow bits although its operands have none.

    Its arguments are the kind of shadow and the instruction.
    """
    accesses: Callable[..., Any] | None = None
    """A function that creates an `emit.emit_memory.AccessHooks`, the emitter of code that reports accesses."""

    @classmethod
    def of(cls, parts: Iterable[Instrumentation]) -> Instrumentation:
        """Return one instrumentation with the inserted code of several checks.

        Raise `ModelBug` if two of the checks define an attribute that only one check may define, such as
        `accesses`."""
        found = PLAIN
        for part in parts:
            for name in ("performer", "is_source", "accesses"):
                if getattr(found, name) is not None and getattr(part, name) is not None:
                    raise ModelBug(f"checks {found.kinds} and {part.kinds} both define {name}, expected one at most")
            found = cls(
                found.kinds + part.kinds,
                found.shadows + part.shadows,
                found.points.joined(part.points),
                found.performer or part.performer,
                found.is_source or part.is_source,
                found.accesses or part.accesses,
            )
        return found


PLAIN: Final = Instrumentation()
"""The instrumentation of code without any check."""
