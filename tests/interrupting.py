"""Ctrl-C while something runs, and what must not hang."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from softcard.ir.background import BACKGROUND

SOON: Final = 30.0
"""Seconds in which a loaded machine must have done what takes a tenth of one: a hang takes for ever."""


def wait_for_background() -> None:
    """Wait until the compilations in the background that were submitted before have ended."""
    last = BACKGROUND.submit(lambda: None)
    while not last.done:
        time.sleep(0.001)


@contextmanager
def soon() -> Iterator[None]:
    """What is in here must not hang."""
    before = time.monotonic()
    yield
    assert time.monotonic() - before < SOON


@contextmanager
def interrupted(after_seconds: float = 0.3) -> Iterator[None]:
    """Ctrl-C after a while. Python loses what is raised while it collects garbage: meanwhile it does not."""
    timer = threading.Timer(after_seconds, os.kill, (os.getpid(), signal.SIGINT))
    gc.disable()
    timer.start()
    try:
        yield
    finally:
        gc.enable()
        timer.join()
