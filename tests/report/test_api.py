"""The reference of public names: what a signature and a docstring become."""

from enum import Enum
from typing import Any

from softcard.core.errors import WireError
from softcard.report.api import reference, signature


class Colour(Enum):
    """Of something."""

    RED = 1


class Device:
    """A device.

    It has ``lines``:

    >>> 1 + 1
    2
    """

    def run(self, grid: int, *sizes: int, colour: Colour = Colour.RED, **more: Any) -> bytes:
        """Run it. More is said here,

        and here not.
        """

    @classmethod
    def open(cls, name: str = "x", *, exact: bool = False) -> "Device":
        """Make one."""

    @property
    def state(self) -> str:
        """What it does."""

    def _own(self) -> None:
        """Nobody's."""


Device.__module__ = "softcard.made.up"


def test_signatures():
    def plain(a, b=2, *, c): ...

    assert signature(plain) == "(a, b=2, *, c)"
    assert signature(Device.open) == "(name: <class 'str'> = 'x', *, exact: <class 'bool'> = False) -> Device"


def test_a_class():
    assert reference("Device", Device) == (
        "### `Device`\n\nA device.\n\nIt has `lines`:\n\n```pycon\n>>> 1 + 1\n2\n```\n\n"
        "- `.run(grid: <class 'int'>, *sizes: <class 'int'>, colour: <enum 'Colour'> = Colour.RED, **more: typing.Any)"
        " -> <class 'bytes'>`: Run it. More is said here,\n"
        "- `Device.open(name: <class 'str'> = 'x', *, exact: <class 'bool'> = False) -> Device`: Make one.\n"
        "- `.state`: What it does.\n"
    )


def test_an_error_and_a_function():
    assert reference("WireError", WireError).startswith(
        "### `WireError`\n\nA kind of `SoftcardError`.\n\nThe error for bytes that"
    )
    assert reference("signature", signature).startswith(
        "### `signature`\n\n`signature(function: Any) -> str`\n\nReturn the signature of a function"
    )
