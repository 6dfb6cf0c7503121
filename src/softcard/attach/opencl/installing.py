"""The installation of the OpenCL platform: the library and the .icd file by which OpenCL's loaders find it.

A loader reads each file with the suffix .icd in certain folders; the file has the path of a platform's library."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from softcard.attach.opencl.library import NAME, Library
from softcard.core.errors import NotInstalled, SoftcardError

ICD: Final = "softcard.icd"
VENDORS: Final = Path("/etc/OpenCL/vendors")
"""The folder of .icd files that loaders of the system read."""
SYSTEM_LIBRARIES: Final = Path("/usr/local/lib/softcard")
PYOPENCL: Final = "pyopencl"
PYOPENCL_LIBRARIES: Final = ".libs"
"""The folder of pyopencl's package with its own loader, in which this loader finds .icd files."""
LOADERS: Final = "libOpenCL*"


class InstallError(SoftcardError):
    """The error for a platform that cannot be installed or removed."""


class NoPyopencl(InstallError, NotInstalled):
    """The error for a Python environment without a pyopencl that has its own loader."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in which the platform can be installed: the folders of its .icd file and of its library."""

    vendors: Path
    libraries: Path

    @property
    def icd(self) -> Path:
        """The path of the .icd file."""
        return self.vendors / ICD

    @property
    def library(self) -> Path:
        """The path of the installed library."""
        return self.libraries / NAME

    def install(self, library: Library) -> None:
        """Copy the built library, and write the .icd file with its absolute path.

        Every user can read both files. Raise `InstallError` if a file cannot be written.
        """
        _write(self.library, library.path.read_bytes(), 0o755)
        _write(self.icd, os.fsencode(self.library.absolute()) + b"\n", 0o644)

    def uninstall(self) -> list[Path]:
        """Remove the .icd file and the library, and return the removed files.

        Raise `InstallError` if neither is there, or if a file cannot be removed.
        """
        removed = []
        for path in (self.icd, self.library):
            try:
                path.unlink()
            except FileNotFoundError:
                continue
            except OSError as error:
                raise InstallError(f"cannot remove {path}: {error.strerror}") from None
            removed.append(path)
        if not removed:
            raise InstallError(f"cannot find {self.icd}: expected a platform that `softcard opencl install` installed")
        return removed


def of_system() -> Place:
    """Return the place for all programs of this machine."""
    return Place(VENDORS, SYSTEM_LIBRARIES)


def of_prefix(folder: Path) -> Place:
    """Return the place in the prefix `folder`, for instance that of a conda environment.

    Raise `InstallError` if the folder does not exist.
    """
    if not folder.is_dir():
        raise InstallError(
            f"cannot find the folder {folder}: expected the prefix of an installation, such as $CONDA_PREFIX"
        )
    whole = folder.absolute()
    return Place(whole / "etc" / "OpenCL" / "vendors", whole / "lib" / "softcard")


def of_pyopencl() -> Place:
    """Return the place for the pyopencl of the running Python.

    Raise `NoPyopencl` if it is missing, or if it does not have its own loader, which reads the place."""
    found = find_spec(PYOPENCL)
    if found is None or found.origin is None:
        raise NoPyopencl("pyopencl is not installed: pip install pyopencl")
    folder = Path(found.origin).parent / PYOPENCL_LIBRARIES
    if not any(folder.glob(LOADERS)):
        raise NoPyopencl(
            f"{folder} has no OpenCL loader: expected the pyopencl of PyPI; for another one install the platform by "
            "--prefix $CONDA_PREFIX, or --system"
        )
    return Place(folder, folder)


def places() -> Iterator[tuple[str, Place]]:
    """Yield the places that loaders of this environment read, each with the name of the programs concerned."""
    with suppress(NoPyopencl):
        yield PYOPENCL, of_pyopencl()
    if conda := os.environ.get("CONDA_PREFIX"):
        with suppress(InstallError):
            yield "conda", of_prefix(Path(conda))
    yield "system", of_system()


def vendors(library: Library) -> Path:
    """Return a folder with an .icd file for a built library; the folder has no other file."""
    folder = library.folder.parent / "vendors"
    icd = folder / ICD
    text = os.fsencode(library.path) + b"\n"
    if not icd.is_file() or icd.read_bytes() != text:
        _write(icd, text, 0o600)
    return folder


def _write(path: Path, data: bytes, mode: int) -> None:
    """Write a file with a mode; programs that open it meanwhile find the old file or the whole new one."""
    made = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, made = tempfile.mkstemp(dir=path.parent)
        with open(descriptor, "wb") as file:
            file.write(data)
        os.chmod(made, mode)
        os.replace(made, path)
    except OSError as error:
        if made:
            Path(made).unlink(missing_ok=True)
        raise InstallError(f"cannot write {path}: {error.strerror}") from None
