"""Compiled objects, kept in memory and on disk: what is found again, and what never is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from softcard.engine.riscv.jit.engine import JitEngine
from softcard.engine.riscv.jit.region import Region, discover, region_key
from softcard.ir import llvm
from softcard.ir.object_cache import ObjectCache, default_folder
from tests.engine.riscv.rig import CODE, Rig, fetcher

KEY = "0" * 64
LOOP = "loop: addi x7, x7, 3\naddi x6, x6, -1\nbne x6, x0, loop"


def region(text: str, at: int = CODE, native: bool = True) -> Region:
    return discover(at, fetcher(text, at), frozenset(), native)


def test_round_trip_in_memory() -> None:
    cache = ObjectCache()
    assert cache.get(KEY) is None
    cache.put(KEY, b"object")
    assert cache.get(KEY) == b"object"
    assert ObjectCache().get(KEY) is None


def test_round_trip_on_disk(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    ObjectCache(folder).put(KEY, b"object")
    assert ObjectCache(folder).get(KEY) == b"object"
    assert ObjectCache(folder).get("1" * 64) is None
    assert [path.name for path in folder.iterdir()] == [KEY], "no other file is left"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / KEY).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", ["empty", "short", "flipped", "longer", "text", "renamed", "folder"])
def test_damage_is_a_miss(tmp_path: Path, damage: str) -> None:
    cache = ObjectCache(tmp_path)
    cache.put(KEY, b"object" * 100)
    path = tmp_path / KEY
    data = path.read_bytes()
    asked = KEY
    if damage == "renamed":
        asked = "1" * 64
        path.rename(tmp_path / asked)
    elif damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        flipped = bytearray(data)
        flipped[len(data) // 2] ^= 1
        path.write_bytes(
            {"empty": b"", "short": data[:-1], "flipped": bytes(flipped), "longer": data + b"\0", "text": b"x" * 50}[
                damage
            ]
        )
    assert ObjectCache(tmp_path).get(asked) is None
    other = ObjectCache(tmp_path)
    other.put(asked, b"new")
    assert other.get(asked) == b"new"
    assert ObjectCache(tmp_path).get(asked) == (None if damage == "folder" else b"new")


def test_files_that_others_may_write_are_a_miss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ObjectCache(tmp_path).put(KEY, b"object")
    for mode in (0o620, 0o602, 0o666):
        (tmp_path / KEY).chmod(mode)
        assert ObjectCache(tmp_path).get(KEY) is None
    (tmp_path / KEY).chmod(0o600)
    assert ObjectCache(tmp_path).get(KEY) == b"object"
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert ObjectCache(tmp_path).get(KEY) is None


def test_a_folder_that_cannot_be_is_harmless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        cache = ObjectCache(folder)
        cache.put(KEY, b"object")
        assert cache.get(KEY) == b"object"
        assert ObjectCache(folder).get(KEY) is None

    def refuse(*arguments: object, **named: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(Path, "mkdir", refuse)
    cache = ObjectCache(tmp_path / "read-only")
    cache.put(KEY, b"object")
    assert cache.get(KEY) == b"object"


def test_a_full_disk_leaves_no_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **named: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", full)
    ObjectCache(tmp_path).put(KEY, b"object")
    assert list(tmp_path.iterdir()) == []


def test_pruning_deletes_the_oldest(tmp_path: Path) -> None:
    for n in range(8):
        path = tmp_path / f"{n:064}"
        path.write_bytes(bytes(1000))
        os.utime(path, (1000 + n, 1000 + n))
    cache = ObjectCache(tmp_path, limit_bytes=4500)
    cache.put(KEY[:-1] + "f", b"new")
    assert sorted(path.name for path in tmp_path.iterdir()) == [*(f"{n:064}" for n in range(4, 8)), KEY[:-1] + "f"]


def test_neither_memory_nor_disk_grows_without_bound(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path, limit_bytes=8000)
    for n in range(200):
        cache.put(f"{n:064}", bytes(100))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 8000 + 1200 + 200
    assert sum(map(len, cache._memory.values())) <= 8000
    assert cache.get(f"{199:064}") == bytes(100)


def test_keys_distinguish_what_matters() -> None:
    same = region_key(region(LOOP), True, llvm.QUICK)
    assert same == region_key(region(LOOP), True, llvm.QUICK)
    others = {
        region_key(region(LOOP), True, llvm.OPTIMISED),
        region_key(region(LOOP), False, llvm.QUICK),
        region_key(region(LOOP.replace("3", "4")), True, llvm.QUICK),
        region_key(region(LOOP, CODE + 4), True, llvm.QUICK),
        region_key(region(LOOP + "\naddi x1, x1, 1"), True, llvm.QUICK),
        region_key(discover(CODE, fetcher(LOOP), frozenset({CODE + 8})), True, llvm.QUICK),
        region_key(region(LOOP.replace("addi x7, x7, 3", "ecall")), True, llvm.QUICK),
    }
    assert len(others | {same}) == 8
    floats = "loop: fadd.s f1, f2, f3\nbne x6, x0, loop"
    assert region_key(region(floats), True, 0) != region_key(region(floats, native=False), False, 0)


def test_the_default_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "softcard" / "code"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for value in ("", "relative/path"):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert default_folder() == tmp_path / "home" / ".cache" / "softcard" / "code"

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert default_folder() is None
    assert JitEngine().cache.folder is None


@pytest.mark.parametrize("tier", [llvm.QUICK, llvm.OPTIMISED, None])
def test_a_warm_start_compiles_nothing_and_gives_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tier: int | None
) -> None:
    def run() -> list[object]:
        rig = Rig(JitEngine(tier=tier, cache=ObjectCache(tmp_path)))
        end = rig.place(LOOP + "\nfadd.s f1, f2, f2\nsd x7, 0(x10)")
        rig.warm()
        return [rig.run(end, fuel, x6=40, x10=0x40_0000, f2=7) for fuel in (1000, 1000, 1000, 1000, 33)]

    cold = run()

    def refuse(text: str, tier: int) -> bytes:
        raise AssertionError("compiled again")

    monkeypatch.setattr(llvm, "compile_ir", refuse)
    assert run() == cold
