"""A composed class has the methods of its parts."""

import pytest

from softcard.ir.composed import Composed


class First:
    def who(self) -> str:
        return "first"

    def _own(self) -> str:
        return "private"


class Second:
    def __init__(self, name: str) -> None:
        self.name = name

    def who(self) -> str:
        return "second"

    def called(self) -> str:
        return self.name

    def mine(self) -> str:
        return "second"


class Both(Composed, one=First, two=Second):
    def __init__(self, name: str) -> None:
        self.one = First()
        self.two = Second(name)

    def mine(self) -> str:
        return "own"


def test_the_first_part_that_has_a_method_gives_it():
    both = Both("a")
    assert (both.who(), both.called(), both.mine()) == ("first", "a", "own")
    assert both.called() == "a", "asked for again"
    assert Both("b").called() == "b"


def test_what_is_private_stays_in_its_part():
    with pytest.raises(AttributeError, match="'Both' object has no attribute '_own'"):
        Both("a")._own()
    with pytest.raises(AttributeError, match="'Both' object has no attribute 'name'"):
        Both("a").name  # noqa: B018
