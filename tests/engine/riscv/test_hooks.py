"""Collections of checks of harts: hooks, shadow memory of several checks, and parts that exist once."""

from __future__ import annotations

from typing import Any

import pytest

from softcard.core.errors import ModelBug
from softcard.core.findings import FindingLog
from softcard.core.space import Ram
from softcard.engine.riscv.checks import FACTORIES, hart_checks
from softcard.engine.riscv.code_stores.layout import SharedStoreRam, StoreRam
from softcard.engine.riscv.hooks import NO_CHECKS, PLAIN, HartCheck, HartChecks, Instrumentation, Machine
from softcard.engine.riscv.races.layout import MOST_HARTS
from softcard.engine.riscv.shadow_layout import ShadowedRam
from softcard.isa.riscv.state import Hart

NOTHING: Any = None


def machine(harts: int = 4, *, translates: bool = False, has_shadow_room: bool = True) -> Machine:
    def unknown(hart: Hart, address: int) -> None:
        return None

    return Machine(harts, NOTHING, unknown, unknown, unknown, tuple, translates, has_shadow_room)


@pytest.mark.parametrize("names", ["", "memory", "init", "races", "init races waits"])
def test_harts_run_as_machine_code_under_all_checks(names: str) -> None:
    made = hart_checks(names.split(), machine(translates=True), FindingLog([]))
    assert made.is_translated
    assert [each.name for each in made.every] == [name for name in FACTORIES if name in names.split()]
    assert not hart_checks(names.split(), machine(), FindingLog([])).is_translated


def test_a_check_may_need_the_reference_engine() -> None:
    log = FindingLog([])
    assert not hart_checks(["races"], machine(MOST_HARTS + 1, translates=True), log).is_translated
    assert hart_checks(["init"], machine(MOST_HARTS + 1, translates=True), log).is_translated
    assert not hart_checks(["waits"], machine(translates=True, has_shadow_room=False), log).is_translated


def test_the_names_of_checks_identify_cached_code() -> None:
    made = hart_checks(["waits", "races", "init"], machine(translates=True), FindingLog([]))
    assert made.instrumentation.names == ("shadows", "races 4")  # the engine of `waits` adds its own
    assert hart_checks(["init"], machine(), FindingLog([])).instrumentation == PLAIN


def test_memories_have_room_for_the_records_of_all_checks() -> None:
    log = FindingLog([])
    assert hart_checks(["init"], machine(translates=True), log).ram(is_shared=False) is ShadowedRam
    assert hart_checks(["init", "waits"], machine(translates=True), log).ram(is_shared=False) is StoreRam
    assert hart_checks(["waits"], machine(translates=True), log).ram(is_shared=True) is SharedStoreRam
    assert hart_checks(["waits", "races"], machine(), log).ram(is_shared=False) is None


class OneRam(Ram):
    __slots__ = ()


class OtherRam(Ram):
    __slots__ = ()


class NeedsRam(HartCheck):
    """A check that needs memories of one class."""

    def __init__(self, kind: type[Ram]) -> None:
        self.kind = kind

    def ram(self, is_shared: bool) -> type[Ram]:
        return self.kind


def test_memories_of_two_classes_do_not_exist() -> None:
    checks = HartChecks(NeedsRam(OneRam), NeedsRam(OtherRam))
    with pytest.raises(ModelBug, match=r"no class of memories is a subclass of \['OneRam', 'OtherRam'\]"):
        checks.ram(is_shared=False)


def test_parts_exist_once() -> None:
    races = hart_checks(["races"], machine(), FindingLog([])).every
    with pytest.raises(ModelBug, match="2 checks use the order of accesses, expected one at most"):
        HartChecks(*races, *races)
    part = Instrumentation(("one",), access_check=lambda algebra: None)
    with pytest.raises(ModelBug, match=r"checks \('one',\) and \('one',\): both define access_check, expected one"):
        Instrumentation.of((part, part))


class Calls(HartCheck):
    """A check that records its calls."""

    name = "calls"

    def __init__(self) -> None:
        self.calls: list[str] = []

    def kernel_begins(self, entry: int, arguments: int) -> None:
        self.calls.append(f"kernel {entry} {arguments}")

    def barrier_opens(self) -> None:
        self.calls.append("barrier")


def test_only_hooks_that_a_check_overrides_are_called() -> None:
    check = Calls()
    checks = HartChecks(check)
    assert (checks.at_groups, checks.observes, checks.allows_threads) == (False, False, False)
    checks.kernel_begins(16, 2)
    checks.group_begins()
    checks.barrier_opens()
    checks.kernel_ends()
    assert check.calls == ["kernel 16 2", "barrier"]
    assert checks.find(Calls) is check
    assert NO_CHECKS.find(Calls) is None
    assert (checks.starter, bool(NO_CHECKS)) == ((0, 0), False)
