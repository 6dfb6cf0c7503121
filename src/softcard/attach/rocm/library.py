"""The shim library ``libsoftcard_rocm.so``, which is preloaded: it is loaded before all other libraries."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from softcard.attach.library import HostLibrary

SOCKET_VARIABLE: Final = "SOFTCARD_ROCM_SOCKET"
ROOT_VARIABLE: Final = "SOFTCARD_ROCM_ROOT"
"""The environment variable with the folder of the emulated driver's sysfs files."""
ORDER_VARIABLE: Final = "SOFTCARD_ROCM_HOST_ORDER"
"""The variable that makes the shim report how the host synchronises with streams, for the check `races`."""
PRELOAD: Final = "LD_PRELOAD"
NAME: Final = "libsoftcard_rocm.so"
SHIM: Final = HostLibrary(
    "ROCm shim", "rocm", Path(__file__).with_name("shim.c"), SOCKET_VARIABLE, {"lib": (NAME,)}, flags=("-ldl",)
)


@dataclass(frozen=True, slots=True)
class Library:
    """A built shim in `folder`."""

    folder: Path

    @property
    def path(self) -> Path:
        """The path of the library file."""
        return self.folder / NAME

    def environment(self, socket: str | Path, root: str | Path) -> dict[str, str]:
        """Return the environment variables by which a program finds the server and the sysfs files in `root`."""
        preloaded = filter(None, (str(self.path), os.environ.get(PRELOAD, "")))
        programs = (str(Path(root, "bin").absolute()), os.environ.get("PATH", os.defpath))
        return {
            PRELOAD: " ".join(preloaded),
            SOCKET_VARIABLE: str(Path(socket).absolute()),
            ROOT_VARIABLE: str(Path(root).absolute()),
            "PATH": os.pathsep.join(programs),
        }


def build_library(folder: Path | None = None, *, compiler: str = "") -> Library:
    """Build the shim unless it is up to date, and return the library; see `HostLibrary.build`."""
    return Library(SHIM.build(folder, compiler=compiler) / "lib")
