"""Devices with a thread of their own: in processes that are forked, and where nobody closes them."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from softcard.core.errors import RuleError
from softcard.core.event import Event
from softcard.device.acceldev.commands import Fence, Nop
from softcard.device.acceldev.events import CommandFinished
from softcard.device.fletcher.kernel import kernel
from softcard.device.fletcher.kernels import find
from softcard.host.acceldev.acceldev import Acceldev
from softcard.host.fletcher.platform import Context, Kernel, Platform

SOON_SECONDS = 60


def in_a_child(act: Callable[[], None]) -> None:
    """Fork, and have the child do it: it has to end well, and soon."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of forks with threads
        child = os.fork()
    if not child:
        status = 1
        try:
            act()
            status = 0
        finally:
            os._exit(status)
    end = time.monotonic() + SOON_SECONDS
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert status == 0
            return
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail("the child hangs")


def threads(name: str) -> int:
    return sum(each.name == name for each in threading.enumerate())


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SOON_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def fence(device: Acceldev) -> None:
    with device.open_context() as context:
        context.run(context.create_code(*[Nop()] * 100, Fence()))
        context.wait(1, SOON_SECONDS)


def test_acceldev_in_a_child() -> None:
    with Acceldev.open(execution="threaded") as device:
        fence(device)
        in_a_child(lambda: fence(device))
        fence(device)


@contextmanager
def acceldev_amid_a_command() -> Iterator[tuple[Any, threading.Event]]:
    """A device whose thread is amid a command until an event is set."""
    entered, goes_on = threading.Event(), threading.Event()

    def hold(event: Event) -> None:
        if isinstance(event, CommandFinished) and not goes_on.is_set():
            entered.set()
            goes_on.wait(SOON_SECONDS)

    with Acceldev.open(execution="threaded") as device:
        fence(device)
        bare = device.port.device  # type: ignore[attr-defined]
        bare.probes.subscribe(hold)
        other = threading.Thread(target=fence, args=(device,))
        other.start()
        assert entered.wait(SOON_SECONDS)
        yield bare, goes_on
        other.join()
        fence(device)


def test_acceldev_that_was_forked_amid_a_command() -> None:
    with acceldev_amid_a_command() as (bare, goes_on):

        def refused() -> None:
            with pytest.raises(RuleError, match="another thread was using the device when this process was forked"):
                bare.read_bar(0, 0, 4)

        in_a_child(refused)
        goes_on.set()


def test_a_fork_waits_a_moment_for_acceldev() -> None:
    with acceldev_amid_a_command() as (bare, goes_on):
        threading.Timer(0.03, goes_on.set).start()
        in_a_child(lambda: bare.read_bar(0, 0, 4))


def total(platform: Platform) -> int:
    batch = pa.record_batch([pa.array([1, -3, 3, -7])], schema=find("sum").schemas[0])
    with Context(platform) as context:
        context.queue_record_batch(batch)
        context.enable()
        job = Kernel(context)
        job.reset()
        job.start()
        job.wait_for_finish()
        return job.get_return("int64")  # type: ignore[no-any-return]


def test_fletcher_in_a_child() -> None:
    with Platform(find("sum"), execution="threaded") as platform:
        assert total(platform) == -6

        def again() -> None:
            assert total(platform) == -6

        in_a_child(again)
        again()


@contextmanager
def fletcher_inside_its_kernel() -> Iterator[tuple[Platform, threading.Event]]:
    """A device whose thread is inside the kernel until an event is set."""
    entered, goes_on = threading.Event(), threading.Event()

    @kernel("slow", read={"P": [("a", pa.int8())]})
    def slow(job: object) -> int:
        entered.set()
        goes_on.wait(SOON_SECONDS)
        return 7

    with Platform(slow, execution="threaded") as platform:
        platform.write_mmio(0, 1)
        assert entered.wait(SOON_SECONDS)
        yield platform, goes_on
        assert platform.port.device.wait_idle(SOON_SECONDS)  # type: ignore[attr-defined]


def test_fletcher_that_was_forked_inside_its_kernel() -> None:
    with fletcher_inside_its_kernel() as (platform, goes_on):

        def refused() -> None:
            with pytest.raises(RuleError, match="another thread was using the device when this process was forked"):
                platform.read_mmio(1)

        in_a_child(refused)
        goes_on.set()


def test_a_fork_waits_a_moment_for_fletcher() -> None:
    with fletcher_inside_its_kernel() as (platform, goes_on):
        threading.Timer(0.03, goes_on.set).start()
        in_a_child(lambda: platform.read_mmio(1))


def test_devices_that_nobody_closed_leave_no_threads() -> None:
    before = {name: threads(name) for name in ("acceldev", "fletcher")}
    for _ in range(5):
        fence(Acceldev.open(execution="threaded"))
        assert total(Platform(find("sum"), execution="threaded")) == -6
    for name, count in before.items():
        assert threads(name) > count

    def gone() -> bool:
        gc.collect()
        return all(threads(name) <= count for name, count in before.items())

    wait_for(gone)
