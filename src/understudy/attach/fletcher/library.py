"""``libfletcher_understudy.so``: compiled at first use with the C compiler of the machine, kept in the user's cache."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from understudy.core.errors import UnderstudyError
from understudy.core.own_files import OPEN_FLAGS, is_own, own_bytes

SOURCE: Final = Path(__file__).with_name("platform.c")
AUTODETECTED: Final = ("oc-accel", "snap", "aws", "echo")
"""Platforms that a run-time tries in this order when a program names none."""
FLAGS: Final = ("-std=c11", "-D_GNU_SOURCE", "-D_DARWIN_C_SOURCE", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")
SUFFIX: Final = ".dylib" if sys.platform == "darwin" else ".so"
SEARCH_PATH: Final = "DYLD_LIBRARY_PATH" if sys.platform == "darwin" else "LD_LIBRARY_PATH"
SOCKET_VARIABLE: Final = "UNDERSTUDY_FLETCHER_SOCKET"
COMPILE_TIMEOUT_S: Final = 120
DIGEST: Final = "sha256"
"""The file with the digest of the library beside it."""


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
        """Variables with which a host program finds the library, and the library the server's socket.

        What this process has in the search path itself is still found behind it.
        """
        folder = self.autodetected if autodetect else self.folder
        path = os.pathsep.join(filter(None, (str(folder), os.environ.get(SEARCH_PATH, ""))))
        return {SEARCH_PATH: path, SOCKET_VARIABLE: str(Path(socket).absolute())}

    def shell_environment(self, socket: str | Path, *, autodetect: bool = False) -> str:
        """The same as assignments in a shell, before whatever search path that has."""
        folder = shlex.quote(str(self.autodetected if autodetect else self.folder))
        own = shlex.quote(str(Path(socket).absolute()))
        return f"{SEARCH_PATH}={folder}${{{SEARCH_PATH}:+:${SEARCH_PATH}}} {SOCKET_VARIABLE}={own}"


def default_socket() -> Path:
    """The socket of servers and libraries that are told none: in a folder that nobody else can write to.

    That is the user's run-time folder, else the one where libraries are kept; `LibraryError` for a user without either.
    """
    base = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    if base.is_absolute() and _is_private(base):
        return base / "understudy-fletcher.sock"
    try:
        return default_folder() / "socket"
    except RuntimeError as error:
        raise LibraryError(f"there is no folder for a socket: {error}") from None


def _socket_of_the_build() -> str:
    """The default socket; "" for a user without a home, who has to name one."""
    try:
        return str(default_socket())
    except LibraryError:
        return ""


def default_folder() -> Path:
    """Where libraries are kept unless told otherwise: the user's cache folder."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # such a value is to be ignored
        base = Path.home() / ".cache"
    return base / "understudy" / "fletcher"


def build_library(folder: Path | None = None, *, compiler: str = "") -> Library:
    """The library, compiled with `compiler` ($CC, else cc, gcc or clang) unless that was done before.

    A library that was changed since, or that somebody else could change, is compiled again. `LibraryError` where that
    fails, with what the compiler said, or where somebody else can write to its folder.
    """
    command = _compiler(compiler)
    source = SOURCE.read_bytes()
    try:
        options = [*FLAGS, f"-DDEFAULT_SOCKET={_c_string(_socket_of_the_build())}"]
        key = hashlib.sha256(repr((command, options)).encode() + source).hexdigest()[:16]
        base = (folder or default_folder()) / key
        library = Library(base / "named", base / "autodetected")
        for each in (base.parent, base, library.folder, library.autodetected):
            make_private(each)
        if not _is_complete(library, base):
            _build(library, base, [*command, *options])
    except (OSError, RuntimeError) as error:  # RuntimeError: a user without a home
        raise LibraryError(f"the platform library cannot be written: {error}") from None
    return library


def make_private(folder: Path) -> None:
    """Make a folder unless it is there; `LibraryError` unless it is the user's, and nobody else can write to it.

    The default one is ours to close to others, where the user's umask has left it open.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(RuntimeError):  # a user without a home
            if folder == default_folder():
                _close_to_others(folder)
    except OSError as error:
        raise LibraryError(f"cannot make a folder of the user's own at {folder}: {error.strerror}") from None
    if not _is_private(folder):
        raise LibraryError(
            f"somebody else can write to {folder}, or it is a link: expected a folder of the user's own with mode 0700"
        )


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


def _close_to_others(folder: Path) -> None:
    descriptor = os.open(folder, OPEN_FLAGS | os.O_DIRECTORY)
    try:
        if is_own(os.fstat(descriptor), 0):
            os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def _is_private(folder: Path) -> bool:
    """Whether it is a folder, no link to one, of the user's own, and nobody else can write to it."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and is_own(found)


def _is_complete(library: Library, base: Path) -> bool:
    """Whether all files are as they were built, and the folders, which programs search, hold nothing else."""
    folders = (library.folder, (library.path.name,)), (library.autodetected, _autodetected_files(library))
    try:
        digest = own_bytes(base / DIGEST)
        return all(
            sorted(os.listdir(folder)) == sorted(names)
            and all(_digest(own_bytes(folder / name)) == digest for name in names)
            for folder, names in folders
        )
    except OSError:
        return False


def _autodetected_files(library: Library) -> tuple[str, ...]:
    return (library.path.name, *(f"libfletcher_{name}{SUFFIX}" for name in AUTODETECTED))


def _build(library: Library, base: Path, command: list[str]) -> None:
    """Compile into a folder of its own, then move: another process may do the same at the same time."""
    with tempfile.TemporaryDirectory(dir=base) as scratch:
        made = Path(scratch, "library")
        _run([*command, str(SOURCE), "-o", str(made), "-lpthread"])
        data = made.read_bytes()
        targets = [library.autodetected / name for name in _autodetected_files(library)] + [library.path]
        for folder in (library.folder, library.autodetected):
            for foreign in set(folder.iterdir()) - set(targets):
                shutil.rmtree(foreign) if foreign.is_dir() and not foreign.is_symlink() else foreign.unlink()
        for target, content in (*((each, data) for each in targets), (base / DIGEST, _digest(data))):
            copy = Path(scratch, "copy")
            copy.touch(0o700)
            copy.write_bytes(content)
            os.replace(copy, target)


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest().encode()


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMPILE_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise LibraryError(f"the compiler has not ended after {COMPILE_TIMEOUT_S} s: {shlex.join(command)}") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip() or f"exit status {done.returncode}"
        raise LibraryError(f"the compiler refused the platform library ({shlex.join(command)}): {said}")
