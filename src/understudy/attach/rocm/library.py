"""``libunderstudy_rocm.so``: the shim that is loaded before a program's own libraries."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from understudy.attach.library import HostLibrary

SOCKET_VARIABLE: Final = "UNDERSTUDY_ROCM_SOCKET"
ROOT_VARIABLE: Final = "UNDERSTUDY_ROCM_ROOT"
"""Environment variable with the folder that holds what sysfs shows of the driver."""
PRELOAD: Final = "LD_PRELOAD"
NAME: Final = "libunderstudy_rocm.so"
SHIM: Final = HostLibrary(
    "ROCm shim", "rocm", Path(__file__).with_name("shim.c"), SOCKET_VARIABLE, {"lib": (NAME,)}, flags=("-ldl",)
)


@dataclass(frozen=True, slots=True)
class Library:
    """A built shim: `folder` holds it."""

    folder: Path

    @property
    def path(self) -> Path:
        """The library."""
        return self.folder / NAME

    def environment(self, socket: str | Path, root: str | Path) -> dict[str, str]:
        """Variables with which a program finds the driver: the server's socket, and the files of sysfs in `root`."""
        preloaded = filter(None, (str(self.path), os.environ.get(PRELOAD, "")))
        programs = (str(Path(root, "bin").absolute()), os.environ.get("PATH", os.defpath))
        return {
            PRELOAD: " ".join(preloaded),
            SOCKET_VARIABLE: str(Path(socket).absolute()),
            ROOT_VARIABLE: str(Path(root).absolute()),
            "PATH": os.pathsep.join(programs),
        }


def build_library(folder: Path | None = None, *, compiler: str = "") -> Library:
    """The library, compiled as `HostLibrary.build` says."""
    return Library(SHIM.build(folder, compiler=compiler) / "lib")
