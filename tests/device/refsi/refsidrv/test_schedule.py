"""How the profile refsidrv runs kernels: groups, turns, traps, and the fault that outlives its command."""

from __future__ import annotations

import pytest

from softcard.core.errors import WireError
from softcard.core.limits import TimeLimit
from softcard.device.refsi.accelerator import KernelExit, StepLimit
from softcard.device.refsi.commands import CopyMem64
from softcard.device.refsi.events import (
    BarrierReached,
    ConsoleOutput,
    Diagnostic,
    HartFault,
    InstanceEnded,
    InstanceStarted,
    KernelLaunch,
)
from softcard.device.refsi.refsidrv.devices import ReferenceCrash
from softcard.device.refsi.refsidrv.schedule import fault_text
from tests.device.refsi.m1 import FLAG, OUT, RETURN, Bench, entry, flag

WEDGED = "an exception of an earlier kernel is still set: open the device anew"


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize(
    ("cause", "line"),
    [
        (1, "error: 'Instruction Access Fault' exception was raised @ 0x10"),
        (2, "error: 'Illegal Instruction' exception was raised @ 0x10"),
        (3, "error: unknown exception was raised @ 0x10 (cause = 3)"),
        (4, "error: 'Misaligned Load' exception was raised @ 0x10 (badaddr = 0x20)"),
        (5, "error: 'Load Access Fault' exception was raised @ 0x10 (badaddr = 0x20)"),
        (6, "error: 'Misaligned Store' exception was raised @ 0x10 (badaddr = 0x20)"),
        (7, "error: 'Store/AMO Access Fault' exception was raised @ 0x10 (badaddr = 0x20)"),
        (11, "error: unknown exception was raised @ 0x10 (cause = b)"),
    ],
)
def test_fault_text(cause: int, line: str) -> None:
    assert fault_text(cause, 0x10, 0x20) == line


def test_groups_of_max_harts(bench: Bench) -> None:
    assert bench.run(*bench.kernel("k_dump", OUT, instances=5, harts=2)).ok
    assert [bench.r64(OUT + 0x400 * k + 0x100)[0] for k in range(5)] == [0, 1, 0, 1, 0]
    starts = [(event.hart, event.instance) for event in bench.seen(InstanceStarted)]
    assert starts == [(0, 0), (1, 1), (0, 2), (1, 3), (0, 4)]
    assert [event.how for event in bench.seen(InstanceEnded)] == ["return"] * 5
    (launch,) = bench.seen(KernelLaunch)
    assert (launch.entry, launch.instances, launch.harts) == (entry("k_dump"), 5, 2)


def test_registers_that_a_command_does_not_set_stay(bench: Bench) -> None:
    assert bench.run(*bench.kernel("k_dump", OUT), *bench.kernel("k_dump", OUT)).ok
    registers = bench.r64(OUT, 32)
    assert (registers[3], registers[21], registers[31]) == (0x3333, 0x5555, 0x7777), "gp, s5, t6 of the first run"


def test_harts_take_turns_of_5000(bench: Bench) -> None:
    """Every turn a hart bumps a shared word and then spins; what hart 1 sees tells how long hart 0's turn was."""
    spin = bench.code(
        """
        slli t0, a0, 3
        add t0, t0, a1
        loop: ld t1, 64(a1)
        addi t1, t1, 1
        sd t1, 64(a1)
        sd t1, 0(t0)
        addi a2, a2, -1
        bne a2, zero, loop
        jalr zero, 0(ra)
        """
    )
    assert bench.run(*bench.kernel(spin, OUT, 1000, instances=2)).ok
    # Hart 0 retires 2 + 6 * 833 = 5000 instructions in its first turn: 833 rounds, none cut.
    # Hart 1 then does 833, hart 0 its last 167, hart 1 its last 167.
    assert bench.r64(OUT, 2) == [2 * 833 + 167, 2000]


def test_return_address_needs_no_memory_but_is_fetched_from(bench: Bench) -> None:
    assert bench.run(*bench.kernel("k_dump", OUT, back=0xDEAD0000), *bench.kernel("k_dump", OUT)).ok
    assert bench.r64(OUT + 264)[0] == 0x8000_000A_0000_7E00, "the fetch trapped: mstatus.MPP is M"
    other = Bench()
    assert other.run(*other.kernel("k_dump", OUT), *other.kernel("k_dump", OUT)).ok
    assert other.r64(OUT + 264)[0] == 0x8000_000A_0000_6600


def test_a_fault_ends_the_buffer_and_wedges_the_hart(bench: Bench) -> None:
    status = bench.run(*bench.kernel("k_illegal"), flag())
    assert not status.ok
    assert (status.command, status.opcode, status.chunk, status.offset) == (3, "RUN_INSTANCES", 6, 0x30)
    assert (status.hart, status.pc, status.instance) == (0, entry("k_illegal"), 0)
    assert str(status.error).startswith("illegal instruction 0x0000")
    assert "at pc 0x10294, at hart 0, at instance 0, at command 3 (RUN_INSTANCES), at byte 0x30" in str(status.error)
    again = bench.run(*bench.kernel("k_dump", OUT), flag())
    assert WEDGED in str(again.error)
    assert bench.r64(OUT + 8)[0] == RETURN, "the kernel did run its first turn"
    assert bench.r64(FLAG) == [0]
    assert bench.run(*bench.kernel("k_empty", instances=2, harts=1)).error is not None
    texts = [event.text for event in bench.seen(HartFault)]
    assert texts == ["error: 'Illegal Instruction' exception was raised @ 0x10294"] * 3


def test_other_harts_are_not_wedged(bench: Bench) -> None:
    assert not bench.run(*bench.kernel("k_fault_if1", OUT, instances=8)).ok
    assert bench.run(*bench.kernel("k_empty", harts=1)).ok
    assert not bench.run(*bench.kernel("k_empty", instances=2, harts=2)).ok


def test_exit_codes(bench: Bench) -> None:
    assert bench.run(*bench.kernel("k_exit0", instances=6)).ok
    status = bench.run(*bench.kernel("k_exit5"), flag())
    assert isinstance(status.error, KernelExit)
    assert "the kernel exited with code 0x5" in str(status.error)
    assert bench.run(*bench.kernel("k_empty"), flag()).ok, "an exit does not wedge"
    exit_ = bench.code("addi a0, zero, 1; slli a0, a0, 32; addi a7, zero, 0; ecall")
    assert bench.run(*bench.kernel(exit_)).ok, "only 32 bits of the code count"


def test_a_kernel_that_writes_mcause(bench: Bench) -> None:
    status = bench.run(*bench.kernel("k_csrw_mcause"))
    assert "(the kernel itself wrote mcause)" in str(status.error)


def test_unknown_host_call(bench: Bench) -> None:
    status = bench.run(*bench.kernel("k_badecall"))
    assert "ecall has a7 = 0x63, expected 0 (EXIT), 1 (PUTSTRING) or 2 (BARRIER)" in str(status.error)


def test_user_mode_stays(bench: Bench) -> None:
    assert bench.run(*bench.kernel("k_umode", RETURN)).ok
    status = bench.run(*bench.kernel("k_dump", OUT))
    assert (status.pc, bench.seen(HartFault)[0].text) == (
        0x101E0,
        "error: 'Illegal Instruction' exception was raised @ 0x101e0",
    )


# ---- host calls


def test_putstring(bench: Bench) -> None:
    bench.device.write(0x50020000, b"hello\n\0")
    assert bench.run(*bench.kernel("k_puts", 0x50020000, instances=2)).ok
    assert [(event.hart, event.data) for event in bench.seen(ConsoleOutput)] == [(0, b"hello\n"), (1, b"hello\n")]
    status = bench.run(*bench.kernel("k_puts", 0x8))
    assert "PUTSTRING cannot read the string at 0x8" in str(status.error)
    assert bench.seen(HartFault)[0].text == "error: unknown exception was raised @ 0x102fc (cause = b)"


def test_barriers(bench: Bench) -> None:
    assert bench.run(*bench.kernel("k_barrier", OUT, instances=3)).ok
    assert bench.r64(OUT, 12) == [1, 1, 1, 0, 0, 0, 0, 0, 3, 3, 3, 0]
    assert [(event.hart, event.link) for event in bench.seen(BarrierReached)] == [(0, RETURN), (1, RETURN), (2, RETURN)]


def test_different_barriers(bench: Bench) -> None:
    different = bench.code("addi a7, zero, 2; ecall; jalr zero, 0(ra)")
    status = bench.run(*bench.kernel(different, instances=2))
    assert "harts wait at different barriers, or some at none (hart 0: 0x0, hart 1: 0x1)" in str(status.error)
    assert bench.seen(Diagnostic)[0].text == "error: all threads must hit the same barrier"
    assert not bench.run(*bench.kernel("k_empty", instances=2)).ok, "hart 1 is wedged"


def test_a_hart_that_ends_before_the_others_wait(bench: Bench) -> None:
    assert not bench.run(*bench.kernel("k_barrier_early", instances=4)).ok


def test_a_hart_that_ends_after_the_others_wait(bench: Bench) -> None:
    assert bench.run(*bench.kernel("k_barrier_skip", OUT, instances=4)).ok
    assert bench.r64(OUT, 4) == [1, 0, 0, 0], "the others never go on"


# ---- limits


@pytest.mark.parametrize("harts", [5, 8, 255])
@pytest.mark.parametrize("instances", [0, 5])
def test_too_many_harts_would_crash_the_reference(bench: Bench, harts: int, instances: int) -> None:
    status = bench.run(*bench.kernel("k_empty", instances=instances, harts=harts), flag())
    assert isinstance(status.error, ReferenceCrash)
    assert f"MAX_HARTS is {harts}, but the device has 4 harts: the reference driver uses a null pointer" in str(
        status.error
    )
    assert bench.run(flag()).ok


@pytest.mark.parametrize("profile", ["refsidrv", "spec"])
def test_step_limit(profile: str) -> None:
    bench = Bench(profile, step_limit=20_000)
    status = bench.run(*bench.kernel("k_spin"), flag())
    assert isinstance(status.error, StepLimit)
    assert "the kernel command has not ended after 20000 instructions" in str(status.error)
    assert (status.hart, status.pc, status.instance) == (0, entry("k_spin"), 0)
    assert 20_000 <= status.steps <= 30_000
    assert bench.run(*bench.kernel("k_empty"), flag()).ok


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("engine", ["jit", "reference"])
@pytest.mark.parametrize("profile", ["refsidrv", "spec"])
def test_time_limit(profile: str, engine: str, threads: int) -> None:
    bench = Bench(profile, engine=engine, threads=threads, time_limit_seconds=0.8)
    status = bench.run(*bench.kernel("k_spin", instances=4, harts=4), flag())
    assert isinstance(status.error, TimeLimit)
    assert "did not end within 0.8 s (time_limit_seconds; step_limit is None): the hart has retired" in str(
        status.error
    )
    kinds = [place.kind for place in status.error.path]
    assert kinds.count("pc") == kinds.count("hart") == 1
    assert bench.run(*bench.kernel("k_empty"), flag()).ok


@pytest.mark.parametrize(("engine", "threads"), [("reference", 1), ("jit", 1), ("jit", 2)])
@pytest.mark.parametrize("harts", [1, 4])
@pytest.mark.parametrize("profile", ["refsidrv", "spec"])
def test_time_limits_hold_for_as_many_instances_as_there_can_be(
    profile: str, harts: int, engine: str, threads: int
) -> None:
    """NUM_INSTANCES has 64 bits; behind the command that the limit ended the device goes on."""
    bench = Bench(profile, engine=engine, threads=threads, time_limit_seconds=0.8)
    status = bench.run(*bench.kernel("k_empty", instances=(1 << 64) - 1, harts=harts), flag())
    assert isinstance(status.error, TimeLimit)
    assert "did not end within 0.8 s (time_limit_seconds" in str(status.error)
    assert bench.run(*bench.kernel("k_empty"), flag()).ok


@pytest.mark.parametrize("engine", ["reference", "jit"])
def test_step_limits_hold_for_as_many_instances_as_there_can_be(engine: str) -> None:
    bench = Bench(engine=engine, step_limit=5000)
    status = bench.run(*bench.kernel("k_empty", instances=(1 << 64) - 1), flag())
    assert isinstance(status.error, StepLimit)


def test_time_limits_are_checked() -> None:
    with pytest.raises(WireError, match="time_limit_seconds is 0, expected a number of seconds above 0, or None"):
        Bench(time_limit_seconds=0)


def test_traps_that_never_retire_anything_end_at_the_limit_too() -> None:
    """A supervisor whose handler for breakpoints is a breakpoint."""
    bench = Bench(step_limit=1000)
    loop = bench.code(
        """
        addi t0, zero, 8
        csrrs zero, medeleg, t0
        auipc t1, 0
        addi t1, t1, 32
        csrrw zero, stvec, t1
        csrrw zero, mepc, t1
        addi t2, zero, 1
        slli t2, t2, 11
        csrrs zero, mstatus, t2
        mret
        ebreak
        """
    )
    status = bench.run(*bench.kernel(loop))
    assert isinstance(status.error, StepLimit)
    assert status.pc == loop + 40
    assert status.steps == 10


def test_instances_zero_runs_nothing(bench: Bench) -> None:
    assert bench.run(*bench.kernel("k_illegal", instances=0), flag()).ok
    assert bench.r64(FLAG) == [1]


def test_counters_of_inactive_harts_read_zero(bench: Bench) -> None:
    bench.run(*bench.kernel("k_empty", instances=4))
    bench.run(*bench.kernel("k_empty", instances=2, harts=2))
    assert bench.run(*(CopyMem64(3, 0x20100000, OUT + 64 * hart, 0x3000000 | hart) for hart in (1, 3))).ok
    assert bench.r64(OUT + 64, 3) == [2, 0, 2]
    assert bench.r64(OUT + 64 * 3, 3) == [0, 0, 0]
