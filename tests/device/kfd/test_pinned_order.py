"""Stores of a program to pinned memory that copy engines read, and what orders them; without ROCm."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from softcard.core.findings import Finding
from softcard.device.hsa.device import HsaDevice
from softcard.device.hsa.pm4 import Function
from softcard.device.kfd import host_races, sdma
from softcard.device.kfd.events import KernelLint
from softcard.device.kfd.host_races import MOST_BYTES, MOST_RUNS, PinnedOrder
from softcard.device.kfd.ioctls import AllocFlags
from softcard.engine.gcn.hooks import LOAD, STORE
from softcard.engine.gcn.races.watch import RaceWatch
from tests.device.kfd.rig import PAGE, eventually, program
from tests.device.kfd.test_sdma import Copies


class Waiting(Copies):
    """A copy engine that waits for a word, with pinned memory; `go` lets it go on, to its end."""

    order: PinnedOrder
    agents: list[HsaDevice]
    lints: list[KernelLint]

    def go(self) -> None:
        self.data.bytes[3 * PAGE] = 1
        eventually(lambda: int(self.read[0]) == self.shown)

    def wait(self) -> sdma.PollRegmem:
        return sdma.PollRegmem(
            function=Function.EQUAL, is_memory=1, address=self.data.address + 3 * PAGE, value=1, mask=0xFFFFFFFF
        )

    @property
    def findings(self) -> list[Finding]:
        return [each for agent in self.agents for each in agent.findings]


@pytest.fixture(params=["gfx900", "gfx803"])
def engine(request: pytest.FixtureRequest) -> Iterator[Waiting]:
    with program(request.param, check="races") as client:
        agents: list[HsaDevice] = []
        client.device.on_device = agents.append
        made = Waiting(client)
        assert client.process.host_order is not None
        made.order, made.agents, made.lints = client.process.host_order, agents, []
        client.device.probes.subscribe(
            lambda event: made.lints.append(event) if isinstance(event, KernelLint) else None
        )
        made.order.add(made.data.address, PAGE)
        yield made


def submit(engine: Waiting, *packets: sdma.CopyLinear | sdma.ConstFill) -> None:
    engine.put(engine.wait(), *packets)
    engine.order.submitted()


def test_stores_before_the_copy_has_run(engine: Waiting) -> None:
    base = engine.data.address
    submit(engine, engine.copy(base + PAGE, base + 16, 64))
    engine.data.bytes[20], engine.data.bytes[30], engine.data.bytes[100] = 1, 2, 3
    engine.go()
    (found,) = engine.findings
    assert found.message == (
        f"write of 11 bytes at {base + 20:#x} of pinned memory and a read of the same bytes by the host and a copy "
        "that it "
        "has not waited for, without a happens-before order"
    )
    assert found.suggestion == (
        "wait for the stream's work before the host's access: hipStreamSynchronize, or hipEventSynchronize for an "
        "event "
        "that was recorded after that work"
    )


def test_stores_beside_what_is_copied(engine: Waiting) -> None:
    base = engine.data.address
    submit(engine, engine.copy(base + PAGE, base + 16, 64))
    engine.data.bytes[15], engine.data.bytes[80] = 1, 2
    engine.go()
    assert not engine.findings


def test_stores_before_work_is_given_to_the_stream(engine: Waiting) -> None:
    base = engine.data.address
    engine.data.bytes[16:80] = 3
    submit(engine, engine.copy(base + PAGE, base + 16, 64))
    engine.go()
    engine.data.bytes[16:80] = 4
    engine.do(engine.copy(base + PAGE, base + 16, 64))
    engine.order.submitted()
    assert not engine.findings


def test_stores_of_the_engine_itself(engine: Waiting) -> None:
    base = engine.data.address
    engine.data.bytes[PAGE : PAGE + 64] = 7
    fill = sdma.ConstFill(fill_size=2, address=base + 64, data=0x01020304, count=engine.count(64))
    submit(engine, engine.copy(base, base + PAGE, 64), fill, engine.copy(base + 2 * PAGE, base, 128))
    engine.go()
    assert engine.data.bytes[2 * PAGE : 2 * PAGE + 66].tolist() == [7] * 64 + [4, 3]
    assert not engine.findings


def test_stores_of_a_function_that_the_stream_waits_for(engine: Waiting) -> None:
    base = engine.data.address
    submit(engine, engine.copy(base + PAGE, base, 64))
    engine.data.bytes[:64] = 5
    engine.order.accept()
    engine.go()
    assert not engine.findings


def test_memory_that_was_freed(engine: Waiting) -> None:
    base = engine.data.address
    submit(engine, engine.copy(base + PAGE, base, 64))
    engine.order.remove(base)
    engine.data.bytes[:64] = 5
    engine.go()
    assert not engine.findings


def test_memory_that_the_program_has_unmapped_is_forgotten(engine: Waiting) -> None:
    base = engine.data.address
    engine.order.add(1 << 46, PAGE)
    submit(engine, engine.copy(base + PAGE, base, 64))
    engine.data.bytes[:64] = 5
    engine.go()
    assert len(engine.findings) == 1


def test_the_latest_of_many_fills_is_found(engine: Waiting) -> None:
    base = engine.data.address
    engine.put(engine.wait())
    for turn in range(1, 21):
        engine.data.bytes[:64] = turn
        engine.put(engine.copy(base + PAGE, base, 64))
        engine.order.submitted()
    engine.go()
    (found,) = engine.findings
    assert found.count == 15, "of the 16 that are compared all but the last were overwritten"
    (lint,) = engine.lints
    assert lint.check == "host-order"
    assert lint.message == (
        "the host has changed pinned memory 16 times while earlier work of a stream waits: host stores that race with "
        "that work, and with later work that waits as long, are not found"
    )


def test_many_fills_each_of_which_is_over_before_the_next(engine: Waiting) -> None:
    base = engine.data.address
    for turn in range(1, 21):
        engine.data.bytes[:64] = turn
        engine.do(engine.copy(base + PAGE, base, 64))
        engine.order.submitted()
    assert not engine.findings
    assert not engine.lints


def test_too_many_ranges_that_change_beside_a_kernel_are_reported_once(engine: Waiting) -> None:
    (agent,) = engine.agents
    engine.order.add(engine.data.address, 2 * PAGE)
    for _ in range(2):
        submit(engine, engine.copy(engine.data.address + 2 * PAGE, engine.data.address, 4))
        for at in range(0, 24 * (MOST_RUNS + 1), 24):
            engine.data.bytes[at] += 1
        with engine.order.kernel(agent, queue=1, index=0, launch=1):
            pass
    (lint,) = engine.lints
    assert lint.message == (
        f"{MOST_RUNS + 1} ranges of pinned memory at {engine.data.address:#x} have changed while a kernel ran, of "
        f"which up to {MOST_RUNS} are compared: findings about that memory may be missing, for this kernel and for "
        "later ones"
    )


@pytest.mark.parametrize("has_word", [True, False])
def test_a_copy_that_is_made_after_the_kernel_has_stored(
    engine: Waiting, has_word: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host waits for a word of the kernel's before it stores; the copy has the word already, so it differs in none.

    Without a word that orders them, the host's store is found all the same.
    """
    (agent,) = engine.agents
    load = SimpleNamespace(is_atomic=False, access=LOAD, pc=4)
    store = SimpleNamespace(is_atomic=True, access=STORE, pc=8)

    def accesses(races: RaceWatch, launch: int, pinned: Any, start: int, end: int) -> list[Any]:
        return [load] * (start < 64) + [store] * (has_word and end > 64)

    monkeypatch.setattr(host_races, "_accesses", accesses)
    watch, found = agent.checks.find(RaceWatch), list[Any]()
    assert watch is not None
    monkeypatch.setattr(watch, "report_unordered", lambda *arguments, is_exact: found.append(arguments))
    with engine.order.kernel(agent, queue=1, index=0, launch=1):
        engine.data.bytes[64] = has_word
        submit(engine, engine.copy(engine.data.address + 2 * PAGE, engine.data.address + PAGE, 4))
        engine.data.bytes[:16] = 9
    assert found == ([] if has_word else [(STORE, load)])


def test_too_much_pinned_memory_is_reported_once() -> None:
    with program(check="races") as client:
        lints: list[KernelLint] = []
        client.device.probes.subscribe(lambda event: lints.append(event) if isinstance(event, KernelLint) else None)
        assert client.process.host_order is not None
        for turn in range(2):
            client.process.host_order.add(PAGE * (1 + turn), MOST_BYTES + 1)
        (lint,) = lints
        assert lint.check == "host-order"
        assert lint.message == (
            f"the program has {MOST_BYTES + 1} bytes of pinned memory, but the check finds racing host stores only in "
            f"{MOST_BYTES} bytes: stores from {PAGE:#x} on are not checked, and stores to memory that is pinned "
            "later may not be checked"
        )


def test_without_the_check_nothing_is_compared() -> None:
    with program(check="memory") as client:
        assert client.process.host_order is None
        assert client.device.host_order(client.number) is None
        assert client.device.host_order(client.number + 1) is None


def test_what_agents_see_elsewhere() -> None:
    with program() as client:
        pages = client.own(2 * PAGE)
        there = 0x7E00_0000_0000
        client.map(client.allocate(there, 2 * PAGE, AllocFlags.USERPTR, pages.address).handle)
        seen = client.process.allocations.seen_at
        assert seen(pages.address + 8, 16) == [(there + 8, pages.address + 8, 16)]
        assert seen(pages.address + PAGE, 4 * PAGE) == [(there + PAGE, pages.address + PAGE, PAGE)]
        assert not seen(pages.address - PAGE, PAGE)


def test_accesses_to_what_a_copy_that_has_not_begun_writes(engine: Waiting) -> None:
    base = engine.data.address
    submit(engine, engine.copy(base, base + PAGE, 64))
    engine.order.touched(base + 20, is_store=False)
    engine.order.touched(base + 64, is_store=False)
    engine.order.touched(base + PAGE + 8, is_store=False)
    engine.go()
    (found,) = engine.findings
    assert (found.name, found.unit, found.address) == ("races/write-read", "the host", base + 20)
    assert found.message == (
        f"read at {base + 20:#x} of pinned memory and a write of the same bytes by the host and a copy that it has not "
        "waited for, without a happens-before order"
    )


def test_stores_to_what_a_copy_that_has_not_begun_accesses(engine: Waiting) -> None:
    base = engine.data.address
    submit(engine, engine.copy(base, base + PAGE, 64))
    engine.order.touched(base + 20, is_store=True)
    engine.order.touched(base + PAGE + 8, is_store=True)
    engine.go()
    assert [(each.kind, each.address) for each in engine.findings] == [
        ("write-write", base + 20), ("read-write", base + PAGE + 8),
    ]  # fmt: skip
    assert "of device memory" in engine.findings[1].message


def test_accesses_while_nothing_is_left_to_run(engine: Waiting) -> None:
    base = engine.data.address
    engine.do(engine.copy(base, base + PAGE, 64))
    assert not engine.order.submitted()
    engine.order.touched(base + 20, is_store=True)
    submit(engine, engine.copy(base, base + PAGE, 64))
    engine.go()
    assert not engine.findings


def test_accesses_before_a_function_that_the_stream_waits_for(engine: Waiting) -> None:
    base = engine.data.address
    submit(engine, engine.copy(base, base + PAGE, 64))
    engine.order.touched(base + 20, is_store=False)
    engine.order.accept()
    engine.go()
    assert not engine.findings


def test_a_copy_is_held_against_accesses_once(engine: Waiting) -> None:
    base = engine.data.address
    submit(engine, engine.copy(base, base + PAGE, 64))
    engine.order.touched(base + 20, is_store=False)
    engine.go()
    engine.do(engine.copy(base, base + PAGE, 64))
    (found,) = engine.findings
    assert found.count == 1


@pytest.mark.parametrize(("is_store", "is_word"), [(False, True), (False, False), (True, True)])
def test_a_word_that_a_kernel_stores_after_the_host_has_begun_to_wait_for_it(is_store: bool, is_word: bool) -> None:
    """All lanes store it, so that the store is not known to be atomic; the host's load is no race, but its store is."""
    accesses, found = host_races.HostAccesses(lambda: {1: (0, 1)}, lambda reason: None), list[Any]()
    store = SimpleNamespace(launch=5, access=STORE, is_atomic=False, is_word=is_word, pc=4)
    tracker: Any = SimpleNamespace(
        unordered=lambda kind, address, size: [store],
        report_unordered=lambda kind, other, is_exact: found.append((kind, other)),
    )
    accesses.touched([0x1000], is_store=is_store, is_compared=True)
    assert accesses.begin(1, 0)
    accesses.end(tracker, 1, 0, 5)
    kind = STORE if is_store else LOAD
    assert found == ([] if is_word and not is_store else [(kind, store)])


def test_a_system_that_does_not_show_accesses_is_reported_once(engine: Waiting) -> None:
    for _ in range(2):
        engine.order.refused("no userfaultfd")
    (lint,) = engine.lints
    assert lint.message == ("host accesses to memory that kernels and copies write are not all checked: no userfaultfd")
