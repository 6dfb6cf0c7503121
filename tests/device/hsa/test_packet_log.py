"""Who takes events later hears the same as who takes them at once, though machine code processes the packets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from softcard.core.event import Event
from softcard.core.lint import Lint
from softcard.device.hsa import packet_log
from softcard.device.hsa.events import DoorbellRung, PacketCompleted, PacketStarted, QueueErrored, SignalChanged
from softcard.device.hsa.native_packets import consume
from tests.device.hsa.rig import COUNT, Bench, barrier, dispatch

Make = Callable[..., Bench]
FAULT = "v_mov_b32 v0, 0\nv_mov_b32 v1, 0\nflat_store_dword v[0:1], v0\ns_endpgm"


def plain(event: Event) -> Event:
    """An event without the identity of its error."""
    return replace(event, error=str(event.error)) if isinstance(event, QueueErrored) else event  # type: ignore[arg-type]


def heard(bench: Make, later: bool, machine_code: str, script: Callable[[Bench], None], **options: Any) -> list[Event]:
    rig = bench(machine_code=bool(machine_code), lints="off", profiling=True, **options)
    if machine_code == "as Python":
        rig.queue.templates._consume = consume
    events: list[Event] = []
    rig.device.probes.subscribe(events.append, later=later)
    script(rig)
    return [plain(event) for event in events]


def mixed(rig: Bench) -> None:
    """Kernels that repeat, with and without signals, with a mailbox, odd packets, packets of other kinds, a fault."""
    kernel, bad = rig.kernel(COUNT), rig.kernel(FAULT)
    address, _ = rig.words()
    done, reported = rig.device.create_signal(100), rig.device.create_signal(100, mailbox=rig.words()[0], event_id=7)
    for number in range(40):
        signal = (done, None, reported)[number % 3]
        packet = dispatch(kernel, address, signal, workgroup_size_x=1 + 63 * (number % 2), grid_size_x=64)
        rig.queue.submit(*[packet] * (1 + number % 4))
    rig.queue.submit(barrier(signal=done), dispatch(kernel, address, done, acquire_scope=3))
    odd = bytearray(dispatch(kernel, address, done))
    odd[48] = 1
    rig.queue.submit(bytes(odd), bytes(odd), dispatch(kernel, address, done))
    rig.queue.submit(dispatch(kernel, address, done), dispatch(bad, address, done), dispatch(kernel, address, done))


@pytest.mark.parametrize("machine_code", ["compiled", "as Python", ""])
@pytest.mark.parametrize("model", ["large", "small"])
def test_later_is_the_same(bench: Make, model: str, machine_code: str) -> None:
    at_once = heard(bench, False, "", mixed, machine_model=model)
    assert heard(bench, True, machine_code, mixed, machine_model=model) == at_once
    assert heard(bench, False, machine_code, mixed, machine_model=model) == at_once
    kinds = {type(event) for event in at_once}
    assert {DoorbellRung, PacketStarted, PacketCompleted, SignalChanged, QueueErrored, Lint} <= kinds
    assert {event.check for event in at_once if isinstance(event, Lint)} == {"fence-scope", "reserved"}


def test_more_packets_than_the_log_has_rows(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def many(rig: Bench) -> None:
        kernel, (address, _), done = rig.kernel(COUNT), rig.words(), rig.device.create_signal(1000)
        for _ in range(3):
            rig.queue.submit(dispatch(kernel, address, done))
        rig.queue.submit(*[dispatch(kernel, address, done)] * 60)

    rows: list[int] = []
    report = packet_log.PacketLog.emit

    def counted(self: packet_log.PacketLog, queue: int, count: int) -> None:
        rows.append(count)
        report(self, queue, count)

    at_once = heard(bench, False, "", many)
    monkeypatch.setattr(packet_log.PacketLog, "emit", counted)
    assert heard(bench, True, "compiled", many) == at_once
    assert sum(rows) >= 60, "machine code did them"
    monkeypatch.setattr("softcard.device.hsa.processor.ROWS", 7)
    monkeypatch.setattr(packet_log, "CACHED_PACKETS", 1)
    assert heard(bench, True, "compiled", many) == at_once


def test_who_listens_to_something_else_costs_nothing(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events of packets that nobody wants are not made."""
    monkeypatch.setattr(packet_log, "PacketCompleted", None)
    rig, rung = bench(), []
    rig.device.probes.subscribe(rung.append, DoorbellRung)
    kernel, (address, words) = rig.kernel(COUNT), rig.words()
    for _ in range(8):
        rig.queue.submit(dispatch(kernel, address))
    assert (len(rung), words[0]) == (8, 8)


def test_a_listener_that_raises_ends_the_call(bench: Make) -> None:
    """The packets are done, and those behind them go on."""
    rig, heard_of = bench(), []

    def listen(event: Event) -> None:
        heard_of.append(event)
        if isinstance(event, PacketCompleted) and event.index == 5:
            raise KeyError("listener")

    kernel, (address, words) = rig.kernel(COUNT), rig.words()
    for _ in range(4):
        rig.queue.submit(dispatch(kernel, address))
    rig.device.probes.subscribe(listen, later=True)
    with pytest.raises(KeyError, match="listener"):
        rig.queue.submit(*[dispatch(kernel, address)] * 4)
    rig.queue.submit(dispatch(kernel, address))
    assert words[0] == 9
    assert rig.queue.progress.packets == 9
