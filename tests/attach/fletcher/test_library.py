"""The platform library is compiled once, under all its names, or it is said why not."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from understudy.attach.fletcher import AUTODETECTED, build_library, default_socket
from understudy.attach.fletcher.library import SEARCH_PATH, SOCKET_VARIABLE, SUFFIX, LibraryError, default_folder

from .rig import NAMES, needs_compiler


@needs_compiler
def test_it_is_built_once_and_has_all_names(tmp_path: Path) -> None:
    library = build_library(tmp_path)
    assert [path.name for path in library.folder.iterdir()] == [f"libfletcher_understudy{SUFFIX}"]
    assert {path.name for path in library.autodetected.iterdir()} == {
        f"libfletcher_{name}{SUFFIX}" for name in ("understudy", *AUTODETECTED)
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
    assert room.value == b"under"
    assert library.platformGetName(room, ctypes.c_size_t(0)) == 1
    assert library.platformGetName(None, ctypes.c_size_t(6)) == 1


def test_the_environment_of_host_programs(tmp_path: Path) -> None:
    from understudy.attach.fletcher import Library

    library = Library(tmp_path / "a", tmp_path / "b")
    assert library.environment("/s") == {SEARCH_PATH: str(tmp_path / "a"), SOCKET_VARIABLE: "/s"}
    assert library.environment("/s", autodetect=True)[SEARCH_PATH] == str(tmp_path / "b")


def test_there_is_no_compiler(tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match=r"needs a C compiler, none found \(tried no-such-cc\): set CC to one"):
        build_library(tmp_path, compiler="no-such-cc")


def test_there_is_no_compiler_of_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(LibraryError, match=r"none found \(tried cc, gcc, clang\)"):
        build_library(tmp_path)


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
    with pytest.raises(LibraryError, match="the platform library cannot be written"):
        build_library(tmp_path / "file", compiler="true")


def test_default_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert default_socket() == tmp_path / "understudy-fletcher.sock"
    monkeypatch.setenv("XDG_RUNTIME_DIR", "relative")
    assert default_socket().is_absolute()
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert default_folder() == Path.home() / ".cache" / "understudy" / "fletcher"


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
    assert f"no device at {folder / 'understudy-fletcher.sock'} (No such file or directory)" in capfd.readouterr().err
