"""Frozen dataclasses that are made quickly are what they were."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace
from typing import Any

import pytest

from softcard.core.event import Event, made_quickly


@dataclass(frozen=True, slots=True)
class Slow(Event):
    """Made by `dataclass`."""

    one: int
    two: str = "2"


@made_quickly
@dataclass(frozen=True, slots=True)
class Quick(Event):
    """Made quickly."""

    one: int
    two: str = "2"


def test_objects_are_the_same() -> None:
    made = Quick(1, 2, two="three")
    assert repr(made) == "Quick(time=1, one=2, two='three')"
    assert made == Quick(time=1, one=2, two="three") != Quick(1, 2)
    assert hash(made) == hash(Quick(1, 2, "three")) == hash(Slow(1, 2, "three"))
    assert replace(made, one=5) == Quick(1, 5, "three")
    assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == made
    assert inspect.signature(Quick) == inspect.signature(Slow)
    with pytest.raises(FrozenInstanceError):
        made.one = 3  # type: ignore[misc]
    with pytest.raises(TypeError, match=r"Quick.__init__\(\) missing 1 required positional argument: 'one'"):
        Quick(1)  # type: ignore[call-arg]


def test_classes_that_do_more_are_refused() -> None:
    @dataclass(frozen=True, slots=True)
    class Factory:
        rows: list[int] = field(default_factory=list)

    @dataclass(frozen=True, slots=True)
    class After:
        row: int

        def __post_init__(self) -> None:
            raise AssertionError

    @dataclass(frozen=True, slots=True)
    class Named:
        row: int = field(kw_only=True)

    kinds: tuple[type[Any], ...] = (Factory, After, Named)
    for kind in kinds:
        with pytest.raises(TypeError, match=f"{kind.__name__} must have only plain fields"):
            made_quickly(kind)
