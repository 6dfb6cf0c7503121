"""Packets of other queues in a kernel's time: one that waits for the host does not keep the host's copies waiting.

Whoever looks after a running kernel (some 20 times a second) calls this on the thread that processes packets. What
other queues have is processed there and then, and the kernel goes on behind it; or a little in the time of a kernel
among those that takes long itself (`engine.gcn.group.look`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from understudy.device.hsa.compute import Compute
from understudy.device.hsa.executor import Executor

LINGER_SECONDS: Final = 0.002
"""How long more packets are waited for where there were some: a host that copies has most often more to copy."""


class Beside:
    """Of one device. `look` finds out whether packets have come, as a doorbell's store does not while a kernel runs."""

    def __init__(self, look: Callable[[], None], executor: Executor, compute: Compute) -> None:
        self._look = look
        self._executor = executor
        self._compute = compute

    def __call__(self) -> None:
        """A kernel is looked at; nothing on a thread that only helps to run it."""
        if not self._executor.is_mine:
            return
        until = 0.0
        with self._compute.beside():
            while True:
                self._look()
                if self._executor.beside():
                    until = time.monotonic() + LINGER_SECONDS
                elif time.monotonic() >= until:
                    return
