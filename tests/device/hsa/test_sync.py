"""check="sync": hosts and packets that wait for what never comes, and fences that headers of packets lack."""

from __future__ import annotations

import pytest

from softcard.core.errors import BeyondModel, RuleError
from softcard.core.findings import Finding, FindingError
from softcard.device.hsa.queues.packets import BarrierValuePacket, PacketType
from softcard.device.hsa.queues.signals import Condition, Signal
from tests.device.hsa.rig import Bench, barrier, dispatch
from tests.device.hsa.test_fences import AGENT, LOAD, NONE, STORE, Strict


def found(rig: Bench) -> list[tuple[str, str, str]]:
    """Kind, message and other place of all findings."""
    assert all(isinstance(each, Finding) for each in rig.device.findings)
    return [(each.kind, each.message, each.other) for each in rig.device.findings if isinstance(each, Finding)]


def wait(signal: Signal) -> None:
    """Wait for it in vain."""
    with pytest.raises(RuleError, match="will never be EQ 0: no queue has work left that could change the signal"):
        signal.wait(Condition.EQ, 0)


# ---- signals -------------------------------------------------------------------------------------------------------


def test_a_signal_that_no_packet_completes() -> None:
    rig = Bench(check="sync")
    done = rig.device.create_signal(1)
    rig.queue.submit(dispatch(rig.kernel()))
    wait(done)
    message = f"the host waits for signal {done.address:#x}, which no pending work changes"
    assert found(rig) == [("signal-never-changes", message, "")]
    rig.queue.submit(dispatch(rig.kernel(), signal=done))
    done.wait(Condition.EQ, 0)
    wait(rig.device.create_signal(1))
    rig.device.close()
    assert [kind for kind, *_ in found(rig)] == ["signal-never-changes"] * 2


def test_a_count_that_is_one_too_high() -> None:
    """Two packets count down what was set to three."""
    for start, count in ((3, 1), (2, 0)):
        rig = Bench(check="sync")
        done = rig.device.create_signal(start)
        rig.queue.submit(*[dispatch(rig.kernel(), signal=done)] * 2)
        if count:
            wait(done)
        else:
            done.wait(Condition.EQ, 0)
        assert len(found(rig)) == count


def test_a_signal_behind_a_packet_that_waits() -> None:
    rig = Bench(check="sync")
    done, gate = rig.device.create_signal(1), rig.device.create_signal(4)
    other = rig.new_queue()
    other.submit(barrier(rig.device.create_signal(1)))
    rig.queue.submit(barrier(gate, signal=done))
    wait(done)
    [(kind, _, place)] = found(rig)
    assert kind == "signal-never-changes"
    assert place == f"queue 0 packet 0, which waits for signal {gate.address:#x}, which is 4"


def test_a_failed_queue_is_no_finding() -> None:
    rig = Bench(check="sync")
    done = rig.device.create_signal(1)
    rig.queue.submit(barrier(0x1000, signal=done))
    with pytest.raises(RuleError):
        done.wait(Condition.EQ, 0)
    rig.device.close()
    assert found(rig) == []


def test_the_first_finding_is_raised_where_that_is_asked_for() -> None:
    rig = Bench(check="sync", on_finding="raise")
    with pytest.raises(FindingError, match="sync/signal-never-changes: the host waits for signal"):
        rig.device.create_signal(1).wait(Condition.EQ, 0)


# ---- packets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [PacketType.BARRIER_AND, PacketType.BARRIER_OR, PacketType.VENDOR_SPECIFIC])
def test_a_packet_that_waits_at_the_end(kind: PacketType) -> None:
    for opened in (False, True):
        rig = Bench(check="sync")
        gate, ready = rig.device.create_signal(1), rig.device.create_signal(0)
        packet = barrier(*([gate] if kind == PacketType.BARRIER_OR else [ready, gate]), kind=kind)
        if kind == PacketType.VENDOR_SPECIFIC:
            packet = BarrierValuePacket(signal=gate.address, value=0, condition=Condition.EQ).pack()
        rig.queue.submit(packet)
        if opened:
            gate.store(0)
        rig.device.close()
        text = f"queue 0 packet 0 still waits for signal {gate.address:#x}, which is 1 when the device is closed"
        assert found(rig) == ([] if opened else [("packet-never-runs", text, "")])
        rules = {PacketType.BARRIER_AND: "and", PacketType.BARRIER_OR: "or", PacketType.VENDOR_SPECIFIC: "value"}
        assert all(each.rule and each.rule.id == f"hsa/barrier-{rules[kind]}" for each in rig.device.findings)


def test_queues_that_wait_for_each_other() -> None:
    rig = Bench(check="sync")
    first, second = rig.device.create_signal(1), rig.device.create_signal(1)
    other = rig.new_queue()
    rig.queue.submit(barrier(first, signal=second))
    other.submit(barrier(second, signal=first))
    rig.device.close()
    assert [(kind, place) for kind, _, place in found(rig)] == [
        ("packet-never-runs", "queue 1, whose packet would change the signal, but waits as well"),
        ("packet-never-runs", "queue 0, whose packet would change the signal, but waits as well"),
    ]


# ---- fences --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", [NONE, AGENT])
def test_fences_that_headers_lack(scope: int) -> None:
    rig = Strict(check="sync")
    rig.packet(STORE, release=scope)
    [each] = rig.device.findings
    assert isinstance(each, Finding)
    assert (each.kind, each.insn) == ("missing-release", "global_store_dword v[0:1], v2, off")
    assert f"queue 0 packet 0 released at scope {scope.name.lower()}" in each.message
    rig = Strict(check="sync")
    rig.packet(LOAD)
    rig.seen[0] = 5
    rig.packet(LOAD, acquire=scope)
    [each] = rig.device.findings
    assert isinstance(each, Finding)
    assert (each.kind, each.insn) == ("missing-acquire", "global_load_dword v2, v[0:1], off")
    assert each.rule is not None
    assert each.rule.id == "hsa/fence-scopes"
    assert each.suggestion.startswith("an acquire fence in the header of the packet that loads")


def test_fences_that_are_there() -> None:
    rig = Strict(check="sync")
    rig.packet(LOAD)
    rig.seen[0] = 5
    rig.packet(STORE)
    rig.packet(LOAD)
    rig.device.close()
    assert rig.device.findings == []
    assert rig.seen[256] == 7


def test_a_strict_memory_has_no_other_check() -> None:
    with pytest.raises(
        BeyondModel, match="check 'sync,memory' cannot be used with coherence 'strict': set only one of the two"
    ):
        Strict(check="sync,memory")
