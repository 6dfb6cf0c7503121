"""The device as hosts see it: options, queue, memory, snapshots, and G1."""

from __future__ import annotations

import pytest

from softcard.core.errors import AccessFault, BeyondModel, RuleError, WireError
from softcard.core.space import Unit
from softcard.device.refsi.commands import Finish, StoreImm64, encode_all
from softcard.device.refsi.device import RefSiDevice
from softcard.device.refsi.events import InstanceStarted
from softcard.device.refsi.interfaces import HART
from softcard.device.refsi.refsidrv.devices import ReferenceCrash
from softcard.device.refsi.registers import DMA_BASE, DRAM_BASE, G1_MAP, M1_MAP, PERF_COUNTERS_BASE, MemoryKind
from softcard.isa.riscv.decode import assemble
from tests.device.refsi.m1 import BUFFER, FLAG, OUT, Bench, flag, window, write

BOTH = pytest.mark.parametrize("profile", ["refsidrv", "spec"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"family": "x"}, "family is 'x', expected one of m, g"),
        ({"profile": "real"}, "profile is 'real', expected one of spec, refsidrv"),
        ({"engine": "fast"}, "engine is 'fast', expected one of jit, reference"),
        ({"coherence": "lazy"}, "coherence is 'lazy', expected one of eager, strict"),
        ({"profile": "refsidrv", "cores": 2}, "profile refsidrv requires cores=1, harts=4 and coherence="),
        ({"profile": "refsidrv", "coherence": "strict"}, "profile refsidrv requires cores=1, harts=4 and coherence="),
        ({"step_limit": 0}, "step_limit is 0, expected 1 or more"),
        ({"cores": 0}, "cores is 0, expected 1 or more"),
        ({"dma": "never"}, "dma is 'never', expected one of late, immediate"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(WireError) as caught:
        RefSiDevice(**({"engine": "reference"} | options))  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_g1_exists_in_one_profile() -> None:
    with pytest.raises(BeyondModel, match="RefSi G1 is modelled only in profile refsidrv"):
        RefSiDevice("g")


def test_info() -> None:
    info = RefSiDevice(engine="reference", cores=2, harts=8).info
    assert (info.family, info.cores, info.harts_per_core, info.isa, info.vlen, info.elen) == (
        "m",
        2,
        8,
        "RV64GCVZbc",
        512,
        64,
    )
    assert info.memory_map == M1_MAP
    g1 = RefSiDevice("g", profile="refsidrv", engine="reference", vlen=256).info
    assert (g1.harts_per_core, g1.isa, g1.vlen, g1.memory_map) == (64, "RV64GCV", 256, G1_MAP)


def test_allocation_of_other_memory() -> None:
    assert RefSiDevice("m", profile="refsidrv", engine="reference").allocate(8, 8, MemoryKind.TCDM) == 1
    device = RefSiDevice(engine="reference")
    assert device.allocate(8, 8, MemoryKind.TCDM) == 0
    address = device.allocate(8, 8)
    assert address == 0xBFFFFFF8
    device.free(address)
    assert device.allocate(8, 8) == address


# ---- the queue


@BOTH
def test_buffers_run_in_order_when_somebody_looks(profile: str) -> None:
    device = RefSiDevice("m", profile=profile, engine="reference")
    for k, value in enumerate((1, 2)):
        device.write(BUFFER + 64 * k, encode_all([StoreImm64(FLAG, value), Finish()]))
    tickets = [device.submit(BUFFER, 24), device.submit(0x100, 8), device.submit(BUFFER + 64, 24)]
    assert device.read(FLAG, 1) == b"\2"
    statuses = device.wait()
    assert [status.ticket for status in statuses] == tickets == [1, 2, 3]
    assert [status.ok for status in statuses] == [True, False, True]
    assert device.wait() == []
    assert "buffer 2 at 0x100: " in str(statuses[1])
    assert str(statuses[0]) == "buffer 1 at 0x4f000000: 2 commands, 0 instructions"


@BOTH
def test_probes_may_inspect_the_device(profile: str) -> None:
    device = RefSiDevice("m", profile=profile, engine="reference")
    device.write(BUFFER, encode_all([StoreImm64(FLAG, 1), StoreImm64(FLAG, 2), Finish()]))
    seen: list[int] = []
    device.probes.subscribe(lambda event: seen.append(device.read(FLAG, 1)[0]))
    for _ in range(2):
        device.submit(BUFFER, 40)
    assert [status.ok for status in device.wait()] == [True, True]
    # Submitted twice. Started, then for each command: started, finished; then the end.
    assert seen == [0, 0, 0, 0, 1, 1, 2, 2, 2, 2, 2, 2, 1, 1, 2, 2, 2, 2]


def test_negative_sizes_are_refused() -> None:
    with pytest.raises(WireError, match="the size of the buffer is -1 bytes, expected 0 or more"):
        RefSiDevice(engine="reference").submit(BUFFER, -1)


@BOTH
def test_reset(profile: str) -> None:
    bench = Bench(profile)
    bench.run(*bench.kernel("k_dump", OUT), write("SCRATCH", 5), *window(2, 0x30000000, OUT, 0x1000))
    bench.device.submit(BUFFER, 24)
    bench.device.allocate(64)
    bench.device.reset()
    assert bench.device.wait() == []
    assert list(bench.device.registers) == [0] * 40
    assert bench.device.read(OUT, 8) == bytes(8)
    assert bench.device.steps > 0, "time goes on"
    assert bench.device.accelerator.harts[0].x(3) == 0
    with pytest.raises(AccessFault):
        bench.device.read(0x30000000, 1)
    assert bench.device.allocate(1) == 0xBFFFFFFF


def test_m1_does_not_execute_directly() -> None:
    with pytest.raises(RuleError, match="only from command buffers"):
        RefSiDevice(engine="reference").execute_kernel(0, 1)


# ---- snapshots


@pytest.mark.parametrize(
    "options", [{"profile": "refsidrv"}, {"profile": "spec"}, {"profile": "spec", "coherence": "strict"}]
)
def test_snapshots(options: dict[str, str]) -> None:
    bench = Bench(**options)  # type: ignore[arg-type]
    device = bench.device
    bench.run(*bench.kernel("k_dump", OUT), *window(2, 0x30000000, OUT, 0x1000), flag(7))
    bench.run(StoreImm64(DMA_BASE + 24, 5))
    device.write(PERF_COUNTERS_BASE + 8 * 40, b"counters")
    device.allocate(64, 64)
    saved = device.snapshot()
    steps, state = device.steps, device.read(OUT, 0x1000)

    def outcome() -> tuple[object, ...]:
        status = bench.run(*bench.kernel("k_dump", OUT + 0x2000, instances=4), StoreImm64(0x30000010, 3))
        return status, device.read(OUT, 0x6000), device.steps, device.allocate(64, 64), list(device.registers)

    first = outcome()
    bench.run(*window(2, 0x30000000, FLAG, 0x1000), *bench.kernel("k_illegal"))
    device.write(0x7000_0000, b"\xff" * 64)
    device.restore(saved)
    assert (device.steps, device.read(OUT, 0x1000)) == (steps, state)
    assert device.read(FLAG, 1) == b"\7"
    assert device.read(PERF_COUNTERS_BASE + 8 * 40, 8) == b"counters"
    assert outcome() == first
    device.reset()
    device.restore(saved)
    assert outcome() == first


def test_a_snapshot_keeps_a_wedged_device_wedged() -> None:
    bench = Bench("refsidrv")
    bench.run(*bench.kernel("k_illegal"))
    saved = bench.device.snapshot()
    bench.device.reset()
    bench.device.restore(saved)
    assert not bench.run(*bench.kernel("k_empty")).ok


def test_a_snapshot_remembers_what_a_window_took_away() -> None:
    bench = Bench("refsidrv")
    bench.device.write(0x10000000, b"TCDM")
    bench.run(*window(2, 0x10000000, OUT, 0x1000), write("REG_WINDOW_MODE2", 0))
    saved = bench.device.snapshot()
    bench.device.reset()
    bench.device.restore(saved)
    assert bench.device.read(0x10000000, 4) == bytes(4), "window 0 reaches up here now"


# ---- G1

ROM = """
lui sp, 0x20800
csrrs t0, mhartid, zero
sd t0, 0(sp)
lui t1, 0x10
jalr zero, 0(t1)
"""
EXIT = "addi a0, zero, 0; addi a7, zero, 0; ecall"


@pytest.fixture(params=["reference", "jit"])
def g1(request: pytest.FixtureRequest) -> RefSiDevice:
    device = RefSiDevice("g", profile="refsidrv", engine=request.param)
    device.write(0x1000, assemble(ROM, 0x1000))
    device.write(0x10000, assemble(EXIT, 0x10000))
    return device


def counter(device: RefSiDevice, hart: int, slot: int = 2) -> int:
    return int.from_bytes(device.read(PERF_COUNTERS_BASE + 8 * slot, 8, Unit(HART, hart)), "little")


def test_g1_runs_harts_from_its_rom(g1: RefSiDevice) -> None:
    status = g1.execute_kernel(0x10000, 4)
    assert status.ok, status.error
    assert [g1.read(0x20800000, 1, Unit(HART, hart))[0] for hart in range(5)] == [0, 1, 2, 3, 0]
    # Counters are zeroed when hart 0 reaches the entry; the others are one instruction away from it.
    assert [counter(g1, hart) for hart in range(5)] == [2, 3, 3, 3, 0]
    assert status.steps == 4 * 7
    assert g1.execute_kernel(0x10000, 2).ok
    assert [counter(g1, hart) for hart in range(3)] == [2, 3, 0]


def test_g1_faults_do_not_last(g1: RefSiDevice) -> None:
    g1.write(0x10000, bytes(4))
    status = g1.execute_kernel(0x10000, 2)
    assert (status.ok, status.hart, status.pc) == (False, 1, 0x10000), "hart 1 has the turn when hart 0 arrives"
    assert "illegal instruction 0x0000" in str(status.error)
    g1.write(0x10000, assemble(EXIT))
    assert g1.execute_kernel(0x10000, 2).ok


def test_g1_never_reaching_its_entry(g1: RefSiDevice) -> None:
    assert g1.execute_kernel(0xDEAD0000, 1).ok


def test_g1_limits() -> None:
    g1 = RefSiDevice("g", profile="refsidrv", engine="reference")
    status = g1.execute_kernel(0x10000, 0)
    assert isinstance(status.error, ReferenceCrash)
    assert not g1.execute_kernel(0x10000, 65).ok
    assert not g1.execute_kernel(0x10000, 1).ok, "the reference does not recover"
    g1.reset()
    g1.write(0x1000, assemble(ROM, 0x1000))
    g1.write(0x10000, assemble(EXIT, 0x10000))
    assert g1.execute_kernel(0x10000, 64).ok
    with pytest.raises(RuleError, match="no command processor"):
        g1.submit(DRAM_BASE, 8)


def test_g1_events(g1: RefSiDevice) -> None:
    events = []
    g1.probes.subscribe(events.append)
    assert g1.execute_kernel(0x10000, 1).ok
    assert not [event for event in events if isinstance(event, InstanceStarted)]


def test_g1_snapshot(g1: RefSiDevice) -> None:
    g1.execute_kernel(0x10000, 3)
    saved = g1.snapshot()
    g1.execute_kernel(0x10000, 1)
    g1.restore(saved)
    assert [counter(g1, hart) for hart in range(4)] == [2, 3, 3, 0]
    assert g1.execute_kernel(0x10000, 4).ok
