"""The registry of the checks of waves, which creates them from the names in a setting.

To add a check, write a subclass of `hooks.Check`, and add a line to `core.checks.CHECKS` and one to this
module; or call `register`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from softcard.core.checks import FIDELITY, INIT, LEAKS, MEMORY, RACES, SYNC, WAITS, add_check
from softcard.core.findings import FindingLog
from softcard.engine.gcn.hooks import NO_CHECKS, Check, Checks
from softcard.engine.gcn.memory import GpuMemory


@dataclass(frozen=True, slots=True)
class Request:
    """A request to create checks for one memory: the names of the checks, and the log of their findings."""

    names: Collection[str]
    memory: GpuMemory
    log: FindingLog
    equal_stores: bool = False
    """True if stores that do not change memory are conflicting accesses as well."""


Factory = Callable[[Request], Check | None]
"""A function that creates a check; it returns None if the memory has nothing to check.

It imports the modules it needs itself, as few programs use checks.
"""


def gcn_checks(names: Collection[str], memory: GpuMemory, log: FindingLog | None, equal_stores: bool = False) -> Checks:
    """Return the checks, selected by `names`, of the waves that access one memory.

    If `equal_stores`, stores that do not change memory are conflicting accesses, too."""
    if log is None or not names:
        return NO_CHECKS
    request = Request(names, memory, log, equal_stores)
    factories = dict.fromkeys(factory for name, factory in FACTORIES.items() if name in names)
    made = (factory(request) for factory in factories)
    return Checks(*(check for check in made if check is not None))


def register(name: str, text: str, factory: Factory) -> Callable[[], None]:
    """Add a check of waves for devices that are opened later; return a function that removes it.

    See `core.checks.add_check`.
    """
    remove = add_check(name, text, harts=False)
    FACTORIES[name] = factory

    def unregister() -> None:
        del FACTORIES[name]
        remove()

    return unregister


def _bounds(request: Request) -> Check | None:
    from softcard.engine.gcn.checks.bounds import BoundsCheck

    return None if request.memory.guard is None else BoundsCheck(request.memory.guard, request.log)


def _shadows(request: Request) -> Check | None:
    from softcard.engine.gcn.shadow.check import ShadowCheck

    return ShadowCheck.of(request.names, request.memory, request.log)


def _races(request: Request) -> Check | None:
    from softcard.engine.gcn.races.watch import RaceWatch

    return RaceWatch.of(request.names, request.memory, request.log, request.equal_stores)


def _waits(request: Request) -> Check | None:
    from softcard.engine.gcn.waits.checker import WaitChecker

    return WaitChecker(request.log.note)


def _barriers(request: Request) -> Check | None:
    from softcard.engine.gcn.checks.barriers import Barriers

    return Barriers(request.log.note)


FACTORIES: Final[dict[str, Factory]] = {
    MEMORY: _bounds,
    LEAKS: _bounds,
    INIT: _shadows,
    FIDELITY: _shadows,
    RACES: _races,
    WAITS: _waits,
    SYNC: _barriers,
}
"""The functions that create checks, by the check's name.

A function that stands for several names creates one check for all of them.
"""
