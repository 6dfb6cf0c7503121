"""First machine states of RefSi kernels."""

from dataclasses import replace

import pytest

from softcard.core.errors import RuleError
from softcard.device.refsi.launch import (
    INVALID_KTB,
    INVALID_PACKED_ARGS,
    BlockCopy,
    BlockTooLarge,
    KernelSlice,
    OutsideKub,
    RunInstances,
    plan_instances,
    plan_slice,
    plan_slice_refsidrv,
    start,
    start_registers,
)
from softcard.isa.riscv.state import Hart

SHARES = (0x1020_0000, 2 << 20)
SLICE = KernelSlice(
    entry=0x10136,
    return_address=0x60077000,
    stack_top=0,
    instances=3,
    harts=4,
    slice_id=7,
    kub_addr=0x53000000,
    kub_size=1,
    kargs_offset=0x40,
    kargs_size=0x10,
    tsd_offset=8,
    tsd_size=0x10,
    shares=SHARES,
)


def test_run_instances() -> None:
    plan = plan_instances(RunInstances(0x10000, 0x60077000, 0x14080000, 9, 2, (5, 6)))
    assert len(plan.harts) == 2
    assert plan.copies == ()
    assert start_registers(plan, 1, 3) == {1: 0x60077000, 2: 0x14080000, 10: 3, 11: 5, 12: 6}


def test_start_writes_nothing_else() -> None:
    hart = Hart(0, None)  # type: ignore[arg-type]
    for n in range(1, 32):
        hart.set_x(n, 0x1000 + n)
    start(hart, plan_instances(RunInstances(0x10000, 1, 2, 1, 1)), 0, 4)
    assert hart.pc == 0x10000
    assert [hart.x(n) for n in (1, 2, 3, 10, 11)] == [1, 2, 0x1003, 4, 0x100B], "a1 keeps what it had"


def test_slice_as_the_document_says() -> None:
    plan = plan_slice(SLICE)
    assert start_registers(plan, 2, 2) == {
        1: 0x60077000,
        2: 0x10380000,
        10: 2,
        11: 7,
        12: 0x53000040,
        13: 0x10300000,
    }
    assert plan.copies[3] == BlockCopy(3, 0x53000008, 0x10380000, 0x10)
    assert plan.kub == (0x53000000, 256)


def test_stack_top_is_used_where_it_is_set() -> None:
    assert plan_slice(replace(SLICE, stack_top=0x14080000)).harts[3].stack_top == 0x14080000


@pytest.mark.parametrize(
    ("change", "args"),
    [
        ({"kub_size": 0}, (7, INVALID_PACKED_ARGS, INVALID_KTB)),
        ({"kargs_size": 0}, (7, INVALID_PACKED_ARGS, 0x10200000)),
        ({"tsd_size": 0}, (7, 0x53000040, INVALID_KTB)),
    ],
)
def test_absent_blocks_are_invalid_addresses(change: dict[str, int], args: tuple[int, ...]) -> None:
    plan = plan_slice(replace(SLICE, **change))  # type: ignore[arg-type]
    assert plan.harts[0].args == args
    assert all(address >> 56 for address in (INVALID_PACKED_ARGS, INVALID_KTB)), "no memory can be there"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"kargs_offset": 0xF8},
            OutsideKub,
            "the packed arguments lie at 0xf8..0x108, outside of the Kernel Uniform Block of 0x100",
        ),
        (
            {"tsd_size": 0x100},
            OutsideKub,
            "the thread-specific data lie at 0x8..0x108, outside of the Kernel Uniform Block of 0x100",
        ),
        (
            {"kub_size": 0xFFFF, "tsd_size": 0x80001},
            BlockTooLarge,
            "each of 4 harts needs 0x80001 bytes of thread-specific data, expected at most 0x80000",
        ),
    ],
)
def test_contradictions_are_refused(change: dict[str, int], error: type[RuleError], message: str) -> None:
    with pytest.raises(error) as caught:
        plan_slice(replace(SLICE, **change))  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_slice_as_the_reference_does_it() -> None:
    plan = plan_slice_refsidrv(SLICE)
    assert plan.harts[1].args == (7, 0x53000000, 0x10280000), "packed_args is KUB_ADDR, whatever CMP_KARGS_INFO says"
    assert plan.kub is None
    assert plan_slice_refsidrv(replace(SLICE, kub_size=0, kub_addr=0, tsd_size=0)).harts[0].args == (7, 0, 0)
    three = plan_slice_refsidrv(replace(SLICE, harts=3))
    assert [each.args[2] for each in three.harts] == [0x10200000, 0x102AAAAA, 0x10355554]
    assert plan_slice(replace(SLICE, harts=3)).harts[1].args[2] == 0x102AAAA0, "the document's stacks stay aligned"
