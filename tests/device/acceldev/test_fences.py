"""Runs of user FENCEs, however they are executed: counters, INTR and the line are those of one by one."""

from __future__ import annotations

import threading

import pytest

from softcard.core.event import Event
from softcard.device.acceldev import registers as r
from softcard.device.acceldev.commands import Fence, Nop, RunCommand, UserCommand, words_of
from softcard.device.acceldev.events import FenceCounted, InterruptRaised, Lint
from softcard.device.acceldev.native_commands import Block
from softcard.device.acceldev.registers import Interrupt
from tests.device.acceldev.rig import ALL, CONFIGS, RAM, Machine, fill

LONG = 20
MANY = 300
ENGINES = pytest.mark.parametrize("engine", ["jit", "reference"])


def warm(machine: Machine) -> Machine:
    """Let it execute enough to use machine code, where it may."""
    machine.run(*[Nop()] * 100, context=254)
    return machine


def test_one_interrupt_stands_for_many_fences(machine: Machine) -> None:
    edges, before = machine.device.line.edges, machine.device.time
    machine.record()[128:132] = (ALL - 10).to_bytes(4, "little")
    machine.run(*[Fence()] * MANY)
    assert machine.fences() == MANY - 11
    assert machine.intr == Interrupt.USER_FENCE_WAIT
    assert machine.device.line.level
    assert machine.device.line.edges == edges + 1
    assert machine.device.time == before + MANY + 1


def test_every_fence_interrupts_if_its_handler_acknowledges(machine: Machine) -> None:
    counters: list[int] = []

    def handler(level: bool) -> None:
        if level:
            counters.append(machine.fences())
            machine.write(r.INTR, Interrupt.USER_FENCE_WAIT)

    machine.device.line.observe(handler)
    machine.run(*[Fence(), Nop()] * MANY)
    assert counters == list(range(1, MANY + 1))
    assert machine.intr == 0
    assert not machine.device.line.level


def test_disabled_fences_interrupt_when_they_are_enabled(machine: Machine) -> None:
    machine.write(r.INTR_ENABLE, ALL & ~Interrupt.USER_FENCE_WAIT)
    machine.run(*[Fence()] * MANY)
    assert not machine.device.line.level
    machine.write(r.INTR_ENABLE, Interrupt.USER_FENCE_WAIT)
    assert machine.device.line.level


def test_fences_among_other_commands(machine: Machine) -> None:
    first = machine.bound()
    commands: list[UserCommand | bytes] = [Fence(), fill(0, 0, 4, 7), Fence(), Nop(), fill(0, 4, 4, 9), Fence()]
    machine.run(*(commands * 20), fill(5, 0, 4), Fence())
    assert (machine.fences(), machine.status()) == (60, 1)
    assert machine.memory.read(first, 8) == b"\7\0\0\0\x09\0\0\0"
    assert machine.intr == Interrupt.USER_FENCE_WAIT | Interrupt.SLOT_ERROR
    assert "at user command 120" in str(machine.device.last_error)


def test_a_counter_at_an_odd_address(machine: Machine) -> None:
    machine.start(CONFIGS + 1)
    machine.run(*[Fence()] * MANY)
    assert int.from_bytes(machine.record(configs=CONFIGS + 1)[128:132], "little") == MANY


def test_a_counter_that_is_no_memory(machine: Machine) -> None:
    """Its slots are the last bytes of the memory."""
    configs = RAM + (32 << 20) - 128
    machine.start(configs - 192)
    machine.run(Nop())
    machine.run(*[Fence()] * MANY, context=1)
    assert machine.intr == Interrupt.MEM_ERROR


def test_fences_are_counted_as_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = warm(Machine(listen=False))
    machine.run(Fence())
    monkeypatch.setattr(type(machine.device.context(0)), "count_fence", lambda context: pytest.fail("one by one"))
    machine.run(*[Fence()] * MANY)
    assert machine.fences() == MANY + 1


def test_no_fence_is_lost_to_another_threads_acknowledgement() -> None:
    """After an acknowledgement either the counter holds all there is, or another interrupt comes."""
    machine = warm(Machine(execution="threaded", listen=False))
    count = 20_000
    risen = threading.Event()
    machine.device.line.observe(lambda level: risen.set() if level else None)
    table = machine.code(*[Fence()] * count)
    machine.feed(*words_of(RunCommand(context=0, table=table, offset=0, size=20 * count)))
    while machine.fences() < count:
        assert risen.wait(LONG)
        risen.clear()
        machine.write(r.INTR, ALL)
    assert machine.device.wait_idle(LONG)
    machine.device.close()


def history(engine: str) -> list[Event]:
    machine = warm(Machine(engine=engine, user_command_events=False))
    for _ in range(2):
        machine.run(*[Fence()] * MANY)
        machine.run(fill(0, 0, 4), context=3)
        machine.write(r.INTR, ALL)
        machine.record(3)[:] = bytes(192)
    assert machine.fences() == 2 * MANY
    return [event for event in machine.events if not isinstance(event, FenceCounted)]


def test_both_engines_report_the_same() -> None:
    reference = history("reference")
    assert [str(event) for event in history("jit")] == [str(event) for event in reference]
    raised = [event.coalesced for event in reference if isinstance(event, InterruptRaised) and event.interrupt == 32]
    assert raised == [False, True] * 2, "what the lint has told is not told again"
    lints = [event.check for event in reference if isinstance(event, Lint)]
    assert lints.count("interrupt-coalesced") == 2


@ENGINES
def test_what_nobody_heard_is_not_reported_later(engine: str) -> None:
    machine = warm(Machine(engine=engine, listen=False))
    machine.run(*[Fence()] * MANY)
    machine.device.probes.subscribe(machine.events.append)
    machine.run(Fence())
    assert machine.lints == []
    machine.write(r.INTR, ALL)
    machine.run(Fence(), Fence())
    assert machine.lints == ["interrupt-coalesced"]


def test_short_calls_keep_the_interpreter() -> None:
    """What lets the interpreter go and takes it back at once would keep every other thread from getting it."""
    machine = warm(Machine(listen=False))
    commands = machine.device._processor._user._machine
    assert commands.is_compiled
    calls: list[Block] = []
    free = commands._free

    def counted(block: Block) -> int:
        calls.append(block)
        return free(block)

    commands._free = counted
    machine.start(CONFIGS + 1)
    machine.run(*[Fence()] * MANY)
    assert calls == []
    machine.run(*[Nop()] * 10_000)
    assert len(calls) == 1, "a brief call that did not end early is followed by one that lets it go"
