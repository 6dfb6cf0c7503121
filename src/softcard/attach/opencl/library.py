"""The library ``libsoftcard_opencl.so``, an installable client driver: the OpenCL loader loads it into programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from softcard.attach.library import HostLibrary
from softcard.attach.opencl.entry_points import c_constants, c_dispatch, c_functions

NAME: Final = "libsoftcard_opencl.so"


def _headers() -> Mapping[str, str]:
    """Return the generated headers of platform.c by file name."""
    python = "".join(f"\\{byte:03o}" for byte in os.fsencode(sys.executable))
    constants = f'#define PYTHON "{python}"\n#define FILE_NAME "{NAME}"\n{c_constants()}'
    return {"constants.h": constants, "entry_points.h": c_functions(), "dispatch.h": c_dispatch()}


PLATFORM: Final = HostLibrary(
    "OpenCL platform",
    "opencl",
    Path(__file__).with_name("platform.c"),
    "SOFTCARD_OPENCL_SOCKET",
    {"lib": (NAME,)},
    flags=("-Wl,-z,nodelete",),  # threads of the library run until the program ends
    generated=_headers,
)


@dataclass(frozen=True, slots=True)
class Library:
    """A built library in `folder`."""

    folder: Path

    @property
    def path(self) -> Path:
        """The path of the library file."""
        return self.folder / NAME


def build_library(folder: Path | None = None, *, compiler: str = "") -> Library:
    """Build the library unless it is up to date, and return it; see `HostLibrary.build`."""
    return Library(PLATFORM.build(folder, compiler=compiler) / "lib")
