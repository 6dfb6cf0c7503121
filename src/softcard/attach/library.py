"""Libraries in C that host programs load: compiled at first use with the machine's C compiler, and cached.

``host.h`` has the code that all these libraries share: the client end of the socket connection."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from softcard.core.errors import NotInstalled, SoftcardError
from softcard.core.files import OPEN_FLAGS, is_own, own_bytes

HEADER: Final = Path(__file__).with_name("host.h")
FLAGS: Final = ("-std=c11", "-D_GNU_SOURCE", "-D_DARWIN_C_SOURCE", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")
SUFFIX: Final = ".dylib" if sys.platform == "darwin" else ".so"
SEARCH_PATH: Final = "DYLD_LIBRARY_PATH" if sys.platform == "darwin" else "LD_LIBRARY_PATH"
ZIG: Final = "ziglang"
"""The package with a C compiler and a C library."""
COMPILE_TIMEOUT_S: Final = 120
DIGEST: Final = "sha256"
"""The name of the file next to the library that holds the library's digest."""


class LibraryError(SoftcardError):
    """The error for a library that cannot be built: no compiler, no folder, or the compiler failed."""


class NoLibraryCompiler(LibraryError, NotInstalled):
    """The error for a machine without a C compiler."""


@dataclass(frozen=True, slots=True)
class HostLibrary:
    """The source of a library: its `name` in messages, its C file, and the file names that programs search for.

    `interface` is the name of the library's folder in the user's cache and of its default socket.
    `socket_variable` is the environment variable that contains the path of the server's socket. `folders` maps
    each folder that a search path may contain to file names; the library is installed under all these names.
    `includes` has the header folders in addition to the folder of this package, and `flags` has the compiler
    options in addition to `FLAGS`. `generated` returns the texts of headers that are generated, by file name."""

    name: str
    interface: str
    source: Path
    socket_variable: str
    folders: Mapping[str, tuple[str, ...]]
    includes: tuple[Path, ...] = ()
    flags: tuple[str, ...] = ()
    generated: Callable[[], Mapping[str, str]] = dict

    def default_folder(self) -> Path:
        """Return the library's default folder, in the user's cache folder."""
        return _cache() / self.interface

    def default_socket(self) -> Path:
        """Return the default socket path of servers and libraries; only this user can write to its folder.

        The folder is the user's run-time folder, or else the folder where libraries are cached. Raise `LibraryError`
        for a user who has neither.
        """
        base = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
        if base.is_absolute() and _is_private(base):
            return base / f"softcard-{self.interface}.sock"
        try:
            return self.default_folder() / "socket"
        except RuntimeError as error:
            raise LibraryError(f"cannot make a folder for the socket: {error}") from None

    def build(self, folder: Path | None = None, *, compiler: str = "") -> Path:
        """Build the library unless it is up to date; return the folder that contains the subfolders in `folders`.

        `compiler` is the C compiler; by default $CC, or else cc, gcc, clang or ziglang's. A library is compiled again
        if it has changed since it was built, or if another user could change it. Raise `LibraryError` with the
        compiler's output if the compilation fails, and also if another user can write to the folder.
        """
        command = _compiler(self.name, compiler)
        try:
            options = [*FLAGS, *self.flags, f"-DDEFAULT_SOCKET={_c_string(self._socket_of_the_build())}"]
            headers = self.generated()
            sources = b"".join(path.read_bytes() for path in self._sources()) + repr(headers).encode()
            key = hashlib.sha256(repr((command, options)).encode() + sources).hexdigest()[:16]
            base = (folder or self.default_folder()) / key
            for each in (base.parent, base, *(base / name for name in self.folders)):
                make_private(each)
            if not self._is_complete(base):
                self._compile(base, [*command, *options], headers)
        except (OSError, RuntimeError) as error:  # RuntimeError: a user without a home
            raise LibraryError(f"cannot write the {self.name}: {error}") from None
        return base

    def _sources(self) -> list[Path]:
        """Return every file that the library is built from."""
        return [self.source, HEADER, *(path for folder in self.includes for path in sorted(folder.rglob("*.h")))]

    def _socket_of_the_build(self) -> str:
        """Return the default socket that the library is built with; "" for a user without a home folder.

        Such a user has to name a socket in the environment variable.
        """
        try:
            return str(self.default_socket())
        except LibraryError:
            return ""

    def _is_complete(self, base: Path) -> bool:
        """Return True if the folders in `base` that programs search contain exactly the built files, unchanged."""
        try:
            digest = own_bytes(base / DIGEST)
            return all(
                sorted(os.listdir(base / folder)) == sorted(names)
                and all(_digest(own_bytes(base / folder / name)) == digest for name in names)
                for folder, names in self.folders.items()
            )
        except OSError:
            return False

    def _compile(self, base: Path, command: list[str], headers: Mapping[str, str]) -> None:
        """Compile the library with the generated `headers` into a new folder, and then move its files to `base`.

        Other processes, which may compile at the same time, therefore never find incomplete files."""
        with tempfile.TemporaryDirectory(dir=base) as scratch:
            made = Path(scratch, "library")
            for name, text in headers.items():
                Path(scratch, name).write_text(text, "utf-8")
            folders = [f"-I{folder}" for folder in (HEADER.parent, *self.includes, *([scratch] if headers else []))]
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
            output = (done.stderr or done.stdout).strip() or f"exit status {done.returncode}"
            raise LibraryError(f"the compiler refused the {self.name} ({shlex.join(command)}): {output}")


def environment(folder: Path, socket_variable: str, socket: str | Path) -> dict[str, str]:
    """Return the environment variables that let a host program find the library and the library find `socket`.

    `folder` holds the library. The variable for the library search path has this folder, followed by the search path of
    this process.
    """
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get(SEARCH_PATH, ""))))
    return {SEARCH_PATH: path, socket_variable: str(Path(socket).absolute())}


def shell_environment(folder: Path, socket_variable: str, socket: str | Path) -> str:
    """Return the variables of `environment` as shell assignments, which put `folder` before the shell's search path."""
    quoted, own = shlex.quote(str(folder)), shlex.quote(str(Path(socket).absolute()))
    return f"{SEARCH_PATH}={quoted}${{{SEARCH_PATH}:+:${SEARCH_PATH}}} {socket_variable}={own}"


def make_private(folder: Path) -> None:
    """Make `folder` unless it exists; raise `LibraryError` unless only this user owns it and can write to it.

    The user's umask may have let other users write to folders in Softcard's cache folder. Other users lose this
    permission."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(RuntimeError):  # a user without a home
            if folder.parent == _cache():
                _close_to_others(folder)
    except OSError as error:
        raise LibraryError(f"cannot make the private folder {folder}: {error.strerror}") from None
    if not _is_private(folder):
        raise LibraryError(
            f"{folder} is a link or other users can write to it: expected a folder that the user owns, with mode 0700"
        )


def _cache() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # the XDG specification: such a value is to be ignored
        base = Path.home() / ".cache"
    return base / "softcard"


def _c_string(text: str) -> str:
    """Return a C string literal, with an escape for every byte that is not a plain character."""
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
    if not wanted and find_spec(ZIG) is not None:
        return [sys.executable, "-m", ZIG, "cc"]
    tried = wanted[0] if wanted else f"cc, gcc, clang, {ZIG}"
    raise NoLibraryCompiler(
        f"the {name} needs a C compiler, but none was found (tried {tried}): install one, or set CC to its path; "
        f"pip install {ZIG} suffices"
    )


def _close_to_others(folder: Path) -> None:
    descriptor = os.open(folder, OPEN_FLAGS | os.O_DIRECTORY)
    try:
        if is_own(os.fstat(descriptor), 0):
            os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def _is_private(folder: Path) -> bool:
    """Return True if `folder` is a folder, not a link, owned by this user and writable by no other user."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and is_own(found)


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest().encode()
