"""The time that the device's events carry."""

from __future__ import annotations

from understudy.core import telemetry
from understudy.core.lint import OFF


class Telemetry(telemetry.Telemetry):
    """The device's probes, and its clock: commands of the device and of users processed since reset."""

    __slots__ = ("time",)

    def __init__(self, lints: str = OFF) -> None:
        super().__init__(clock=lambda: self.time, lints=lints)
        self.time = 0
