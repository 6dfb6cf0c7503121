"""Checks of one's own: a class with some hooks, and its name in the registry. No engine, device or host knows it.

One is of waves, and one of harts; both may have the same name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from softcard.amdcl2 import load
from softcard.core.checks import CHECKS, checks_of
from softcard.core.errors import BeyondModel, ModelBug, WireError
from softcard.core.findings import Finding, FindingLog, Level
from softcard.engine.gcn.api import Dispatch
from softcard.engine.gcn.checks.registry import FACTORIES, Request, gcn_checks, register
from softcard.engine.gcn.hooks import NO_CHECKS, STORE, Check, Checks, Observer
from softcard.engine.gcn.instrumentation import HookPoints
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.engine.riscv.checks import Request as HartRequest
from softcard.engine.riscv.checks import register as register_hart_check
from softcard.engine.riscv.hooks import HartCheck, Outstanding
from softcard.host.amdcl2.demo import demo_program
from softcard.host.hsa.gpu import Gpu, demo_code
from softcard.host.refsi.refsi import RefSi, demo_kernels
from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.state import Hart
from tests.engine.gcn.programs import dwords, program

NAME = "counts"


class Counts(Check):
    """Reports, for each launch, how many stores its waves have made, and how often they have come to a barrier."""

    name = NAME

    def __init__(self, log: FindingLog) -> None:
        self.log = log
        self.stores = self.arrivals = 0

    @property
    def points(self) -> HookPoints:
        """Translated code leaves accesses and barriers to the reference engine."""
        return HookPoints(accesses=True, barriers=True)

    def launch_begins(self, dispatch: Dispatch) -> None:
        """Begin to count."""
        self.stores = self.arrivals = 0

    def observer(self, dispatch: Dispatch, accesses: Any) -> Observer:
        """Return what counts."""
        return Counting(self)

    def launch_ends(self, dispatch: Dispatch) -> None:
        """Report."""
        self.log.note(Finding(NAME, f"{self.stores}-{self.arrivals}", "stores and arrivals", Level.NOTE))


class Counting(Observer):
    """Counts for a check."""

    def __init__(self, counts: Counts) -> None:
        self.counts = counts

    def access(self, access: str, space: str, bits: int, address: Any, where: Any, values: Sequence[Any]) -> None:
        """Count stores."""
        self.counts.stores += access == STORE

    def barrier(self) -> None:
        """Count waves that come to a barrier."""
        self.counts.arrivals += 1


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    remove = register(NAME, "how many stores a launch makes", lambda request: Counts(request.log))
    yield
    remove()
    assert NAME not in CHECKS


def kinds(findings: Sequence[Any]) -> list[str]:
    return [each.kind for each in findings if each.check == NAME]


LOOP = "s_mov_b32 s4, 0x200000|s_mov_b32 s5, 0|v_mov_b32 v4, s4|v_mov_b32 v5, s5|v_lshlrev_b32 v6, 2, v0|"
LOOP += "v_add_u32 v4, vcc, v4, v6|s_movk_i32 s6, 3|again:|"
LOOP += "flat_store_dword v[4:5], v0|s_waitcnt vmcnt(0)|s_barrier|flat_load_dword v7, v[4:5]|s_waitcnt vmcnt(0)|"
LOOP += "s_sub_u32 s6, s6, 1|s_cmp_lg_u32 s6, 0|s_cbranch_scc1 again|s_endpgm"
"""Three times around: a store, a barrier, a load."""


@pytest.mark.parametrize("engine", [ReferenceEngine, JitEngine])
@pytest.mark.parametrize("others", ["", "init", "races", "init,races,lanes,sync,waits"])
def test_it_is_called_by_either_engine_also_among_others(engine: type[Any], others: str) -> None:
    plain = program(LOOP, "gfx803", groups=[(n, 0, 0) for n in range(2)], size=(128, 1, 1))
    ReferenceEngine().run(plain)
    made = program(LOOP, "gfx803", groups=[(n, 0, 0) for n in range(2)], size=(128, 1, 1))
    checks = gcn_checks(checks_of(f"{NAME},{others}"), made.memory, FindingLog(found := list[Finding]()))
    runs = engine()
    for _ in range(3):
        if checks.tracker is not None:
            checks.tracker.begin()
        checks.run(replace(made, checks=checks), runs)
    assert kinds(found) == ["12-12"]  # 2 groups of 2 waves, three times around; the same place is one finding
    assert next(each for each in found if each.check == NAME).count == 3
    assert dwords(made, 128) == dwords(plain, 128)


@pytest.mark.parametrize("engine", ["reference", "jit"])
def test_it_has_a_name_for_hosts(engine: str) -> None:
    """Each launch is counted anew, also by a queue whose packets machine code could process."""
    with Gpu.open("gfx900", engine=engine, check=NAME, on_finding="keep") as gpu:
        x, y = gpu.array(np.arange(256, dtype=np.float32)), gpu.zeros(256)
        kernel = gpu.load(demo_code("gfx900")).kernel("saxpy")
        for size in (64, 256):
            for _ in range(3):
                gpu.dispatch(kernel, size, 64, [2.0, x, y]).wait()
        assert kinds(gpu.findings) == ["1-0", "4-0"]
        assert [each.count for each in gpu.findings] == [3, 3]
        assert isinstance(gpu.device.checks.find(Counts), Counts)
        assert (np.asarray(y)[:64] == 12 * np.arange(64)).all()


def test_it_has_a_name_for_programs_of_the_other_host() -> None:
    with load(demo_program("tonga", 200406), check=NAME, on_finding="keep") as opened:
        assert isinstance(opened.device.checks.find(Counts), Counts)


class Lifetimes(Check):
    """Records that a device returns to an earlier state, and that it is closed."""

    name = "lifetimes"

    def __init__(self) -> None:
        self.seen: list[str] = []

    def forget(self) -> None:
        """Record."""
        self.seen.append("forget")

    def device_closes(self) -> None:
        """Record."""
        self.seen.append("close")


def test_programs_call_the_hooks_of_devices() -> None:
    """As GPUs do: at the return to an earlier state, and at the end."""
    made = Lifetimes()
    remove = register("lifetimes", "when states return and devices close", lambda request: made)
    try:
        with Gpu.open("gfx803", check="lifetimes") as gpu:
            gpu.restore(gpu.snapshot())
        with load(demo_program("tonga", 200406), check="lifetimes") as program:
            program.restore(program.snapshot())
    finally:
        remove()
    assert made.seen == ["forget", "close"] * 2


def test_all_does_not_mean_it_and_there_is_no_second_one_of_a_name() -> None:
    assert NAME not in checks_of("all")
    with pytest.raises(ModelBug, match="a check 'counts' exists already"):
        register(NAME, "once more", lambda request: None)
    with pytest.raises(WireError, match=r"unknown check 'count', expected some of .*counts"):
        Gpu.open("gfx900", check="count")


def test_every_check_has_a_factory_or_goes_with_one() -> None:
    assert set(CHECKS) - set(FACTORIES) == {"lanes"}


def test_no_checks_are_none_to_call() -> None:
    made = program(LOOP, "gfx803")
    assert gcn_checks((), made.memory, FindingLog([])) is NO_CHECKS
    assert gcn_checks({"memory"}, made.memory, FindingLog([])).every == ()
    assert not NO_CHECKS.observes
    assert not NO_CHECKS.at_launches


def test_the_order_of_launches_is_tracked_once() -> None:
    request = Request({"races"}, program(LOOP, "gfx803").memory, FindingLog([]))
    made = [check for check in (FACTORIES["races"](request), FACTORIES["races"](request)) if check is not None]
    with pytest.raises(ModelBug, match="2 checks use the order of launches, expected one at most"):
        Checks(*made)


# ---- harts -----------------------------------------------------------------------------------------------------------


class HartStores(HartCheck):
    """Reports, when the device is closed, how many stores its harts have executed."""

    name = "hart-stores"

    def __init__(self, request: HartRequest) -> None:
        self.log = request.log
        self.stores: Counter[int] = Counter()

    def instruction_begins(self, hart: Hart, pc: int, insn: Insn) -> None:
        """Count scalar stores."""
        self.stores[hart.index] += insn.name in ("sb", "sh", "sw", "sd")

    def device_closes(self) -> None:
        """Report."""
        self.log.note(Finding(self.name, str(self.stores.total()), "stores", Level.NOTE))


@pytest.fixture
def _of_harts() -> Iterator[None]:
    remove = register_hart_check(HartStores.name, "how many stores harts execute", HartStores)
    yield
    remove()
    assert HartStores.name not in CHECKS


@pytest.mark.usefixtures("_of_harts")
@pytest.mark.parametrize("engine", ["reference", "jit"])
@pytest.mark.parametrize("others", ["", "init", "races", "memory,init,races,waits"])
def test_a_check_of_harts_is_called_by_either_engine_also_among_others(engine: str, others: str) -> None:
    with RefSi.open(engine=engine, check=f"{HartStores.name},{others}", on_finding="keep") as device:
        device.load_elf(demo_kernels())
        a, b = device.array(np.arange(16, dtype=np.int32)), device.array(np.arange(16, dtype=np.int32))
        c = device.zeros(16, np.int32)
        device.launch("vector_add", 4, [a, b, c, 4])
        assert (c.array == a.array + b.array).all()
        findings = device.port.findings
        for each in (a, b, c):
            each.free()
    assert [(each.check, each.kind) for each in findings] == [(HartStores.name, "16")]


@pytest.mark.usefixtures("_of_harts")
def test_a_check_of_harts_is_one_of_devices_with_harts_only() -> None:
    assert HartStores.name not in checks_of("all")
    with pytest.raises(BeyondModel, match="the device does not support check 'hart-stores'"):
        Gpu.open("gfx900", check=HartStores.name)
    with pytest.raises(BeyondModel, match="the device does not support check 'counts'"):
        RefSi.open(check=NAME)
    with pytest.raises(ModelBug, match="a check 'hart-stores' exists already: how many stores harts execute"):
        register_hart_check(HartStores.name, "once more", HartStores)
    with pytest.raises(ModelBug, match="a check 'init' exists already"):
        register_hart_check("init", "once more", HartStores)
    with RefSi.open(check=HartStores.name, profile="refsidrv", on_finding="keep") as device:
        assert [each.name for each in device.port.checks.every] == [HartStores.name]


def test_a_check_of_waves_and_one_of_harts_may_share_a_name() -> None:
    remove = register_hart_check(NAME, "how many stores harts execute", HartStores)
    assert (CHECKS[NAME].waves, CHECKS[NAME].harts) == (True, True)
    with RefSi.open(check=NAME) as device, Gpu.open("gfx900", check=NAME) as gpu:
        assert isinstance(device.port.checks.every[0], HartStores)
        assert isinstance(gpu.device.checks.every[0], Counts)
    remove()
    assert (CHECKS[NAME].waves, CHECKS[NAME].harts) == (True, False)


class HartKernels(HartCheck):
    """Reports how many groups and instances each kernel command has."""

    name = HartStores.name

    def __init__(self, request: HartRequest) -> None:
        self.log = request.log
        self.groups = self.instances = 0

    def kernel_begins(self, entry: int, arguments: int) -> None:
        """Begin to count."""
        self.groups = self.instances = 0

    def group_begins(self, outstanding: Iterable[Outstanding] = ()) -> None:
        """Count groups."""
        self.groups += 1

    def instance_begins(self, hart: Hart, arguments: int) -> None:
        """Count instances."""
        self.instances += 1

    def kernel_ends(self) -> None:
        """Report."""
        self.log.note(Finding(self.name, f"{self.groups}-{self.instances}", "groups and instances", Level.NOTE))


def test_a_check_of_harts_follows_kernels() -> None:
    remove = register_hart_check(HartKernels.name, "how many groups kernels have", HartKernels)
    with RefSi.open(check=HartKernels.name, on_finding="keep") as device:
        device.load_elf(demo_kernels())
        a, b, c = (device.array(np.arange(64, dtype=np.int32)) for _ in range(3))
        for instances in (4, 16):
            device.launch("vector_add", instances, [a, b, c, 64 // instances])
        assert (c.array == a.array + b.array).all()
        width = device.port.cores * device.port.harts_per_core
        assert [each.kind for each in device.port.findings] == [f"{-(-n // width)}-{n}" for n in (4, 16)]
    remove()
