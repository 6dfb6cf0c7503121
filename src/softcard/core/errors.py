"""The exception classes, and the path of locations that every error carries.

    SoftcardError
    ├── WireError      bytes that are not a valid command, record or instruction
    ├── RuleError      a clause of a specification was violated
    ├── GuestFault     the device traps: an invalid access, an illegal instruction, a kernel that aborts
    │   └── AccessFault    an address that a unit may not access in this way
    ├── NoHostMemory   this process has too little free memory for a device
    ├── NotInstalled   a missing package or program; the message explains how to get it
    ├── BeyondModel    behaviour of real hardware that is not modelled; it is never ignored silently
    └── ModelBug       a bug in Softcard

Each layer adds the one location that it knows while the error passes through it::

    try:
        ...
    except SoftcardError as error:
        raise error.at("command", 5, "RUN_INSTANCES")

A message therefore has the problem first, then its locations from the innermost outwards, then the rule.

Errors cross process boundaries whole: with class, message, attributes, locations, rule, registers, notes and
cause."""

from __future__ import annotations

import copyreg
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import eq
from typing import TYPE_CHECKING, Any, Self, TypeVar

from softcard.core.display import printable
from softcard.core.tracebacks import install, lines_of

if TYPE_CHECKING:
    from softcard.core.rule import Rule


@dataclass(frozen=True, slots=True)
class Place:
    """One location in an error's path, for example ``Place("pc", "0x10294", "illegal word 0x00000000")``.

    For a pc that a symbolizer knows, `what` contains all of: `code`, its function and offset, `insn`, its instruction,
    and `source`, its file and line. `column` counts from 1 in that line, and is 0 if it is unknown.
    """

    kind: str
    where: str
    what: str = ""
    code: str = field(default="", compare=False)
    insn: str = field(default="", compare=False)
    source: str = field(default="", compare=False)
    column: int = field(default=0, compare=False)
    line_text: str = field(default="", compare=False, repr=False)
    """The text of the source line, if the source has no file."""

    def __str__(self) -> str:
        return f"at {self.kind} {self.where}" + (f" ({self.what})" if self.what else "")


class SoftcardError(Exception):
    """The base of every error that this package raises on purpose.

    `message` describes the problem and the expected input, `path` has the locations (innermost first), and `rule` is
    the violated rule of a specification, or None.
    """

    def __init__(self, message: str, *, rule: Rule | None = None, path: tuple[Place, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.rule = rule
        self.path = path
        self.registers: Registers | None = None
        """The registers before the failed instruction, as far as they are known; None if no kernel failed."""
        self.console = b""
        """The bytes that the kernel or program printed before the error."""
        self.operands: tuple[tuple[str, int], ...] = ()
        """The operands that the error is about, innermost first, for errors in a text; see `in_operand`."""

    @property
    def text(self) -> str:
        """The output that was printed before the error (the bytes `console`), as text."""
        return self.console.decode("utf-8", "replace")

    def at(self, kind: str, where: int | str, what: str = "") -> Self:
        """Add the next outer location and return this error, so that the caller can raise it again.

        `kind` is the kind of the location, `where` its number or name, `what` a description.
        """
        text = where if isinstance(where, str) else (f"{where:#x}" if kind in HEX_PLACES else str(where))
        self.path = (*self.path, Place(kind, text, what))
        return self

    def in_operand(self, text: str, number: int = -1) -> Self:
        """Record the part of a statement that is wrong, and return this error. Messages point at it.

        `text` is the part as written, `number` the number of the operand, counted from 0; -1 if it is unknown or if the
        part is not a whole operand. An outer layer may add the operand that contains the part."""
        self.operands = (*self.operands, (text, number))
        return self

    def __str__(self) -> str:
        rest = [*map(str, self.path)]
        if self.rule is not None:
            rest.append(f"[{self.rule.id}: {self.rule.clause}]")
        after = " " if self.message.endswith("?") else ", "  # a question is a sentence by itself
        return printable(after.join(filter(None, (self.message, ", ".join(rest)))))

    def in_full(self) -> str:
        """Return the message with registers on lines of their own."""
        return "\n  ".join([str(self), *(str(self.registers).splitlines() if self.registers is not None else ())])

    def _render_traceback_(self) -> list[str]:
        """Return the error's traceback for IPython and Jupyter: Python's lines without frames of Softcard."""
        return lines_of(self)

    def __reduce__(self) -> tuple[object, ...]:
        # Without the constructor: what it takes is not what `args` holds, and all that it made is in the state.
        state = dict(vars(self))
        if self.__cause__ is not None:
            state["__cause__"] = _portable(self.__cause__)
        state["__suppress_context__"] = self.__suppress_context__  # last: setting the cause sets it
        return copyreg.__newobj__, (type(self), *self.args), state  # type: ignore[attr-defined]

    def __copy__(self) -> Self:
        made = type(self).__new__(type(self), *self.args)
        vars(made).update(vars(self))
        made.__cause__, made.__suppress_context__ = self.__cause__, self.__suppress_context__
        return made


def _portable(cause: BaseException) -> BaseException:
    """Return `cause` if it can be pickled, or else a RuntimeError with its text."""
    if isinstance(cause, SoftcardError):
        return cause
    import pickle  # here: importing the package must stay quick

    try:
        pickle.loads(pickle.dumps(cause))
    except Exception:  # noqa: BLE001  # pickling runs code of other packages
        return RuntimeError(f"{type(cause).__name__}: {cause}")
    return cause


Failure = TypeVar("Failure", bound=SoftcardError)


def with_console(error: Failure, console: bytes) -> Failure:
    """Attach `console`, the output that was printed before the error, to the error, and return the error.

    Tracebacks show the output as a note.
    """
    if console and not error.console:
        error.console = console
        text = error.text
        head = "printed before the error"
        if len(text) > MAX_OUTPUT_SHOWN:
            head += f" (the last {MAX_OUTPUT_SHOWN} characters)"
        error.add_note("\n  ".join([f"{head}:", *map(escaped, text[-MAX_OUTPUT_SHOWN:].splitlines())]))
    return error


def escaped(line: str) -> str:
    """Return the line with an escape sequence for each character that would control a terminal."""
    return "".join(each if each.isprintable() or each == "\t" else ascii(each)[1:-1] for each in line)


MAX_OUTPUT_SHOWN = 4000
"""The maximum number of characters of a kernel's output that an error's note repeats."""
HEX_PLACES = frozenset({"pc", "byte", "address", "offset"})
"""The kinds of places in an error whose numbers are shown in hexadecimal."""


class WireError(SoftcardError):
    """The error for bytes that are not a valid command, record, register value, file or instruction."""


class RuleError(SoftcardError):
    """The error for a host or guest that violates a clause of an interface's specification."""


class GuestFault(SoftcardError):
    """The error for a trap that the guest's code causes.

    The device keeps the state that it had at the faulting instruction."""


class AccessFault(GuestFault):
    """The error for a load, store or fetch at an address that the unit may not access in this way."""

    def __init__(self, message: str, *, address: int, access: str = "", rule: Rule | None = None) -> None:
        super().__init__(message, rule=rule)
        self.address = address
        self.access = access


class NoHostMemory(SoftcardError):
    """The error for a device whose memory does not fit in the free address space of this process."""


class NotInstalled(SoftcardError):
    """The error for a required package or program that is missing; the message explains how to get it."""


class BeyondModel(SoftcardError):
    """The error for behaviour that real hardware may have and that Softcard does not model."""


class ModelBug(SoftcardError):
    """The error for a bug in Softcard itself; please report it."""

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython and Jupyter show for the error: all frames, which a bug report needs."""
        return lines_of(self, whole=True)


MOST_SUGGESTED = 3
"""The maximum number of similar names that a message suggests."""
MOST_SIMILAR = 10
"""The number of similar names of which a message suggests the most similar ones."""
LEAST_SIMILAR = 0.6
"""The similarity from which on a name is suggested, if the caller gives none."""
LEAST_SIMILAR_MNEMONIC = 0.75
"""The similarity from which on a mnemonic is suggested: many mnemonics have letters in common."""
AS_SIMILAR = 0.07
"""The difference from the highest similarity, between 0 and 1, up to which a name is suggested."""


def close_to(name: str, known: Iterable[str], least: float = LEAST_SIMILAR) -> str:
    """Return the question at the end of a message whether one of up to three names in `known` was meant.

    These are the names most similar to `name`; of equally similar ones, first those with more equal letters.
    Return "" if no name has a similarity of `least` or more, on a scale from 0 to 1.
    """
    from difflib import SequenceMatcher, get_close_matches  # few programs get names wrong

    found = get_close_matches(name, known, MOST_SIMILAR, least)
    near = {each: SequenceMatcher(None, each, name).ratio() for each in found}
    best = [each for each, ratio in near.items() if ratio >= max(near.values()) - AS_SIMILAR]
    best.sort(key=lambda each: (near[each], sum(map(eq, each, name))), reverse=True)
    return did_you_mean(best[:MOST_SUGGESTED])


def did_you_mean(names: Sequence[str]) -> str:
    """Return the question at the end of a message whether one of `names` was meant; "" if there are none."""
    *others, last = map(repr, names) if names else ("",)
    return f"; did you mean {' or '.join(filter(None, (', '.join(others), last)))}?" if last else ""


install(SoftcardError, but=ModelBug)


Failed = TypeVar("Failed", bound=SoftcardError)

WIDTH = 110
"""The maximum number of columns of a line of registers in a message."""
MANY = 16
"""The number of scalar registers above which a message omits those that are 0."""


@dataclass(frozen=True, slots=True)
class Registers:
    """The values of registers, by name, before the failed instruction at `pc`.

    For a hart, `scalars` has all integer registers. For a wave, it has EXEC and the scalar registers that the
    instruction reads, and `vectors` has the vector registers that it reads, in the failing `lane`. Other registers are
    missing, since translated code does not preserve them.
    """

    pc: int
    instruction: str
    scalars: Mapping[str, int]
    vectors: Mapping[str, int] = field(default_factory=dict)
    lane: int | None = None

    def __getitem__(self, name: str) -> int:
        """Return the value of the register with that name."""
        return self.scalars[name] if name in self.scalars else self.vectors[name]

    def as_dict(self) -> dict[str, Any]:
        """Return all fields as plain values, for JSON: registers in hex."""
        return {
            "pc": f"{self.pc:#x}",
            "instruction": self.instruction,
            "lane": self.lane,
            "scalars": {name: f"{value:#x}" for name, value in self.scalars.items()},
            "vectors": {name: f"{value:#x}" for name, value in self.vectors.items()},
        }

    def __str__(self) -> str:
        from textwrap import fill  # few programs need it

        many = len(self.scalars) > MANY
        parts = [f"{name} = {value:#x}" for name, value in self.scalars.items() if value or not many]
        parts += ["others 0"] * (len(parts) < len(self.scalars))
        of_lane = [f"{name} = {value:#x}" for name, value in self.vectors.items()]
        text = ", ".join(parts) + (f"; lane {self.lane}: {', '.join(of_lane)}" if of_lane else "")
        return fill(f"registers: {text}", WIDTH, subsequent_indent="  ", break_long_words=False)


def with_registers(error: Failed, registers: Registers) -> Failed:
    """Attach the registers to an error and return the error; complete tracebacks show them as a note."""
    error.registers = registers
    error.add_note(str(registers))
    return error
