"""What timestamps of completion signals count: the device's instructions, or the host's nanoseconds."""

from __future__ import annotations

from typing import Any

from understudy.device.hsa.native_packets import Q
from understudy.device.hsa.settings import HOST, Settings
from understudy.engine.gcn.host_clock import HostClock


class Timestamps:
    """Timestamps of one device, whose own clock is `ticks`. `clock` is the host's, where they are that."""

    def __init__(self, settings: Settings, ticks: memoryview) -> None:
        self._ticks = ticks
        self.clock = HostClock.find() if settings.timestamps == HOST else None
        self.is_host = self.clock is not None

    def now(self) -> int:
        """The time."""
        return self._ticks[0] if self.clock is None else self.clock.now()

    def tell(self, words: Any) -> None:
        """Have machine code of a queue, whose words these are, take it from there too."""
        if self.clock is not None:
            words[Q["clock_gettime"]], words[Q["clock_id"]] = self.clock.function, self.clock.id
