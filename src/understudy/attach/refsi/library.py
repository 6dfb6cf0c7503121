"""``librefsidrv.so``: the reference driver's C interface, for programs that know nothing of Understudy."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from understudy.attach import library
from understudy.attach.library import SUFFIX, HostLibrary

SOCKET_VARIABLE: Final = "UNDERSTUDY_REFSI_SOCKET"
NAME: Final = f"librefsidrv{SUFFIX}"
PRELOAD: Final = "DYLD_INSERT_LIBRARIES" if sys.platform == "darwin" else "LD_PRELOAD"
INCLUDE: Final = Path(__file__).with_name("include")
"""The folder of ``refsidrv/refsidrv.h``."""
DRIVER: Final = HostLibrary(
    "driver library",
    "refsi",
    Path(__file__).with_name("refsidrv.c"),
    SOCKET_VARIABLE,
    {"lib": (NAME,)},
    includes=(INCLUDE,),
    flags=() if sys.platform == "darwin" else (f"-Wl,-soname,{NAME}",),
)


@dataclass(frozen=True, slots=True)
class Library:
    """A built library: `folder` holds it."""

    folder: Path

    @property
    def path(self) -> Path:
        """The library."""
        return self.folder / NAME

    @property
    def flags(self) -> str:
        """What a compiler needs to build a program with our header against it, as a shell takes it."""
        return shlex.join([f"-I{INCLUDE}", f"-L{self.folder}", "-lrefsidrv"])

    def environment(self, socket: str | Path, *, preload: bool = False) -> dict[str, str]:
        """Variables with which a host program finds the library, and the library the server's socket.

        With `preload` even one that was linked with another library's place in it (an RPATH) finds this one.
        """
        found = library.environment(self.folder, SOCKET_VARIABLE, socket)
        return found | {PRELOAD: str(self.path)} if preload else found

    def shell_environment(self, socket: str | Path) -> str:
        """The same as assignments in a shell, before whatever search path that has."""
        return library.shell_environment(self.folder, SOCKET_VARIABLE, socket)


default_socket = DRIVER.default_socket


def build_library(folder: Path | None = None, *, compiler: str = "") -> Library:
    """The library, compiled as `HostLibrary.build` says."""
    return Library(DRIVER.build(folder, compiler=compiler) / "lib")
