"""``libfletcher_understudy.so``: compiled at first use with the C compiler of the machine, kept in the user's cache."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from understudy.core.errors import UnderstudyError

SOURCE: Final = Path(__file__).with_name("platform.c")
AUTODETECTED: Final = ("oc-accel", "snap", "aws", "echo")
"""Platforms that a run-time tries in this order when a program names none."""
FLAGS: Final = ("-std=c11", "-D_GNU_SOURCE", "-D_DARWIN_C_SOURCE", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")
SUFFIX: Final = ".dylib" if sys.platform == "darwin" else ".so"
SEARCH_PATH: Final = "DYLD_LIBRARY_PATH" if sys.platform == "darwin" else "LD_LIBRARY_PATH"
SOCKET_VARIABLE: Final = "UNDERSTUDY_FLETCHER_SOCKET"
COMPILE_TIMEOUT_S: Final = 120


class LibraryError(UnderstudyError):
    """The platform library cannot be made: no compiler, no folder, or the compiler refused."""


@dataclass(frozen=True, slots=True)
class Library:
    """A built library: `folder` holds it under its own name, `autodetected` under those of `AUTODETECTED` too."""

    folder: Path
    autodetected: Path

    @property
    def path(self) -> Path:
        """The library."""
        return self.folder / f"libfletcher_understudy{SUFFIX}"

    def environment(self, socket: str | Path, *, autodetect: bool = False) -> dict[str, str]:
        """Variables with which a host program finds the library, and the library the server's socket."""
        folder = self.autodetected if autodetect else self.folder
        return {SEARCH_PATH: str(folder), SOCKET_VARIABLE: str(Path(socket).absolute())}


def default_socket() -> Path:
    """The socket of servers and libraries that are told none: in the user's run-time folder."""
    base = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    if base.is_absolute() and base.is_dir():
        return base / "understudy-fletcher.sock"
    return Path(tempfile.gettempdir()) / f"understudy-fletcher-{os.getuid()}.sock"


def default_folder() -> Path:
    """Where libraries are kept unless told otherwise: the user's cache folder."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # such a value is to be ignored
        base = Path.home() / ".cache"
    return base / "understudy" / "fletcher"


def build_library(folder: Path | None = None, *, compiler: str = "") -> Library:
    """The library, compiled with `compiler` ($CC, else cc, gcc or clang) unless that was done before.

    `LibraryError` where that fails, with what the compiler said.
    """
    command = _compiler(compiler)
    source = SOURCE.read_bytes()
    options = [*FLAGS, f"-DDEFAULT_SOCKET={_c_string(str(default_socket()))}"]
    key = hashlib.sha256(repr((command, options)).encode() + source).hexdigest()[:16]
    try:
        base = (folder or default_folder()) / key
        library = Library(base / "named", base / "autodetected")
        if not _is_complete(library):
            _build(library, base, [*command, *options])
    except (OSError, RuntimeError) as error:  # RuntimeError: a user without a home
        raise LibraryError(f"the platform library cannot be written: {error}") from None
    return library


def _c_string(text: str) -> str:
    """A C string literal, every byte of it written out that is no plain character."""
    plain = (
        chr(byte) if (byte < 128 and chr(byte).isalnum()) or byte in b"/._-" else f"\\{byte:03o}"
        for byte in text.encode()
    )
    return f'"{"".join(plain)}"'


def _compiler(given: str) -> list[str]:
    wanted = shlex.split(given or os.environ.get("CC", ""))
    for candidate in [wanted] if wanted else [["cc"], ["gcc"], ["clang"]]:
        if found := shutil.which(candidate[0]):
            return [found, *candidate[1:]]
    tried = wanted[0] if wanted else "cc, gcc, clang"
    raise LibraryError(f"the platform library needs a C compiler, none found (tried {tried}): set CC to one")


def _is_complete(library: Library) -> bool:
    return library.path.exists() and all((library.autodetected / _file(name)).exists() for name in AUTODETECTED)


def _file(name: str) -> str:
    return f"libfletcher_{name}{SUFFIX}"


def _build(library: Library, base: Path, command: list[str]) -> None:
    """Compile into a folder of its own, then move: another process may do the same at the same time."""
    base.mkdir(parents=True, exist_ok=True, mode=0o700)
    for folder in (library.folder, library.autodetected):
        folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=base) as scratch:
        made = Path(scratch, "library")
        _run([*command, str(SOURCE), "-o", str(made), "-lpthread"])
        for name in AUTODETECTED:
            shutil.copyfile(made, Path(scratch, name))
            os.replace(Path(scratch, name), library.autodetected / _file(name))
        shutil.copyfile(made, Path(scratch, "copy"))
        os.replace(Path(scratch, "copy"), library.autodetected / library.path.name)
        os.replace(made, library.path)


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMPILE_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise LibraryError(f"the compiler has not ended after {COMPILE_TIMEOUT_S} s: {shlex.join(command)}") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip() or f"exit status {done.returncode}"
        raise LibraryError(f"the compiler refused the platform library ({shlex.join(command)}): {said}")
