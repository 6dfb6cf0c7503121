"""The cache's folder: nothing that another user can have put there is ever run, and nothing of his is deleted."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from softcard.ir import object_cache
from softcard.ir.object_cache import ObjectCache

KEY = "0" * 64
POISON = b"somebody else's code"


def sealed(image: bytes) -> bytes:
    """A file as the cache writes it: the digest has no key, so anybody can make one."""
    return object_cache._seal(KEY, image) + image


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cache's folder that holds a good file; beside it, a file that others may write, with a fitting seal."""
    (tmp_path / "poison").write_bytes(sealed(POISON))
    (tmp_path / "poison").chmod(0o666)
    ObjectCache(tmp_path / "code").put(KEY, b"object")
    return tmp_path / "code"


@pytest.mark.parametrize("target", ["poison", "mine"])
def test_a_file_that_is_a_link_is_a_miss(folder: Path, target: str) -> None:
    (folder / KEY).rename(folder.parent / "mine")
    (folder / KEY).symlink_to(folder.parent / target)
    assert ObjectCache(folder).get(KEY) is None
    ObjectCache(folder).put(KEY, b"new")
    assert ObjectCache(folder).get(KEY) == b"new", "the link is replaced"
    assert (folder.parent / "poison").read_bytes() == sealed(POISON), "nothing is written through it"


@pytest.mark.parametrize("kind", ["fifo", "device", "folder"])
def test_what_is_no_file_is_a_miss_and_does_not_block(folder: Path, kind: str) -> None:
    (folder / KEY).unlink()
    if kind == "fifo":
        os.mkfifo(folder / KEY)
    elif kind == "device":
        (folder / KEY).symlink_to("/dev/zero")
    else:
        (folder / KEY).mkdir()
    assert ObjectCache(folder).get(KEY) is None


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o755, 0o710, 0o701])
def test_a_folder_that_others_may_enter_is_a_miss_until_it_is_made_private(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    assert ObjectCache(folder).get(KEY) is None
    ObjectCache(folder).put("1" * 64, b"other")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert ObjectCache(folder).get("1" * 64) == b"other"


def test_a_folder_that_cannot_be_made_private_is_as_if_there_were_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise PermissionError("no such rights here")

    for chmod in (refuse, lambda *arguments: None):  # a file system that says no, and one that does nothing
        monkeypatch.setattr(os, "fchmod", chmod)
        folder.chmod(0o777)
        cache = ObjectCache(folder)
        assert cache.get(KEY) is None
        cache.put("1" * 64, b"other")
        assert cache.get("1" * 64) == b"other", "memory serves"
        assert [path.name for path in folder.iterdir()] == [KEY]


def test_somebody_elses_folder_is_a_miss_and_stays_as_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    folder.chmod(0o777)
    cache = ObjectCache(folder, limit_bytes=1)
    assert cache.get(KEY) is None
    cache.put("1" * 64, bytes(1000))
    assert [path.name for path in folder.iterdir()] == [KEY]
    assert folder.stat().st_mode & 0o777 == 0o777


def test_a_link_in_place_of_the_folder_is_not_followed(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder)
    cache = ObjectCache(link, limit_bytes=1)
    assert cache.get(KEY) is None
    cache.put("1" * 64, bytes(1000))
    assert [path.name for path in folder.iterdir()] == [KEY], "nothing is written, nothing pruned"


def test_pruning_deletes_files_of_the_cache_alone(folder: Path, tmp_path: Path) -> None:
    valued = tmp_path / "valued"
    valued.write_bytes(bytes(5000))
    (folder / "thesis.tex").write_bytes(bytes(5000))
    (folder / ("2" * 64)).symlink_to(valued)
    (folder / ("3" * 64)).mkdir()
    (folder / ".new-0123456789abcdef").write_bytes(bytes(5000))  # of a process that was killed
    for path in (folder / "thesis.tex", folder / KEY, folder / ".new-0123456789abcdef"):
        os.utime(path, (1000, 1000))
    ObjectCache(folder, limit_bytes=1500).put("1" * 64, bytes(1000))
    assert sorted(path.name for path in folder.iterdir()) == ["1" * 64, "2" * 64, "3" * 64, "thesis.tex"]
    assert valued.stat().st_size == 5000


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_file_that_is_exchanged_between_two_looks_is_never_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Another user who can write to the parent folder exchanges the file at the worst moment: after each call on it."""
    files = {"good": folder.parent / "good", "poison": folder.parent / "poison"}
    (folder / KEY).rename(files["good"])

    def place(name: str) -> None:
        new = folder / "new"
        new.unlink(missing_ok=True)
        new.symlink_to(files[name]) if kind == "link" else os.link(files[name], new)
        rename(new, folder / KEY)

    rename = os.rename
    originals = {call: getattr(os, call) for call in ("stat", "fstat", "lstat", "open")}
    for call, real in originals.items():
        place("good")

        def looked(*arguments: object, real: object = real, **named: object) -> object:
            found = real(*arguments, **named)  # type: ignore[operator]
            with monkeypatch.context() as inner:
                for each, original in originals.items():
                    inner.setattr(os, each, original)
                place("poison")
            return found

        with monkeypatch.context() as patched:
            patched.setattr(os, call, looked)
            found = ObjectCache(folder).get(KEY)
        assert found in (None, b"object"), f"exchanged after {call}"


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_file_that_flips_all_the_time_is_never_run(folder: Path, kind: str) -> None:
    files = [folder.parent / "good", folder.parent / "poison"]
    (folder / KEY).rename(files[0])
    stop = threading.Event()

    def flip() -> None:
        new = folder / "new"
        while not stop.is_set():
            for file in files:
                new.unlink(missing_ok=True)
                new.symlink_to(file) if kind == "link" else os.link(file, new)
                os.rename(new, folder / KEY)

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        found = [ObjectCache(folder).get(KEY) for _ in range(5000)]
    finally:
        stop.set()
        thread.join()
    assert set(found) <= {None, b"object"}
