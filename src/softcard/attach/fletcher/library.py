"""The platform library ``libfletcher_softcard.so``.

It is built under every file name for which a Fletcher run-time searches.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from softcard.attach import library
from softcard.attach.library import SEARCH_PATH as SEARCH_PATH
from softcard.attach.library import SUFFIX, HostLibrary
from softcard.attach.library import LibraryError as LibraryError
from softcard.attach.library import make_private as make_private

AUTODETECTED: Final = ("oc-accel", "snap", "aws", "echo")
"""Platforms that a run-time tries in this order when a program names none."""
SOCKET_VARIABLE: Final = "SOFTCARD_FLETCHER_SOCKET"
OWN: Final = f"libfletcher_softcard{SUFFIX}"
PLATFORM: Final = HostLibrary(
    "platform library",
    "fletcher",
    Path(__file__).with_name("platform.c"),
    SOCKET_VARIABLE,
    {"named": (OWN,), "autodetected": (OWN, *(f"libfletcher_{name}{SUFFIX}" for name in AUTODETECTED))},
)


@dataclass(frozen=True, slots=True)
class Library:
    """A built platform library in `folder`.

    The folder holds the library under its own name; its subfolder `autodetected` also holds it under the platform names
    in `AUTODETECTED`.
    """

    folder: Path
    autodetected: Path

    @property
    def path(self) -> Path:
        """The path of the library file."""
        return self.folder / OWN

    def environment(self, socket: str | Path, *, autodetect: bool = False) -> dict[str, str]:
        """Return the environment variables that a host program needs to find the library and the server.

        With `autodetect`, the library search path has the subfolder `autodetected` instead of `folder`."""
        return library.environment(self._searched(autodetect), SOCKET_VARIABLE, socket)

    def shell_environment(self, socket: str | Path, *, autodetect: bool = False) -> str:
        """Return the variables of `environment` as shell assignments that extend the library search path."""
        return library.shell_environment(self._searched(autodetect), SOCKET_VARIABLE, socket)

    def _searched(self, autodetect: bool) -> Path:
        return self.autodetected if autodetect else self.folder


default_folder = PLATFORM.default_folder
default_socket = PLATFORM.default_socket


def build_library(folder: Path | None = None, *, compiler: str = "") -> Library:
    """Build the platform library unless it is up to date, and return the library; see `HostLibrary.build`."""
    base = PLATFORM.build(folder, compiler=compiler)
    return Library(base / "named", base / "autodetected")
