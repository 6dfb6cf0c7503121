"""A server in this process, and programs that find it: in C without ROCm, and of HIP."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from understudy.attach.rocm import Server, build_library
from understudy.core.event import Event
from understudy.device.hsa.settings import Settings
from understudy.device.kfd.device import STEPS, KfdDevice

HERE = Path(__file__).parent
PATIENCE_S = 300.0
needs_compiler = pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler")
needs_rocm = pytest.mark.skipif(
    not shutil.which("hipcc") or not shutil.which("rocminfo"),
    reason="no ROCm: apt-get install rocminfo hipcc libamdhip64-dev",
)


class Served:
    """A driver with its server in threads of this process; what it says is in `events`."""

    def __init__(self, folder: Path, agents: tuple[str, ...], settings: Settings) -> None:
        self.folder = folder
        self.events: list[Event] = []
        self.device = KfdDevice(agents, settings)
        self.device.probes.subscribe(self.events.append)
        self.server = Server(self.device)
        self.server.probes.subscribe(self.events.append)
        self.server.write_files(folder)
        self.server.listen(folder / "s")
        self._thread = threading.Thread(target=self.server.serve)
        self._thread.start()

    def environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, **build_library().environment(self.folder / "s", self.folder), **more}

    def run(self, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        """A program to its end."""
        return subprocess.run(
            command, env=self.environment(**more), capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )

    def seen(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def close(self) -> None:
        self.server.close()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        self.device.close()


@contextmanager
def served(*agents: str, **options: Any) -> Iterator[Served]:
    """A driver of these agents behind a socket."""
    with tempfile.TemporaryDirectory(prefix="u", dir="/tmp") as folder:  # short, as paths of sockets must be
        found = Served(Path(folder), agents or ("gfx900",), Settings(step_limit=STEPS, **options))
        try:
            yield found
        finally:
            found.close()
