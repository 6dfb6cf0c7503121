"""How the profile spec runs kernels: groups, barriers, faults that end with their command."""

from __future__ import annotations

import pytest

from softcard.core.errors import AccessFault, BeyondModel, RuleError
from softcard.device.refsi import rules
from softcard.device.refsi.accelerator import KernelExit
from softcard.device.refsi.commands import CopyMem64
from softcard.device.refsi.events import ConsoleOutput, HartFault, InstanceEnded, InstanceStarted
from tests.device.refsi.m1 import FLAG, OUT, RETURN, Bench, entry, flag


@pytest.fixture
def bench() -> Bench:
    return Bench("spec")


def test_groups(bench: Bench) -> None:
    assert bench.run(*bench.kernel("k_dump", OUT, instances=5, harts=2)).ok
    assert [bench.r64(OUT + 0x400 * k + 0x100)[0] for k in range(5)] == [0, 1, 0, 1, 0]
    assert [(event.hart, event.instance) for event in bench.seen(InstanceStarted)] == [
        (0, 0),
        (1, 1),
        (0, 2),
        (1, 3),
        (0, 4),
    ]


@pytest.mark.parametrize("harts", [0, 4, 5, 255])
def test_max_harts_is_a_maximum(bench: Bench, harts: int) -> None:
    assert bench.run(*bench.kernel("k_dump", OUT, instances=5, harts=harts)).ok
    assert [bench.r64(OUT + 0x400 * k + 0x100)[0] for k in range(5)] == [0, 1, 2, 3, 0]


def test_more_cores_and_harts() -> None:
    bench = Bench("spec", cores=2, harts=3)
    assert bench.run(*bench.kernel("k_dump", OUT, instances=7)).ok
    assert [bench.r64(OUT + 0x400 * k + 0x100)[0] for k in range(7)] == [0, 1, 2, 3, 4, 5, 0]


@pytest.mark.parametrize(
    ("kernel", "kind", "message", "cause"),
    [
        ("k_illegal", Exception, "illegal instruction 0x0000", 2),
        ("k_loadfault", AccessFault, "at 0x8", 5),
        ("k_loadfault_hi", AccessFault, "at 0x200000000", 5),
        ("k_fetchfault", AccessFault, "at 0x300000000", 1),
        ("k_ebreak", Exception, "breakpoint", 3),
        ("k_uecall", Exception, "environment call from U-mode", 8),
        ("k_time", Exception, "time", 2),
    ],
)
def test_a_fault_is_reported_and_forgotten(
    bench: Bench, kernel: str, kind: type[Exception], message: str, cause: int
) -> None:
    status = bench.run(*bench.kernel(kernel), flag())
    assert isinstance(status.error, kind)
    assert message in str(status.error)
    assert (status.hart, status.instance, status.opcode) == (0, 0, "RUN_INSTANCES")
    assert f"at pc {status.pc:#x}" in str(status.error)
    [event] = bench.seen(HartFault)
    rule = "" if status.error.rule is None else status.error.rule.id
    assert (event.cause, event.message, event.rule) == (cause, status.error.message, rule)
    assert bool(rule) == (kind is AccessFault)
    assert bench.r64(FLAG) == [0]
    assert bench.run(*bench.kernel("k_dump", OUT, instances=4), flag()).ok, "the device is as good as new"
    assert bench.r64(OUT + 344)[0] == 0, "mcause"


def test_counters_go_on_after_a_fault(bench: Bench) -> None:
    bench.run(*bench.kernel("k_empty"))
    bench.run(*bench.kernel("k_illegal"))
    bench.run(*bench.kernel("k_empty"), CopyMem64(3, 0x20100000, OUT, 0x3000000))
    assert bench.r64(OUT, 3) == [2, 0, 2]
    assert bench.device.steps == 2


def test_a_kernel_left_in_user_mode_does_not_spoil_the_next(bench: Bench) -> None:
    assert bench.run(*bench.kernel("k_umode", RETURN), *bench.kernel("k_dump", OUT)).ok


def test_a_kernel_may_write_mcause(bench: Bench) -> None:
    harmless = bench.code("addi t0, zero, 2; csrrw zero, mcause, t0; jalr zero, 0(ra)")
    assert bench.run(*bench.kernel(harmless), *bench.kernel("k_empty")).ok


def test_exit_codes(bench: Bench) -> None:
    assert bench.run(*bench.kernel("k_exit0", instances=6)).ok
    assert {event.how for event in bench.seen(InstanceEnded)} == {"exit"}
    status = bench.run(*bench.kernel("k_exit5"), flag())
    assert isinstance(status.error, KernelExit)
    assert status.pc == entry("k_exit5") + 8
    assert not bench.seen(HartFault), "an exit is no fault"


def test_unknown_host_call(bench: Bench) -> None:
    status = bench.run(*bench.kernel("k_badecall"))
    assert isinstance(status.error, RuleError)
    assert status.error.rule is rules.HOST_CALL
    assert [event.rule for event in bench.seen(HartFault)] == [rules.HOST_CALL.id]
    assert "ecall has a7 = 0x63, expected 0 (EXIT), 1 (PUTSTRING) or 2 (BARRIER)" in str(status.error)


def test_putstring(bench: Bench) -> None:
    bench.device.write(0x50020000, b"hello\n\0")
    assert bench.run(*bench.kernel("k_puts", 0x50020000, instances=2)).ok
    assert [event.data for event in bench.seen(ConsoleOutput)] == [b"hello\n", b"hello\n"]
    status = bench.run(*bench.kernel("k_puts", 0x8))
    assert isinstance(status.error, AccessFault)
    bench.device.write(0x50100000, b"x" * ((1 << 16) + 8))
    status = bench.run(*bench.kernel("k_puts", 0x50100000))
    assert "the string of PUTSTRING at 0x50100000 has more than 65536 bytes" in str(status.error)


def test_barriers(bench: Bench) -> None:
    assert bench.run(*bench.kernel("k_barrier", OUT, instances=6)).ok
    assert bench.r64(OUT, 16) == [1, 1, 1, 1, 1, 1, 0, 0, 4, 4, 4, 4, 4, 4, 0, 0]


def test_different_barriers(bench: Bench) -> None:
    different = bench.code("addi a7, zero, 2; ecall; jalr zero, 0(ra)")
    status = bench.run(*bench.kernel(different, instances=2))
    assert status.error is not None
    assert status.error.rule is rules.BARRIER_SAME
    assert "harts wait at different barriers: hart 0 at 0x0, hart 1 at 0x1" in str(status.error)
    assert bench.run(*bench.kernel("k_barrier", OUT, instances=4)).ok


@pytest.mark.parametrize("kernel", ["k_barrier_early", "k_barrier_skip"])
def test_a_hart_that_ends_while_others_wait(bench: Bench, kernel: str) -> None:
    status = bench.run(*bench.kernel(kernel, OUT, instances=4))
    assert status.error is not None
    assert status.error.rule is rules.BARRIER_ALL_HARTS
    assert "harts 1, 2, 3 wait at a barrier, but hart 0 returned" in str(status.error)
    assert bench.run(*bench.kernel("k_barrier", OUT, instances=4)).ok


def test_one_hart_alone_at_a_barrier(bench: Bench) -> None:
    first = bench.code("bne a0, zero, .+12; addi a7, zero, 2; ecall; jalr zero, 0(ra)")
    status = bench.run(*bench.kernel(first, instances=2))
    assert "hart 0 waits at a barrier, but hart 1 returned" in str(status.error)


def test_beyond_the_model_is_reported(bench: Bench) -> None:
    paging = bench.code("addi t0, zero, 1; slli t0, t0, 63; csrrw zero, satp, t0")
    status = bench.run(*bench.kernel(paging))
    assert isinstance(status.error, BeyondModel)
    assert "Sv39 paging" in str(status.error)
    assert status.pc == paging + 8
