"""What an unmodified host program can find on this machine: each interface's server, and the environment for it."""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line says of a device; each interface takes what it has."""

    kernel: str = ""
    schemas: tuple[Path, ...] = ()
    profile: str = ""
    map: str = ""
    offset: str = "0"
    threaded: bool = False
    trace: bool = False


Say = Callable[[str], None]
"""Takes a line about what the device sees; never waits."""
Attachment = Callable[[Wanted, Say], AbstractContextManager[Mapping[str, str]]]
"""Starts a device and its server; inside, environment variables with which programs find it."""


@contextmanager
def fletcher(wanted: Wanted, say: Say) -> Iterator[Mapping[str, str]]:
    """A Fletcher device behind its platform library, whichever platform a program names."""
    from understudy.cli.fletcher import need_pyarrow, parse_offset

    need_pyarrow()
    from understudy.attach.fletcher import DevicePlatform, Server, build_library
    from understudy.cli.serve_fletcher import load_kernel, register_map, teller
    from understudy.cli.serving import SWITCH_INTERVAL_S
    from understudy.core.lint import OFF
    from understudy.core.settings import SYNCHRONOUS, THREADED
    from understudy.device.fletcher.device import FletcherDevice
    from understudy.device.fletcher.settings import Settings

    kernel = load_kernel(wanted.kernel or "sum")
    execution = THREADED if wanted.threaded else SYNCHRONOUS
    settings = Settings(profile=wanted.profile or "spec", execution=execution, lints=OFF)
    plan = register_map(kernel, list(wanted.schemas), wanted.map or "fletchgen", parse_offset(wanted.offset))
    library = build_library()
    device = FletcherDevice(plan, kernel, settings)
    if wanted.threaded:
        sys.setswitchinterval(SWITCH_INTERVAL_S)
    with tempfile.TemporaryDirectory(prefix="understudy-") as folder, Server(DevicePlatform(device)) as server:
        tell = teller(wanted.trace, say)
        server.probes.subscribe(tell)
        device.probes.subscribe(tell)
        path = Path(folder, "fletcher.sock")
        server.listen(path)
        thread = threading.Thread(target=server.serve, name="fletcher", daemon=True)
        thread.start()
        try:
            yield library.environment(path, autodetect=True)
        finally:
            server.close()
            thread.join()
            device.close()
        if not server.sessions:
            say("no program has looked for a Fletcher platform")


ATTACHMENTS: Final[dict[str, Attachment]] = {"fletcher": fletcher}
"""Every interface that programs can be run on, by the name of `--device`."""
