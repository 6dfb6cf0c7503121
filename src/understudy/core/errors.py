"""The error tree, and the path of places that every error carries.

UnderstudyError
├── WireError      bytes that are no command, record or instruction
├── RuleError      a clause of a document was broken
├── GuestFault     the device traps: a bad access, an illegal instruction, a kernel that gives up
│   └── AccessFault    an address that a unit may not reach, in a way it may not use
├── NoHostMemory   this process has no room for the memory of a device
├── NotInstalled   a package or program that this needs; the message says how to get it
├── BeyondModel    real hardware does this, we do not (yet): never silent
└── ModelBug       our own mistake

Each layer adds the one place it knows while the error passes through it on its way out::

    try:
        ...
    except UnderstudyError as error:
        raise error.at("command", 5, "RUN_INSTANCES")

so that a message reads from the inside out: what happened, then where, then the rule and its clause.

Errors cross process boundaries whole: with class, message, attributes, places, rule, registers, notes and cause.
"""

from __future__ import annotations

import copyreg
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from understudy.core.registers import Registers
    from understudy.core.rule import Rule


@dataclass(frozen=True, slots=True)
class Place:
    """One step of an error's path, e.g. ``Place("pc", "0x10294", "illegal word 0x00000000")``."""

    kind: str
    where: str
    what: str = ""

    def __str__(self) -> str:
        return f"at {self.kind} {self.where}" + (f" ({self.what})" if self.what else "")


class UnderstudyError(Exception):
    """Base of every error this package raises on purpose.

    `message` says what happened and what was expected, `path` where (innermost place first) and
    `rule` which clause of which document was broken, if one was.
    """

    def __init__(self, message: str, *, rule: Rule | None = None, path: tuple[Place, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.rule = rule
        self.path = path
        self.registers: Registers | None = None
        """Of the instruction that failed, where a kernel's did: those that are certain."""

    def at(self, kind: str, where: int | str, what: str = "") -> Self:
        """Add the next outer place and return the same error, to be raised on."""
        text = where if isinstance(where, str) else (f"{where:#x}" if kind in HEX_PLACES else str(where))
        self.path = (*self.path, Place(kind, text, what))
        return self

    def __str__(self) -> str:
        parts = [self.message, *map(str, self.path)]
        if self.rule is not None:
            parts.append(f"[{self.rule.id}: {self.rule.clause}]")
        return ", ".join(parts)

    def in_full(self) -> str:
        """The same, with registers on lines of their own."""
        return "\n  ".join([str(self), *(str(self.registers).splitlines() if self.registers is not None else ())])

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the constructor: what it takes is not what `args` holds, and all that it made is in the state.
        state = dict(vars(self))
        if self.__cause__ is not None:
            state["__cause__"] = _portable(self.__cause__)
        state["__suppress_context__"] = self.__suppress_context__  # behind the cause, which sets it
        return copyreg.__newobj__, (type(self), *self.args), state  # type: ignore[attr-defined]

    def __copy__(self) -> Self:
        made = type(self).__new__(type(self), *self.args)
        vars(made).update(vars(self))
        made.__cause__, made.__suppress_context__ = self.__cause__, self.__suppress_context__
        return made


def _portable(cause: BaseException) -> BaseException:
    """The cause itself where it survives pickling, else one that tells of it: the error must arrive in any case."""
    if isinstance(cause, UnderstudyError):
        return cause
    import pickle  # here: importing the package must stay quick

    try:
        pickle.loads(pickle.dumps(cause))
    except Exception:  # noqa: BLE001  # it is somebody else's code that runs here
        return RuntimeError(f"{type(cause).__name__}: {cause}")
    return cause


HEX_PLACES = frozenset({"pc", "byte", "address", "offset"})
"""Kinds of place whose number is written in hex."""


class WireError(UnderstudyError):
    """Bytes that are no command, record, register value, file or instruction."""


class RuleError(UnderstudyError):
    """A clause of an interface document was broken by the host or the guest."""


class GuestFault(UnderstudyError):
    """The device traps on behalf of its guest: the state is precise at the faulting instruction."""


class AccessFault(GuestFault):
    """A load, store or fetch at an address that the unit may not reach that way."""

    def __init__(self, message: str, *, address: int, access: str = "", rule: Rule | None = None) -> None:
        super().__init__(message, rule=rule)
        self.address = address
        self.access = access


class NoHostMemory(UnderstudyError):
    """This process has no address space left for the memory of a device."""


class NotInstalled(UnderstudyError):
    """A package or program that this needs is not here; the message says how to get it."""


class BeyondModel(UnderstudyError):
    """The real thing may do this; Understudy does not model it and says so."""


class ModelBug(UnderstudyError):
    """A mistake of ours; please report it."""


def close_to(name: str, known: Iterable[str]) -> str:
    """What a message says of the names that are nearly `name`; "" where none is."""
    from difflib import get_close_matches  # few programs get names wrong

    near = get_close_matches(name, known, n=3)
    return f"; close to it: {', '.join(near)}" if near else ""
