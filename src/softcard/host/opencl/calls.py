"""The calls of the host program, and the functions that carry them out, by the names of OpenCL's entry points."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from softcard.host.opencl import constants as cl
from softcard.host.opencl.errors import OpenClError
from softcard.host.opencl.events import Command, CommandQueue
from softcard.host.opencl.objects import Copy, Object, Platform

Function = TypeVar("Function", bound=Callable[..., object])
FUNCTIONS: Final[dict[str, Callable[..., object]]] = {}
"""The functions by entry points. Their arguments are the call, and those that ``entry_points.toml`` describes."""


def entry(*names: str) -> Callable[[Function], Function]:
    """Return a decorator that registers a function for entry points of OpenCL."""

    def register(function: Function) -> Function:
        for name in names:
            FUNCTIONS[name] = function
        return function

    return register


class Repeat(Protocol):
    """A call that can be carried out again without decoding it."""

    def repeat(self, event: tuple[int, int]) -> CommandQueue | None:
        """Carry out the call with another event; return its queue, or None if the call must be decoded again."""


class Call(Protocol):
    """One call of the host program."""

    name: str
    """The name of the entry point."""
    platform: Platform
    made: int
    """The handle of the object that the call makes; 0 if it makes none."""

    repeat: Repeat | None
    """The object that carries out an equal call later; functions may set it."""

    def proceed(self) -> None:
        """Let later calls of other threads begin. Functions call it before they block."""


@dataclass(frozen=True, slots=True)
class Performed:
    """The reply to a call whose copies the program performs. `command` ends when the program has performed them.

    `words` are the results of a function that returns a pointer.
    """

    command: Command | None
    copies: Sequence[Copy]
    words: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Made:
    """The reply to a call that has made an object. `number` is a number that the library stores with the handle.

    `status` is the error code of a call that returns an object in spite of an error. The program performs `copies`.
    """

    made: Object
    number: int = 0
    status: int = cl.SUCCESS
    copies: Sequence[Copy] = ()


# ---- values of queries -----------------------------------------------------------------------------------------------


def u32(value: int) -> bytes:
    """Return the bytes of a cl_uint, cl_bool or enumeration."""
    return struct.pack("<I", value & 0xFFFFFFFF)


def u64(*values: int) -> bytes:
    """Return the bytes of size_t, cl_ulong, cl_bitfield, or addresses."""
    return struct.pack(f"<{len(values)}Q", *(value & (1 << 64) - 1 for value in values))


def text(value: str | bytes) -> bytes:
    """Return the bytes of a string, with the NUL at its end."""
    return (value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")) + b"\0"


def words(values: Sequence[int] | None) -> bytes:
    """Return the bytes of a list of properties with its 0; nothing for NULL."""
    return b"" if values is None else u64(*values, 0)


def query(name: int, values: dict[int, Callable[[], bytes]], what: str) -> bytes:
    """Return the value of a query; raise `OpenClError` for an unknown one. `what` is the function's name."""
    found = values.get(name)
    if found is None:
        raise OpenClError(cl.INVALID_VALUE, f"{what}: the query {name:#x} is unknown for this object")
    return found()


def pairs(properties: Sequence[int] | None) -> dict[int, int]:
    """Return properties by name; raise `OpenClError` for a name that occurs twice."""
    found: dict[int, int] = {}
    for name, value in zip(*[iter(properties or ())] * 2, strict=False):
        if name in found:
            raise OpenClError(cl.INVALID_PROPERTY, f"the property {name:#x} occurs twice, expected once")
        found[name] = value
    return found
