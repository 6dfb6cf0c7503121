"""Ctrl-C, `close` and limits of time against kernels that do not end, on fast paths and slow ones."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from softcard.core.errors import RuleError
from softcard.core.event import Event
from softcard.core.limits import Stopped, TimeLimit
from softcard.core.threads import PinnedPool
from softcard.device.refsi import registers as r
from softcard.device.refsi.commands import CopyMem64, Finish, StoreImm64, encode_all
from softcard.device.refsi.device import RefSiDevice
from softcard.device.refsi.events import InstanceStarted
from softcard.device.refsi.spec.dma import LAST_ID
from softcard.engine.riscv.jit.engine import JitEngine
from softcard.host.refsi.refsi import RefSi, demo_kernels
from softcard.isa.riscv.decode import assemble
from tests.device.refsi.test_sharing import PROGRAM
from tests.device.test_forks import in_a_child
from tests.interrupting import SOON, interrupted, soon

WORK = "lui t5, 0x200; busy: addi t5, t5, -1; bne t5, zero, busy; "
"""More than what harts do before they go on threads."""
AFTER_SECONDS = 0.15
"""Until somebody stops the kernel."""
ENDLESS = {
    "branch": "loop: jal zero, loop",
    "arithmetic": "loop: addi t0, t0, 1; jal zero, loop",
    "polling": "loop: ld t0, 0(a1); beq t0, zero, loop; jalr zero, 0(ra)",
    "atomics": "addi t1, zero, 1; loop: amoadd.d t0, t1, (a1); jal zero, loop",
    "one by one": WORK + "loop: csrrs t0, cycle, zero; jal zero, loop",
    "registers": WORK + "lui t1, 0x20002; loop: ld t0, 8(t1); jal zero, loop",
    "instances": "jalr zero, 0(ra)",
}
WAYS: list[tuple[Any, ...]] = [
    ("spec", "jit", 1, {}),
    ("spec", "jit", 2, {}),
    ("spec", "reference", 1, {}),
    ("spec", "jit", 1, {"coherence": "strict"}),
    ("refsidrv", "jit", 1, {}),
    ("refsidrv", "reference", 1, {}),
    ("refsidrv", "jit", 1, {"profile_level": 3}),
]
everywhere = pytest.mark.parametrize(("profile", "engine", "threads", "more"), WAYS)
any_loop = pytest.mark.parametrize("loop", ENDLESS)


class Endless:
    """A device with a kernel that does not end."""

    def __init__(self, loop: str, profile: str, engine: str, threads: int, **more: Any) -> None:
        self.device = RefSi.open(profile=profile, engine=engine, threads=threads, lints="off", **more)
        self.program = self.device.load_elf(PROGRAM)
        code = assemble(ENDLESS[loop].replace("; ", "\n"))
        place = self.device.array(np.frombuffer(code + bytes(-len(code) % 8), np.uint64))
        self.data = self.device.zeros(256, np.uint64)
        self.kernel = type(self.program.kernel("k_alone"))("mine", place.address, self.program)
        self.instances = 1 << 62 if loop == "instances" else 4

    def run(self) -> None:
        self.device.launch(self.kernel, self.instances, [self.data])

    def still_works(self) -> None:
        assert self.device.launch("k_spinlock", 4, [self.device.zeros(256, np.uint64), 3]).status.ok


@pytest.mark.one_in(3)
@any_loop
@everywhere
def test_ctrl_c(profile: str, engine: str, threads: int, more: dict[str, Any], loop: str) -> None:
    endless = Endless(loop, profile, engine, threads, time_limit_seconds=None, **more)
    with soon(), pytest.raises(KeyboardInterrupt) as caught, interrupted(AFTER_SECONDS):
        endless.run()
    (note,) = caught.value.__notes__
    assert note.startswith("the run was interrupted before its end, at pc 0x")
    assert "of hart 0, at pc 0x" in note
    steps = endless.device.port.steps  # type: ignore[attr-defined]
    time.sleep(0.05)
    assert endless.device.port.steps == steps, "no hart runs on"  # type: ignore[attr-defined]
    endless.still_works()
    endless.device.close()


def test_ctrl_c_while_threads_are_called_for_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a thread was already given is over before the host goes on, though nobody holds its future."""
    submit = PinnedPool.submit

    def interrupted_submit(pool: PinnedPool, *arguments: Any) -> None:
        future = submit(pool, *arguments)
        while not (future.running() or future.done()):
            time.sleep(0)
        raise KeyboardInterrupt

    with RefSi.open(threads=2) as device:
        device.load_elf(demo_kernels())
        out = device.zeros((256, 256), np.uint32)
        device.launch("mandelbrot", (256, 256), [out, 256, 256, 10])
        monkeypatch.setattr(PinnedPool, "submit", interrupted_submit)
        with pytest.raises(KeyboardInterrupt):
            device.launch("mandelbrot", (256, 256), [out, 256, 256, 20_000])
        seen = out.array.copy()
        time.sleep(0.05)
        assert np.array_equal(out.array, seen)
        monkeypatch.undo()
        device.launch("mandelbrot", (256, 256), [out, 256, 256, 10])
        assert out.array.max() == 10


@pytest.mark.one_in(3)
@any_loop
@everywhere
def test_close_on_another_thread(profile: str, engine: str, threads: int, more: dict[str, Any], loop: str) -> None:
    before = set(threading.enumerate())
    endless = Endless(loop, profile, engine, threads, time_limit_seconds=None, **more)
    closer = threading.Timer(AFTER_SECONDS, endless.device.close)
    closer.start()
    with soon(), pytest.raises(Stopped) as caught:
        endless.run()
    closer.join(SOON)
    text = str(caught.value)
    assert text.startswith("the device was closed while the kernel ran: the hart has retired ")
    assert {"pc", "hart", "command", "kernel"} <= {place.kind for place in caught.value.path}
    assert not [each for each in set(threading.enumerate()) - before if each.name.startswith("softcard-hart")]
    with pytest.raises(RuleError, match="the device was shut down"):
        endless.run()


@pytest.mark.one_in(3)
@any_loop
@everywhere
def test_time_limit(profile: str, engine: str, threads: int, more: dict[str, Any], loop: str) -> None:
    endless = Endless(loop, profile, engine, threads, time_limit_seconds=0.1, **more)
    with soon(), pytest.raises(TimeLimit, match=r"did not end within 0\.1 s") as caught:
        endless.run()
    assert {"pc", "hart", "command", "kernel"} <= {place.kind for place in caught.value.path}
    endless.device.close()


@pytest.mark.parametrize("profile", ["spec", "refsidrv"])
def test_close_by_a_probe(profile: str) -> None:
    """Memory goes when nobody uses it any more: not under the kernel."""
    endless = Endless("polling", profile, "jit", 1, time_limit_seconds=None)

    def close(event: Event) -> None:
        endless.device.close()

    endless.device.port.probes.subscribe(close, InstanceStarted)
    with soon(), pytest.raises(Stopped, match="the device was closed while the kernel ran"):
        endless.run()


def test_a_fork_amid_a_kernel() -> None:
    endless = Endless("branch", "spec", "jit", 2, time_limit_seconds=None)

    def run() -> None:
        with pytest.raises(Stopped):
            endless.run()

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.3)

    def refused() -> None:
        with pytest.raises(RuleError, match="another thread was using the device when this process was forked"):
            endless.device.read(endless.data.address, 8)
        endless.device.close()

    in_a_child(refused)
    with soon():
        endless.device.close()
        thread.join(SOON)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_fork_between_kernels(threads: int) -> None:
    with RefSi.open(threads=threads) as device:
        device.load_elf(PROGRAM)

        def run() -> None:
            data = device.zeros(256, np.uint64)
            assert device.launch("k_alone", 4, [data, 1_000_000]).status.ok
            assert device.launch("k_barrier", 4, [data, 60]).status.ok

        run()
        in_a_child(run)
        run()


SOURCE, TARGET, BUFFER = 0x5000_0000, 0x9000_0000, 0x4000_0000
ROW, MIB, HALF_GIB = 1 << 12, 1 << 20, 1 << 29


def transfer(size: int, rows: int = 1, times: int = 1, waits: bool = True) -> list[bytes]:
    """Commands that set a transfer up, those that have it done, and how often those come."""
    setup = {r.DMA_SRCADDR: SOURCE, r.DMA_DSTADDR: TARGET, r.DMA_XFERSIZE: size}
    control = r.DMA_CTRL.encode(START=1, DIM=1)
    first = [store(register.offset, value) for register, value in setup.items()]
    if rows > 1:
        control = r.DMA_CTRL.encode(START=1, DIM=2, STRIDE_SRC=1, STRIDE_DST=1)
        strides = r.DMA_XFERSRCSTRIDE.offset, r.DMA_XFERDSTSTRIDE.offset
        first += [store(r.DMA_XFERSIZE.offset + 1, rows), *(store(each, ROW) for each in strides)]
    wait = store(r.DMA_DONESEQ.offset, LAST_ID) if waits else b""
    return [b"".join(first), (store(r.DMA_CTRL.offset, control) + wait) * times]


def store(register: int, value: int) -> bytes:
    return encode_all([StoreImm64(r.DMA_BASE + 8 * register, value)])


def copies(elements: int, target: int, times: int) -> list[bytes]:
    return [encode_all([CopyMem64(elements, SOURCE, target, 0)]) * times]


BUFFERS: dict[str, Callable[[bool], list[bytes]]] = {
    "small transfers": lambda waits: transfer(MIB, times=1 << 19, waits=waits),
    "large transfers": lambda waits: transfer(HALF_GIB, times=1000, waits=waits),
    "rows": lambda waits: transfer(1, rows=1 << 17, times=1 << 18, waits=waits),
    "copies": lambda waits: copies(1 << 12, SOURCE + 0x10_0000, 1 << 22),
    "large copies": lambda waits: copies(1 << 26, TARGET, 1 << 10),
    "copies onto themselves": lambda waits: copies(1 << 26, SOURCE + 8, 1 << 10),
}
MOVERS: list[tuple[Any, ...]] = [
    (profile, engine, buffer)
    for profile in ("spec", "refsidrv")
    for engine in ("jit", "reference")
    for buffer in BUFFERS
]
any_mover = pytest.mark.parametrize(("profile", "engine", "buffer"), MOVERS)


def mover(profile: str, engine: str, buffer: str, **more: Any) -> RefSiDevice:
    """A device with commands that move data for minutes."""
    device = RefSiDevice("m", profile=profile, engine=engine, lints="off", **more)
    data = b"".join(BUFFERS[buffer](profile == "spec")) + encode_all([Finish()])
    device.write(BUFFER, data)
    device.submit(BUFFER, len(data))
    return device


@pytest.mark.one_in(5)
@any_mover
def test_ctrl_c_while_data_is_moved(profile: str, engine: str, buffer: str) -> None:
    device = mover(profile, engine, buffer, time_limit_seconds=None)
    with soon(), pytest.raises(KeyboardInterrupt) as caught, interrupted(AFTER_SECONDS):
        device.wait()
    (note,) = caught.value.__notes__
    assert re.fullmatch(r"the run was interrupted before its end, at byte \d+, at buffer 1", note)
    device.submit(BUFFER, 0)
    assert device.wait()[-1].ok
    device.close()


@pytest.mark.one_in(5)
@any_mover
def test_close_while_data_is_moved(profile: str, engine: str, buffer: str) -> None:
    device = mover(profile, engine, buffer, time_limit_seconds=None)
    closer = threading.Timer(AFTER_SECONDS, device.close)
    closer.start()
    with soon():
        (status,) = device.wait()
    closer.join(SOON)
    assert isinstance(status.error, Stopped)
    assert str(status.error).startswith("the device was closed while the buffer ran: data was being moved")
    assert {"command", "byte", "buffer"} <= {place.kind for place in status.error.path}


@pytest.mark.one_in(5)
@any_mover
def test_time_limit_while_data_is_moved(profile: str, engine: str, buffer: str) -> None:
    device = mover(profile, engine, buffer, time_limit_seconds=0.1)
    with soon():
        (status,) = device.wait()
    assert isinstance(status.error, TimeLimit)
    assert "the buffer did not end within 0.1 s" in str(status.error)
    assert status.command is not None
    device.submit(BUFFER, 0)
    assert device.wait()[-1].ok, "each buffer has its own limit"
    device.close()


def test_transfers_that_nobody_waits_for() -> None:
    """They are done when the device is waited for, which is no more endless than the rest."""
    device = RefSiDevice("m", lints="off", time_limit_seconds=0.1)
    data = b"".join(transfer(HALF_GIB, times=600, waits=False)) + encode_all([Finish()])
    device.write(BUFFER, data)
    device.submit(BUFFER, len(data))
    with soon(), pytest.raises(TimeLimit, match="the buffer did not end within") as caught:
        device.wait()
    assert [place.kind for place in caught.value.path] == ["DMA transfer"]
    device.close()


@pytest.mark.parametrize("engine", ["jit", "reference"])
@pytest.mark.parametrize("profile", ["spec", "refsidrv"])
def test_a_hart_that_moves_data(profile: str, engine: str) -> None:
    """It is named, though it executes next to no instructions."""
    endless = Endless("branch", profile, engine, 1, time_limit_seconds=0.1)
    code = assemble(
        "lui t0, 0x20002; lui t1, 0x50000; sd t1, 24(t0); lui t1, 0x9000; slli t1, t1, 4; sd t1, 32(t0)\n"
        "lui t1, 0x20000; sd t1, 40(t0); addi t2, zero, 17; loop: sd t2, 0(t0); ld t3, 16(t0); jal zero, loop"
    )
    place = endless.device.array(np.frombuffer(code + bytes(-len(code) % 8), np.uint64))
    kernel = type(endless.kernel)("moves", place.address, endless.program)
    with soon(), pytest.raises(TimeLimit, match="did not end within") as caught:
        endless.device.launch(kernel, 1, [endless.data])
    assert {"pc", "hart", "command", "kernel"} <= {place.kind for place in caught.value.path}
    endless.device.close()


def test_time_in_which_code_is_compiled_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_ir = JitEngine._compile

    def slowly(*arguments: Any) -> Any:
        time.sleep(0.4)
        return compile_ir(*arguments)

    monkeypatch.setattr(JitEngine, "_compile", slowly)
    with RefSi.open(time_limit_seconds=0.3, tier="first") as device:
        device.load_elf(demo_kernels())
        x, y = np.arange(4, dtype=np.int32), np.zeros(4, np.int32)
        device.launch("vector_add", 4, [x, x, y, 4])
        assert y.tolist() == [0, 2, 4, 6]
        assert device.port.engine.compiling_seconds > 0.3  # type: ignore[attr-defined]
