"""Threads beside the calling one keep off its processor, where the system lets them."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from softcard.core import threads as core_threads
from softcard.core.threads import PinnedPool, processor

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has threads that choose their processors")


@pytest.fixture
def placed(monkeypatch: pytest.MonkeyPatch) -> dict[int, set[int]]:
    """Return the affinities of threads on a machine of four processors, with the caller on the third."""
    found: dict[int, set[int]] = {}
    monkeypatch.setattr(core_threads, "processor", lambda: 2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    monkeypatch.setattr(os, "sched_setaffinity", lambda thread, those: found.update({thread: set(those)}))
    return found


def test_work_is_done_on_another_thread() -> None:
    threads = PinnedPool(2, "test")
    assert threads.submit(lambda a, b: (a + b, threading.get_native_id()), 2, b=3).result()[0] == 5
    assert threads.submit(threading.get_native_id).result() != threading.get_native_id()
    threads.close()


@linux
def test_threads_keep_off_the_callers_processor(placed: dict[int, set[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    threads = PinnedPool(1, "test")
    one = threads.submit(threading.get_native_id).result()
    assert placed == {one: {0, 1, 3}}
    placed.clear()
    threads.submit(int).result()
    assert not placed
    monkeypatch.setattr(core_threads, "processor", lambda: 0)
    threads.submit(int).result()
    assert placed == {one: {1, 2, 3}}
    threads.close()


@linux
def test_where_there_is_one_processor_threads_stay(
    placed: dict[int, set[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2})
    threads = PinnedPool(1, "test")
    threads.submit(int).result()
    assert not placed
    threads.close()


def test_where_the_processor_is_unknown_threads_stay(
    placed: dict[int, set[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_threads, "processor", lambda: None)
    threads = PinnedPool(1, "test")
    threads.submit(int).result()
    assert not placed
    threads.close()


@linux
def test_a_system_that_refuses_is_no_error(placed: dict[int, set[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(thread: int, those: set[int]) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", refuses)
    threads = PinnedPool(1, "test")
    assert threads.submit(int).result() == 0
    threads.close()


@linux
def test_the_processor_is_one_of_those_allowed() -> None:
    assert processor() in os.sched_getaffinity(0)
