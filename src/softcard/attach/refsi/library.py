"""The library ``librefsidrv.so``: the C interface of the RefSi reference driver, for unmodified host programs."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from softcard.attach import library
from softcard.attach.library import SUFFIX, HostLibrary

SOCKET_VARIABLE: Final = "SOFTCARD_REFSI_SOCKET"
NAME: Final = f"librefsidrv{SUFFIX}"
PRELOAD: Final = "DYLD_INSERT_LIBRARIES" if sys.platform == "darwin" else "LD_PRELOAD"
INCLUDE: Final = Path(__file__).with_name("include")
"""The include folder, which contains ``refsidrv/refsidrv.h``."""
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
    """A built driver library in `folder`."""

    folder: Path

    @property
    def path(self) -> Path:
        """The path of the library file."""
        return self.folder / NAME

    @property
    def flags(self) -> str:
        """The compiler options that build a program with this header and library, quoted for a shell."""
        return shlex.join([f"-I{INCLUDE}", f"-L{self.folder}", "-lrefsidrv"])

    def environment(self, socket: str | Path, *, preload: bool = False) -> dict[str, str]:
        """Return the environment variables that a host program needs to find the library and the server.

        With `preload`, a program loads this library even if its RPATH names a folder with another library of that name.
        """
        found = library.environment(self.folder, SOCKET_VARIABLE, socket)
        return found | {PRELOAD: str(self.path)} if preload else found

    def shell_environment(self, socket: str | Path) -> str:
        """Return the variables of `environment` as shell assignments.

        They put `folder` before the shell's search path.
        """
        return library.shell_environment(self.folder, SOCKET_VARIABLE, socket)


default_socket = DRIVER.default_socket


def build_library(folder: Path | None = None, *, compiler: str = "") -> Library:
    """Build the driver library unless it is up to date, and return the library; see `HostLibrary.build`."""
    return Library(DRIVER.build(folder, compiler=compiler) / "lib")
