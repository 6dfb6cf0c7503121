"""The platform library is compiled once, under all its names, or it is said why not."""

from __future__ import annotations

import ctypes
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from softcard.attach.fletcher import AUTODETECTED, Library, build_library, default_socket
from softcard.attach.fletcher.library import SEARCH_PATH, SOCKET_VARIABLE, SUFFIX, LibraryError, default_folder
from tests.attach.fletcher.rig import NAMES, needs_compiler


@needs_compiler
def test_it_is_built_once_and_has_all_names(tmp_path: Path) -> None:
    library = build_library(tmp_path)
    assert [path.name for path in library.folder.iterdir()] == [f"libfletcher_softcard{SUFFIX}"]
    assert {path.name for path in library.autodetected.iterdir()} == {
        f"libfletcher_{name}{SUFFIX}" for name in ("softcard", *AUTODETECTED)
    }
    built = library.path.stat().st_mtime_ns
    assert build_library(tmp_path) == library
    assert library.path.stat().st_mtime_ns == built
    for path in (library.path, *library.autodetected.iterdir()):
        loaded = ctypes.CDLL(str(path))
        assert all(hasattr(loaded, name) for name in NAMES)


@needs_compiler
def test_what_is_missing_is_built_again(tmp_path: Path) -> None:
    library = build_library(tmp_path)
    (library.autodetected / f"libfletcher_snap{SUFFIX}").unlink()
    build_library(tmp_path)
    assert (library.autodetected / f"libfletcher_snap{SUFFIX}").exists()


@needs_compiler
def test_its_name_fits_what_room_there_is(tmp_path: Path) -> None:
    library = ctypes.CDLL(str(build_library(tmp_path).path))
    library.platformGetName.restype = ctypes.c_uint64
    room = ctypes.create_string_buffer(6)
    assert library.platformGetName(room, ctypes.c_size_t(6)) == 0
    assert room.value == b"softc"
    assert library.platformGetName(room, ctypes.c_size_t(0)) == 1
    assert library.platformGetName(None, ctypes.c_size_t(6)) == 1


def test_the_environment_of_host_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(tmp_path / "a", tmp_path / "b")
    monkeypatch.delenv(SEARCH_PATH, raising=False)
    assert library.environment("/s") == {SEARCH_PATH: str(tmp_path / "a"), SOCKET_VARIABLE: "/s"}
    assert library.environment("/s", autodetect=True)[SEARCH_PATH] == str(tmp_path / "b")
    monkeypatch.setenv(SEARCH_PATH, "/mine:/theirs")
    assert library.environment("/s")[SEARCH_PATH] == f"{tmp_path / 'a'}:/mine:/theirs"


@pytest.mark.parametrize(
    ("before", "behind"), [({}, ""), ({SEARCH_PATH: ""}, ""), ({SEARCH_PATH: "/my libs"}, ":/my libs")]
)
def test_the_environment_as_a_shell_takes_it(before: dict[str, str], behind: str) -> None:
    text = Library(Path("/a b"), Path("/c")).shell_environment("/so cket")
    look = f'import os; print(os.environ["{SEARCH_PATH}"], os.environ["{SOCKET_VARIABLE}"])'
    environment = {key: value for key, value in os.environ.items() if key != SEARCH_PATH} | before
    done = subprocess.run(
        ["sh", "-c", f"{text} {sys.executable} -c '{look}'"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"/a b{behind} /so cket\n"


# ---- who may have written it ----------------------------------------------------------------------------------------


def changed(path: Path) -> None:
    path.chmod(0o600)
    path.write_bytes(path.read_bytes() + b"!")


def linked(path: Path) -> None:
    other = path.parents[2] / "other"
    other.write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to(other)


def piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def beside(path: Path) -> None:
    (path.parent / "libarrow.so.500").write_bytes(b"a library that programs would find here first")
    (path.parent / "folder").mkdir()
    (path.parent / "folder" / "file").write_text("")


@needs_compiler
@pytest.mark.parametrize("where", ["named", "autodetected"])
@pytest.mark.parametrize("harm", [changed, linked, piped, beside, lambda path: path.chmod(0o722)])
def test_what_somebody_has_changed_is_built_again(tmp_path: Path, where: str, harm: Callable[[Path], None]) -> None:
    library = build_library(tmp_path)
    base = library.folder.parent
    target = base / where / library.path.name
    honest = target.read_bytes()
    harm(target)
    assert build_library(tmp_path) == library
    assert target.read_bytes() == honest
    assert stat.S_ISREG(target.lstat().st_mode)
    assert not target.stat().st_mode & 0o022
    assert sorted(path.name for path in (base / where).iterdir()) == sorted(
        path.name for path in (build_library(tmp_path / "new").folder.parent / where).iterdir()
    )
    built = target.stat().st_mtime_ns
    build_library(tmp_path)
    assert target.stat().st_mtime_ns == built


@needs_compiler
@pytest.mark.parametrize("depth", range(3))
def test_folders_that_somebody_else_can_write_to(tmp_path: Path, depth: int) -> None:
    library = build_library(tmp_path / "cache")
    folder = [library.folder, *library.folder.parents][depth]
    folder.chmod(0o777)
    with pytest.raises(LibraryError, match=f"{folder} is a link or other users can write to it: expected"):
        build_library(tmp_path / "cache")
    folder.chmod(0o700)
    folder.rename(tmp_path / "moved")
    folder.symlink_to(tmp_path / "moved")
    with pytest.raises(LibraryError, match=f"{folder} is a link or other users can write to it"):
        build_library(tmp_path / "cache")


@needs_compiler
def test_a_user_without_a_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("XDG_RUNTIME_DIR", "XDG_CACHE_HOME", SOCKET_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    library = ctypes.CDLL(str(build_library(tmp_path).path))
    library.platformInit.restype = ctypes.c_uint64
    assert library.platformInit(None) == 2
    assert f"set {SOCKET_VARIABLE} to the socket of" in capfd.readouterr().err
    with pytest.raises(LibraryError, match="the platform library: Could not determine home directory"):
        build_library()
    with pytest.raises(LibraryError, match="cannot make a folder for the socket: Could not determine home directory"):
        default_socket()


@needs_compiler
def test_the_default_folder_is_closed_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an umask of 002 leaves it open to a group."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    default_folder().mkdir(parents=True)
    default_folder().chmod(0o775)
    build_library()
    assert stat.S_IMODE(default_folder().stat().st_mode) == 0o700
    default_folder().rename(tmp_path / "moved")
    default_folder().symlink_to(tmp_path / "moved")
    with pytest.raises(LibraryError, match="cannot make the private folder "):
        build_library()


@needs_compiler
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else(tmp_path: Path) -> None:
    library = build_library(tmp_path / "cache")
    os.chown(library.folder, 4711, -1)
    with pytest.raises(LibraryError, match="other users can write to"):
        build_library(tmp_path / "cache")


def test_there_is_no_compiler(tmp_path: Path) -> None:
    with pytest.raises(
        LibraryError,
        match=r"needs a C compiler, but none was found \(tried no-such-cc\): install one, or set CC to its path",
    ):
        build_library(tmp_path, compiler="no-such-cc")


def test_there_is_no_compiler_of_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("softcard.attach.library.find_spec", lambda name: None)
    with pytest.raises(
        LibraryError, match=r"none was found \(tried cc, gcc, clang, ziglang\).*; pip install ziglang suf"
    ):
        build_library(tmp_path)


@pytest.mark.slow(seconds=7)
@pytest.mark.skipif(not find_spec("ziglang"), reason="no ziglang: pip install 'softcard[kernels]'")
def test_the_compiler_of_pip_suffices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without cc, gcc and clang can still use host programs that are there."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    loaded = ctypes.CDLL(str(build_library(tmp_path / "cache").path))
    assert all(hasattr(loaded, name) for name in NAMES)


def test_the_compiler_refuses(tmp_path: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'line 1: no' >&2\nexit 3\n")
    compiler.chmod(0o755)
    with pytest.raises(
        LibraryError, match=r"the compiler refused the platform library \(.*cc -std=c11 .*\): line 1: no"
    ):
        build_library(tmp_path / "cache", compiler=str(compiler))


def test_the_cache_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LibraryError, match="cannot make the private folder "):
        build_library(tmp_path / "file", compiler="true")


def test_default_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert default_socket() == tmp_path / "softcard-fletcher.sock"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert default_folder() == Path.home() / ".cache" / "softcard" / "fletcher"


def test_no_socket_is_expected_where_others_can_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever makes a socket of a name that can be guessed would be taken for the server."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o1777)
    (tmp_path / "link").symlink_to(tmp_path)
    for folder in ("relative", "", str(open_to_all), str(tmp_path / "nothing"), str(tmp_path / "link")):
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        assert default_socket() == tmp_path / "cache" / "softcard" / "fletcher" / "socket"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert default_socket() == tmp_path / "cache" / "softcard" / "fletcher" / "socket"


@needs_compiler
def test_a_default_socket_of_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / 'q"uo\\te žluť 1'
    folder.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.delenv(SOCKET_VARIABLE, raising=False)
    library = ctypes.CDLL(str(build_library(tmp_path).path))
    library.platformInit.restype = ctypes.c_uint64
    assert library.platformInit(None) == 2
    assert (
        f"cannot connect to the device at {folder / 'softcard-fletcher.sock'} (No such file or directory)"
        in capfd.readouterr().err
    )
