"""Libraries in C that host programs load: compiled at first use with the C compiler of the machine, and kept.

What such a library has in common with others (its end of the socket) is in ``host.h``.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from understudy.core.errors import NotInstalled, UnderstudyError
from understudy.core.own_files import OPEN_FLAGS, is_own, own_bytes

HEADER: Final = Path(__file__).with_name("host.h")
FLAGS: Final = ("-std=c11", "-D_GNU_SOURCE", "-D_DARWIN_C_SOURCE", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")
SUFFIX: Final = ".dylib" if sys.platform == "darwin" else ".so"
SEARCH_PATH: Final = "DYLD_LIBRARY_PATH" if sys.platform == "darwin" else "LD_LIBRARY_PATH"
COMPILE_TIMEOUT_S: Final = 120
DIGEST: Final = "sha256"
"""The file with the digest of the library beside it."""


class LibraryError(UnderstudyError):
    """The library cannot be made: no compiler, no folder, or the compiler refused."""


class NoLibraryCompiler(LibraryError, NotInstalled):
    """There is none that could make it."""


@dataclass(frozen=True, slots=True)
class HostLibrary:
    """A library as it is written: what `name` messages call it, its C file, and the names that programs look for.

    `interface` names its folder in the user's cache and its default socket, `socket_variable` the environment variable
    with that of the server. `folders` has the files of each folder that a search path may contain, all of them the
    same library. `includes` are folders of headers beside our own, `flags` the compiler's beside `FLAGS`.
    """

    name: str
    interface: str
    source: Path
    socket_variable: str
    folders: Mapping[str, tuple[str, ...]]
    includes: tuple[Path, ...] = ()
    flags: tuple[str, ...] = ()

    def default_folder(self) -> Path:
        """Where it is kept unless told otherwise: the user's cache folder."""
        return _cache() / self.interface

    def default_socket(self) -> Path:
        """The socket of servers and libraries that are told none: in a folder that nobody else can write to.

        That is the user's run-time folder, else the one where libraries are kept; `LibraryError` for a user without
        either.
        """
        base = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
        if base.is_absolute() and _is_private(base):
            return base / f"understudy-{self.interface}.sock"
        try:
            return self.default_folder() / "socket"
        except RuntimeError as error:
            raise LibraryError(f"there is no folder for a socket: {error}") from None

    def build(self, folder: Path | None = None, *, compiler: str = "") -> Path:
        """The folder that has the `folders`: compiled with `compiler` ($CC, else cc, gcc or clang), or before.

        A library that was changed since, or that somebody else could change, is compiled again. `LibraryError` where
        that fails, with what the compiler said, or where somebody else can write to its folder.
        """
        command = _compiler(self.name, compiler)
        try:
            options = [*FLAGS, *self.flags, f"-DDEFAULT_SOCKET={_c_string(self._socket_of_the_build())}"]
            sources = b"".join(path.read_bytes() for path in self._sources())
            key = hashlib.sha256(repr((command, options)).encode() + sources).hexdigest()[:16]
            base = (folder or self.default_folder()) / key
            for each in (base.parent, base, *(base / name for name in self.folders)):
                make_private(each)
            if not self._is_complete(base):
                self._compile(base, [*command, *options])
        except (OSError, RuntimeError) as error:  # RuntimeError: a user without a home
            raise LibraryError(f"the {self.name} cannot be written: {error}") from None
        return base

    def _sources(self) -> list[Path]:
        """Every file that the library is made of."""
        return [self.source, HEADER, *(path for folder in self.includes for path in sorted(folder.rglob("*.h")))]

    def _socket_of_the_build(self) -> str:
        """The default socket; "" for a user without a home, who has to name one."""
        try:
            return str(self.default_socket())
        except LibraryError:
            return ""

    def _is_complete(self, base: Path) -> bool:
        """Whether all files are as they were built, and the folders, which programs search, hold nothing else."""
        try:
            digest = own_bytes(base / DIGEST)
            return all(
                sorted(os.listdir(base / folder)) == sorted(names)
                and all(_digest(own_bytes(base / folder / name)) == digest for name in names)
                for folder, names in self.folders.items()
            )
        except OSError:
            return False

    def _compile(self, base: Path, command: list[str]) -> None:
        """Compile into a folder of its own, then move: another process may do the same at the same time."""
        with tempfile.TemporaryDirectory(dir=base) as scratch:
            made = Path(scratch, "library")
            folders = [f"-I{folder}" for folder in (HEADER.parent, *self.includes)]
            self._run([*command, *folders, str(self.source), "-o", str(made), "-lpthread"])
            data = made.read_bytes()
            targets = [base / folder / name for folder, names in self.folders.items() for name in names]
            for folder in self.folders:
                for foreign in set((base / folder).iterdir()) - set(targets):
                    shutil.rmtree(foreign) if foreign.is_dir() and not foreign.is_symlink() else foreign.unlink()
            for target, content in (*((each, data) for each in targets), (base / DIGEST, _digest(data))):
                copy = Path(scratch, "copy")
                copy.touch(0o700)
                copy.write_bytes(content)
                os.replace(copy, target)

    def _run(self, command: list[str]) -> None:
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMPILE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise LibraryError(
                f"the compiler has not ended after {COMPILE_TIMEOUT_S} s: {shlex.join(command)}"
            ) from None
        if done.returncode:
            said = (done.stderr or done.stdout).strip() or f"exit status {done.returncode}"
            raise LibraryError(f"the compiler refused the {self.name} ({shlex.join(command)}): {said}")


def environment(folder: Path, socket_variable: str, socket: str | Path) -> dict[str, str]:
    """Variables with which a host program finds the library in `folder`, and the library the server's socket.

    What this process has in the search path itself is still found behind it.
    """
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get(SEARCH_PATH, ""))))
    return {SEARCH_PATH: path, socket_variable: str(Path(socket).absolute())}


def shell_environment(folder: Path, socket_variable: str, socket: str | Path) -> str:
    """The same as assignments in a shell, before whatever search path that has."""
    quoted, own = shlex.quote(str(folder)), shlex.quote(str(Path(socket).absolute()))
    return f"{SEARCH_PATH}={quoted}${{{SEARCH_PATH}:+:${SEARCH_PATH}}} {socket_variable}={own}"


def make_private(folder: Path) -> None:
    """Make a folder unless it is there; `LibraryError` unless it is the user's, and nobody else can write to it.

    Those in the cache folder are ours to close to others, where the user's umask has left them open.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(RuntimeError):  # a user without a home
            if folder.parent == _cache():
                _close_to_others(folder)
    except OSError as error:
        raise LibraryError(f"cannot make a folder of the user's own at {folder}: {error.strerror}") from None
    if not _is_private(folder):
        raise LibraryError(
            f"somebody else can write to {folder}, or it is a link: expected a folder of the user's own with mode 0700"
        )


def _cache() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # such a value is to be ignored
        base = Path.home() / ".cache"
    return base / "understudy"


def _c_string(text: str) -> str:
    """A C string literal, every byte of it written out that is no plain character."""
    plain = (
        chr(byte) if (byte < 128 and chr(byte).isalnum()) or byte in b"/._-" else f"\\{byte:03o}"
        for byte in os.fsencode(text)
    )
    return f'"{"".join(plain)}"'


def _compiler(name: str, given: str) -> list[str]:
    wanted = shlex.split(given or os.environ.get("CC", ""))
    for candidate in [wanted] if wanted else [["cc"], ["gcc"], ["clang"]]:
        if found := shutil.which(candidate[0]):
            return [found, *candidate[1:]]
    tried = wanted[0] if wanted else "cc, gcc, clang"
    raise NoLibraryCompiler(f"the {name} needs a C compiler, none found (tried {tried}): set CC to one")


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


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest().encode()
