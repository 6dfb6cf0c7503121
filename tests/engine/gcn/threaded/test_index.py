"""The index of handlers: lines are added to it, and it is written anew where most of them are no longer true."""

from __future__ import annotations

from pathlib import Path

import pytest

from softcard.engine.gcn.threaded.library import Index, Known
from softcard.engine.gcn.threaded.records import Handler
from softcard.ir import object_cache
from softcard.ir.object_cache import ObjectCache

NAME = "a" * 64


def known(image: str, is_optimised: bool = False) -> Known:
    return Known(Handler("h", 32, (24,), (("load", 28),), 0), image, is_optimised)


def lines(folder: Path) -> int:
    data = ObjectCache(folder).get(NAME)
    return 0 if data is None else data.count(b"\n")


def test_the_later_line_counts(tmp_path: Path) -> None:
    index = Index(ObjectCache(tmp_path), NAME)
    for number in range(4):
        index[f"kind {number}"] = known("quick")
    index["none"] = None
    index.write()
    index["kind 1"] = known("good", is_optimised=True)
    index.write()
    assert lines(tmp_path) == 6
    read = Index(ObjectCache(tmp_path), NAME)
    assert {key: read[key] for key in read} == {
        **{f"kind {number}": known("quick") for number in (0, 2, 3)},
        "kind 1": known("good", is_optimised=True),
        "none": None,
    }


def test_lines_that_are_no_longer_true_go_in_the_end(tmp_path: Path) -> None:
    index = Index(ObjectCache(tmp_path), NAME)
    for round_ in range(20):
        index["kind"], index["other"] = known(f"image {round_}"), None
        index.write()
        assert lines(tmp_path) <= 4
    assert Index(ObjectCache(tmp_path), NAME)["kind"] == known("image 19")


def test_another_process_may_add_or_take_away(tmp_path: Path) -> None:
    one, other = (Index(ObjectCache(tmp_path), NAME) for _ in range(2))
    one["a"], other["b"] = known("1"), known("2")
    one.write()
    other.write()
    assert set(Index(ObjectCache(tmp_path), NAME)) == {"a", "b"}
    one["c"] = one["gone"] = None
    del one["gone"]
    (tmp_path / NAME).unlink()
    one.write()
    assert set(Index(ObjectCache(tmp_path), NAME)) == {"a", "c"}, "what it knows, without what it has not seen"


def test_a_file_is_read_again_only_if_it_is_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index, other = (Index(ObjectCache(tmp_path), NAME) for _ in range(2))
    index["a"] = known("1")
    index.write()
    other.refresh()
    read: list[str] = []

    def noted(self: object_cache.PrivateFolder, name: str) -> bytes:
        read.append(name)
        return whole(self, name)

    whole = object_cache.PrivateFolder.read
    monkeypatch.setattr(object_cache.PrivateFolder, "read", noted)
    index.refresh()
    other.refresh()
    assert not read
    index["b"] = None
    index.write()
    other.refresh()
    assert read == [NAME]
    assert "b" in other
