"""The registry of the checks of harts, which creates them from the names in a setting.

A new check is a subclass of `hooks.HartCheck`, a line in `core.checks.CHECKS` and one here; or one call of `register`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from softcard.core.checks import INIT, RACES, WAITS, add_check
from softcard.core.findings import FindingLog
from softcard.engine.riscv.hooks import HartCheck, HartChecks, Machine


@dataclass(frozen=True, slots=True)
class Request:
    """A request to create a check for the harts of one device, with the log of its findings."""

    machine: Machine
    log: FindingLog
    is_translated: bool = False
    """True if the harts run as machine code."""
    equal_stores: bool = False
    """True if stores that do not change memory are conflicting accesses as well."""


Make = Callable[[Request], HartCheck]
"""A function that creates a check. It imports the modules it needs itself, as few programs use checks."""


@dataclass(frozen=True, slots=True)
class Factory:
    """The function that creates a check, and one that returns True if the check supports harts as machine code."""

    make: Make
    can_translate: Callable[[Machine], bool]


def hart_checks(
    names: Collection[str], machine: Machine, log: FindingLog | None, equal_stores: bool = False
) -> HartChecks:
    """Return the checks of a device's harts; `equal_stores`: see `Request`.

    Harts run as machine code if the machine translates and all checks support that.
    """
    factories = [factory for name, factory in FACTORIES.items() if name in names]
    is_translated = machine.translates and all(factory.can_translate(machine) for factory in factories)
    if log is None:
        return HartChecks(is_translated=is_translated)
    request = Request(machine, log, is_translated, equal_stores)
    return HartChecks(*(factory.make(request) for factory in factories), is_translated=is_translated)


def register(name: str, text: str, make: Make) -> Callable[[], None]:
    """Add a check of harts for devices that are opened later; return a function that removes it.

    See `core.checks.add_check`. Harts of devices with the check run on the reference engine.
    """
    remove = add_check(name, text, harts=True)
    FACTORIES[name] = Factory(make, lambda machine: False)

    def unregister() -> None:
        del FACTORIES[name]
        remove()

    return unregister


def _shadow(request: Request) -> HartCheck:
    from softcard.engine.riscv.shadow.check import ShadowCheck

    return ShadowCheck(request.log, request.machine.insn)


def _races(request: Request) -> HartCheck:
    machine = request.machine
    if request.is_translated:
        from softcard.engine.riscv.races.native_detector import NativeHartRaces

        return NativeHartRaces(
            request.log,
            machine.place,
            request.equal_stores,
            machine.harts,
            machine.hart,
            machine.insn,
            machine.rams,
        )
    from softcard.engine.riscv.races.watch import HartRaces

    return HartRaces(request.log, machine.place, request.equal_stores)


def _code_stores(request: Request) -> HartCheck:
    from softcard.engine.riscv.code_stores.engines import CodeStoreCheck

    return CodeStoreCheck(request.log, request.machine, request.is_translated)


def _races_can_translate(machine: Machine) -> bool:
    from softcard.engine.riscv.races.layout import MOST_HARTS
    from softcard.ir import llvm

    return llvm.is_x86() and machine.harts <= MOST_HARTS


def _code_stores_can_translate(machine: Machine) -> bool:
    from softcard.ir import llvm

    return llvm.is_x86() and machine.has_shadow_room


FACTORIES: Final[dict[str, Factory]] = {
    INIT: Factory(_shadow, lambda machine: True),
    RACES: Factory(_races, _races_can_translate),
    WAITS: Factory(_code_stores, _code_stores_can_translate),
}
"""The factories of checks by name. The checks are called in this order."""
