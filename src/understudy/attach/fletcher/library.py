"""``libfletcher_understudy.so``, under all the names by which a run-time of Fletcher looks for a platform."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from understudy.attach import library
from understudy.attach.library import SEARCH_PATH as SEARCH_PATH
from understudy.attach.library import SUFFIX, HostLibrary
from understudy.attach.library import LibraryError as LibraryError
from understudy.attach.library import make_private as make_private

AUTODETECTED: Final = ("oc-accel", "snap", "aws", "echo")
"""Platforms that a run-time tries in this order when a program names none."""
SOCKET_VARIABLE: Final = "UNDERSTUDY_FLETCHER_SOCKET"
OWN: Final = f"libfletcher_understudy{SUFFIX}"
PLATFORM: Final = HostLibrary(
    "platform library",
    "fletcher",
    Path(__file__).with_name("platform.c"),
    SOCKET_VARIABLE,
    {"named": (OWN,), "autodetected": (OWN, *(f"libfletcher_{name}{SUFFIX}" for name in AUTODETECTED))},
)


@dataclass(frozen=True, slots=True)
class Library:
    """A built library: `folder` holds it under its own name, `autodetected` under those of `AUTODETECTED` too."""

    folder: Path
    autodetected: Path

    @property
    def path(self) -> Path:
        """The library."""
        return self.folder / OWN

    def environment(self, socket: str | Path, *, autodetect: bool = False) -> dict[str, str]:
        """Variables with which a host program finds the library, and the library the server's socket."""
        return library.environment(self._searched(autodetect), SOCKET_VARIABLE, socket)

    def shell_environment(self, socket: str | Path, *, autodetect: bool = False) -> str:
        """The same as assignments in a shell, before whatever search path that has."""
        return library.shell_environment(self._searched(autodetect), SOCKET_VARIABLE, socket)

    def _searched(self, autodetect: bool) -> Path:
        return self.autodetected if autodetect else self.folder


default_folder = PLATFORM.default_folder
default_socket = PLATFORM.default_socket


def build_library(folder: Path | None = None, *, compiler: str = "") -> Library:
    """The library, compiled as `HostLibrary.build` says."""
    base = PLATFORM.build(folder, compiler=compiler)
    return Library(base / "named", base / "autodetected")
