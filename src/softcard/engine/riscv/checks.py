"""The registry of user-defined checks of harts, and the base class of these checks.

The built-in checks are implemented in both engines. A registered check runs on the reference engine, which
calls it before each instruction."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from softcard.core.checks import CHECKS, CheckKind
from softcard.core.errors import ModelBug
from softcard.core.findings import FindingLog
from softcard.engine.riscv.evaluate import Evaluator
from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.state import Hart


class HartCheck:
    """A check of harts, with hooks that do nothing: subclasses override those that they need."""

    name = ""
    """The name of the check in settings and findings."""

    def instruction_begins(self, hart: Hart, pc: int, insn: Insn) -> None:
        """Handle an instruction that the hart is about to execute."""

    def device_closes(self) -> None:
        """Handle the closing of the device."""


Factory = Callable[[FindingLog], HartCheck]
"""A function that makes a check; the check reports its findings to the given log."""
FACTORIES: Final[dict[str, Factory]] = {}
"""The registered checks by name."""


def hart_checks(names: Collection[str], log: FindingLog | None) -> tuple[HartCheck, ...]:
    """Return new instances of those registered checks whose names are in `names`; without a log, return none."""
    return () if log is None else tuple(make(log) for name, make in FACTORIES.items() if name in names)


def register(name: str, text: str, factory: Factory) -> Callable[[], None]:
    """Add a check of harts for all devices opened from now on; return a function that removes it.

    `text` describes in a few words what the check reports. The setting "all" does not include registered checks. A
    check of waves (`engine.gcn.checks.registry.register`) may have the same name. Raise `ModelBug` for a second check
    of harts with this name.
    """
    known = CHECKS.get(name)
    if known is not None and known.harts:
        raise ModelBug(f"a check {name!r} exists already: {known.text}")
    CHECKS[name] = CheckKind(text, waves=known is not None, harts=True, in_all=False, only_engine=True)
    FACTORIES[name] = factory

    def remove() -> None:
        del FACTORIES[name]
        if known is None:
            del CHECKS[name]
        else:
            CHECKS[name] = known

    return remove


def observed(evaluator: Evaluator, checks: Collection[HartCheck]) -> Evaluator:
    """Return the evaluator, changed so that it calls checks before each instruction."""
    begin = evaluator.begin

    def begin_observed(pc: int, insn: Insn) -> None:
        for each in checks:
            each.instruction_begins(evaluator.hart, pc, insn)
        begin(pc, insn)

    setattr(evaluator, "begin", begin_observed)  # noqa: B010 - mypy knows methods alone
    return evaluator
