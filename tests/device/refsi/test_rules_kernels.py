"""Rules of RUN_KERNEL_SLICE and RUN_INSTANCES."""

from __future__ import annotations

from typing import Any

import pytest

from softcard.core.errors import WireError
from softcard.device.refsi import rules
from softcard.device.refsi.commands import CopyMem64, RunInstances, RunKernelSlice
from softcard.device.refsi.events import CommandStarted, InstanceEnded, InstanceStarted
from tests.device.refsi.m1 import OUT, RETURN, STACK_TOP, Bench, flag, write
from tests.device.refsi.rig import HART_BLOCKS, KUB, dumps, refused, refused_words, slice_setup, slices, word

INSTANCE, SLICE, PACKED_ARGS, KTB, STACK, HART = range(6)
"""What k_slice stores, in order."""
HART_ID = 0x100
"""Where k_dump stores mhartid."""
WITH_BLOCK: dict[str, Any] = {"kargs": (0x40, 0x10), "tsd": (8, 0x10)}
PLACES = "slli t0, a0, 6; lui t1, 0x50000; add t0, t0, t1; "
"""t0 = OUT + 64 * instance."""


def column(bench: Bench, count: int, which: int, slice_id: int = 0) -> list[int]:
    return [record[which] for record in slices(bench, count, slice_id)]


# ---- RUN_KERNEL_SLICE


@pytest.mark.parametrize("instances", [0, 1, 5])
def test_refsi_slice_instances(bench: Bench, instances: int) -> None:
    assert bench.run(*slice_setup(bench), RunKernelSlice(0, instances, 0)).ok
    assert len(bench.seen(InstanceStarted)) == len(bench.seen(InstanceEnded)) == instances
    assert [any(record) for record in slices(bench, 6)] == [k < instances for k in range(6)]


def test_refsi_slice_instance_id(bench: Bench) -> None:
    assert bench.run(*slice_setup(bench), RunKernelSlice(3, 7, 0)).ok
    assert column(bench, 7, INSTANCE) == list(range(7))


def test_refsi_slice_slice_id(bench: Bench) -> None:
    setup = slice_setup(bench)
    assert bench.run(*setup, RunKernelSlice(0, 5, 2), RunKernelSlice(0, 1, 7)).ok
    assert column(bench, 5, SLICE, slice_id=2) == [2] * 5
    assert column(bench, 1, SLICE, slice_id=7) == [7]


def test_refsi_slice_tsd_copy(bench: Bench) -> None:
    look = bench.code(PLACES + "ld t1, 0(a3); ld t2, 8(a3); sd t1, 0(t0); sd t2, 8(t0); jalr zero, 0(ra)")
    assert bench.run(*slice_setup(bench, look, tsd=(0x18, 0x10)), RunKernelSlice(0, 4, 0)).ok
    assert [bench.r64(OUT + 64 * k, 2) for k in range(4)] == [[word(3), word(4)]] * 4


@pytest.mark.parametrize(("cores", "harts", "places"), [(1, 4, [0, 1, 2, 3, 0]), (2, 1, [0, 1, 0, 1, 0])])
def test_refsi_slice_distribution(cores: int, harts: int, places: list[int]) -> None:
    bench = Bench("spec", cores=cores, harts=harts)
    assert bench.run(*slice_setup(bench), RunKernelSlice(0, 5, 0)).ok
    assert column(bench, 5, HART) == places


def test_refsi_slice_synchronous(bench: Bench) -> None:
    assert bench.run(*slice_setup(bench), RunKernelSlice(0, 9, 0), CopyMem64(1, OUT + 0x200, OUT + 0x8000)).ok
    assert bench.r64(OUT + 0x8000) == [8], "the last instance's ID, by the next command"
    kinds = [type(event) for event in bench.events if isinstance(event, InstanceEnded | CommandStarted)]
    assert kinds[-11:] == [*[InstanceEnded] * 9, CommandStarted, CommandStarted]


def test_refsi_slice_registers(bench: Bench) -> None:
    kernel = bench.code(PLACES + "sd ra, 0(t0); sd sp, 8(t0); sd a2, 16(t0); sd a3, 24(t0); jalr zero, 0(ra)")
    assert bench.run(*slice_setup(bench, kernel, **WITH_BLOCK), RunKernelSlice(1, 1, 0)).ok
    assert bench.r64(OUT, 4) == [RETURN, STACK_TOP, KUB + 0x40, HART_BLOCKS]
    setup = slice_setup(bench, kub_size=1, tsd=(0xF8, 9))
    text = "the thread-specific data lie at 0xf8..0x101, outside of the Kernel Uniform Block of 0x100 bytes"
    refused(bench, "kub-size-unit", text, *setup, RunKernelSlice(1, 1, 0))
    refused(
        bench,
        "entry-set",
        "CMP_ENTRY_PT_FN is 0, expected an entry point before a kernel command",
        write("ENTRY_PT_FN", 0),
        RunKernelSlice(1, 1, 0),
    )


@pytest.mark.parametrize(
    ("most", "places"), [(0, [0, 1, 2, 3, 0]), (1, [0] * 5), (2, [0, 1, 0, 1, 0]), (255, [0, 1, 2, 3, 0])]
)
def test_refsi_slice_max_harts(bench: Bench, most: int, places: list[int]) -> None:
    assert bench.run(*slice_setup(bench), RunKernelSlice(most, 5, 0)).ok
    assert column(bench, 5, HART) == places


# ---- RUN_INSTANCES


@pytest.mark.parametrize("instances", [0, 1, 6])
def test_refsi_run_instances(bench: Bench, instances: int) -> None:
    assert bench.run(*bench.kernel("k_dump", OUT, instances=instances)).ok
    assert len(bench.seen(InstanceStarted)) == instances
    assert [bool(sp) for (sp,) in dumps(bench, 7, 8 * 2)] == [k < instances for k in range(7)]


def test_refsi_run_instance_id(bench: Bench) -> None:
    assert bench.run(*bench.kernel("k_dump", OUT, instances=6, harts=4)).ok
    assert dumps(bench, 6, 8 * 10) == [[k] for k in range(6)]


@pytest.mark.parametrize("count", [1, 4, 7])
def test_refsi_run_extra_args(bench: Bench, count: int) -> None:
    extra = [OUT, *(0x1111 * k for k in range(2, count + 1))]
    assert bench.run(*bench.kernel("k_dump", *extra)).ok
    assert dumps(bench, 1, 8 * 11, count) == [extra]
    refused_words(
        bench,
        "header-count",
        "RUN_INSTANCES: count announces 9 payload chunks, expected 8",
        [0x0000_0700_C012_0800, *[0] * 9],
    )
    with pytest.raises(WireError, match="RUN_INSTANCES takes at most 7 extra arguments, not 8") as caught:
        RunInstances(0, 1, tuple(range(8))).encode()
    assert caught.value.rule is rules.RUN_EXTRA_ARGS


def test_refsi_run_no_copy(bench: Bench) -> None:
    """With the registers of RUN_KERNEL_SLICE set, there are no blocks, and the KUB is memory like any other."""
    setup = slice_setup(bench, **WITH_BLOCK)
    assert bench.run(*setup, *bench.kernel("k_poke", KUB, 9, instances=4)).ok
    assert bench.r64(HART_BLOCKS) == [0]
    assert bench.r64(KUB) == [9]


@pytest.mark.parametrize(("cores", "harts", "places"), [(1, 4, [0, 1, 2, 3, 0]), (2, 3, [0, 1, 2, 3, 4, 5, 0])])
def test_refsi_run_distribution(cores: int, harts: int, places: list[int]) -> None:
    bench = Bench("spec", cores=cores, harts=harts)
    assert bench.run(*bench.kernel("k_dump", OUT, instances=len(places))).ok
    assert dumps(bench, len(places), HART_ID) == [[place] for place in places]


def test_refsi_run_synchronous(bench: Bench) -> None:
    assert bench.run(*bench.kernel("k_poke", OUT, 7), CopyMem64(1, OUT, OUT + 8), *bench.kernel("k_poke", OUT, 9)).ok
    assert bench.r64(OUT, 2) == [9, 7]
    status = bench.run(*bench.kernel("k_illegal"), flag())
    assert (status.ok, status.commands) == (False, 3), "what follows a failed command does not run"


def test_refsi_run_registers(bench: Bench) -> None:
    assert bench.run(*bench.kernel("k_dump", OUT, back=RETURN + 0x40, stack=0x1234)).ok
    assert dumps(bench, 1, 8, 2) == [[RETURN + 0x40, 0x1234]]
    text = "CMP_ENTRY_PT_FN is 0, expected an entry point before a kernel command"
    refused(Bench("spec"), "entry-set", text, RunInstances(1, 1))


@pytest.mark.parametrize(
    ("most", "places"), [(0, [0, 1, 2, 3, 0]), (1, [0] * 5), (3, [0, 1, 2, 0, 1]), (5, [0, 1, 2, 3, 0])]
)
def test_refsi_run_max_harts(bench: Bench, most: int, places: list[int]) -> None:
    assert bench.run(*bench.kernel("k_dump", OUT, instances=5, harts=most)).ok
    assert dumps(bench, 5, HART_ID) == [[place] for place in places]
