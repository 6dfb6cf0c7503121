"""A server in this process, and programs that find it: in C without ROCm, and of HIP."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from softcard.attach.rocm import Server, build_library
from softcard.core.event import Event
from softcard.device.kfd.device import KfdDevice
from tests.gcn_kernels.toolchain import CACHE

HERE = Path(__file__).parent
TIMEOUT_S = 300.0
AGENTS = ("gfx803", "gfx900", "gfx906", "gfx908", "gfx90a")
"""The agents for which Debian 12's HIP compiler makes code."""
needs_compiler = pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler")
needs_rocm = pytest.mark.skipif(
    not shutil.which("hipcc") or not shutil.which("rocminfo"),
    reason="no ROCm: apt-get install rocminfo hipcc libamdhip64-dev",
)


class Served:
    """A driver with its server in threads of this process; what it says is in `events`."""

    def __init__(self, folder: Path, agents: tuple[str, ...], options: dict[str, Any]) -> None:
        self.folder = folder
        self.events: list[Event] = []
        self.device = KfdDevice(agents, **options)
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
            command, env=self.environment(**more), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )

    def seen(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def close(self) -> None:
        self.server.close()
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()
        self.device.close()


@contextmanager
def served(*agents: str, **options: Any) -> Iterator[Served]:
    """A driver of these agents behind a socket."""
    with tempfile.TemporaryDirectory(prefix="u", dir="/tmp") as folder:  # short, as paths of sockets must be
        found = Served(Path(folder), agents or ("gfx900",), options)
        try:
            yield found
        finally:
            found.close()


@cache
def hip_program(
    name: str, *libraries: str, debug: bool = False, level: str = "-O2", agents: tuple[str, ...] = AGENTS
) -> str:
    """A HIP program of this folder for some agents, kept where compiled kernels are kept.

    Compilers compile it once for each agent: a test that uses one agent only asks for that one."""
    source = HERE / f"{name}.hip"
    version = subprocess.run(["hipcc", "--version"], capture_output=True, text=True, check=True).stdout
    words = [*(f"--offload-arch={agent}" for agent in agents), level, *(f"-l{each}" for each in libraries)]
    words += ["-g"] * debug
    folder = [str(HERE)] * debug  # which debug information names
    key = hashlib.sha256("\0".join([version, source.read_text(), *words, *folder]).encode()).hexdigest()[:24]
    kept = CACHE / f"{name}-{key}.hip"
    if not kept.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        made = kept.with_suffix(f".{os.getpid()}")
        command = ["hipcc", "-x", "hip", str(source), *words, "-o", str(made)]
        done = subprocess.run(command, env={**os.environ, "HIP_PLATFORM": "amd"}, capture_output=True, text=True)
        assert not done.returncode, done.stderr
        made.rename(kept)
    return str(kept)
