"""Machine code and those who change mappings keep off each other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from softcard.engine.gcn.pause import TICKS, Pause

TIMEOUT = 60.0


def there(holds: Callable[[], object]) -> None:
    end = time.monotonic() + TIMEOUT
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_alone_waits_for_machine_code() -> None:
    """It is told to look up; who comes meanwhile waits."""
    pause, order = Pause(), []
    pause.enter("first")
    before = TICKS.count[0]

    def change() -> None:
        with pause.alone():
            order.append("changed")
            time.sleep(0.01)
            order.append("still alone")

    def second() -> None:
        pause.enter("second")
        order.append("second")
        pause.leave("second")

    threads = [threading.Thread(target=change)]
    threads[0].start()
    there(lambda: pause._wanted)
    threads.append(threading.Thread(target=second))
    threads[1].start()
    there(lambda: TICKS.count[0] != before)
    time.sleep(0.02)
    assert order == []
    pause.leave("first")
    for thread in threads:
        thread.join(TIMEOUT)
    assert order == ["changed", "still alone", "second"]
    assert (pause._inside, pause._wanted, pause._owner) == (set(), 0, 0)


def test_alone_again() -> None:
    """By the same thread at once, by another one after it."""
    pause, order = Pause(), []

    def other() -> None:
        with pause.alone():
            order.append("other")

    with pause.alone(), pause.alone():
        thread = threading.Thread(target=other)
        thread.start()
        there(lambda: pause._wanted == 2)
        order.append("first")
    thread.join(TIMEOUT)
    assert order == ["first", "other"]


def test_what_raises_is_alone_no_more() -> None:
    pause = Pause()
    with pytest.raises(KeyError), pause.alone():
        raise KeyError
    pause.enter("user")
    assert pause._wanted == 0


def test_in_a_child() -> None:
    """What other threads had begun is not there; a thread that was alone is so still."""
    pause = Pause()
    pause.enter("another thread's")
    pause.after_fork()

    def other() -> None:
        with pause.alone():
            pass

    thread, old = threading.Thread(target=other), pause._changed
    with pause.alone():
        thread.start()
        there(lambda: pause._waiting == 1)
        pause.after_fork()
        assert (pause._owner, pause._wanted) == (threading.get_ident(), 1)
    pause.enter("this thread's")
    pause.leave("this thread's")
    with old:  # no child has that thread; here it ends
        old.notify_all()
    thread.join(TIMEOUT)


def test_in_a_child_of_another_thread() -> None:
    """What that had begun will not be finished."""
    pause = Pause()
    thread = threading.Thread(target=lambda: pause.alone().__enter__())
    thread.start()
    thread.join(TIMEOUT)
    pause.after_fork()
    with pause.alone():
        pass
