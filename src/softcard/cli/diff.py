"""`softcard diff`: the first difference of two traces, code objects, register maps, arrays or memories."""

from __future__ import annotations

import json
import re
from codecs import getincrementaldecoder
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

import typer

from softcard.cli.exits import ExitCode, UsageError
from softcard.cli.files import MAX_FILE_BYTES, open_file, reading, too_large
from softcard.cli.options import JsonOption, ResultFormat, ResultFormatOption, is_json
from softcard.core.errors import SoftcardError, WireError
from softcard.core.files import read_at_most

EQUAL: Final = "no difference"


@dataclass(frozen=True, slots=True)
class DiffOptions:
    """The options of a comparison.

    `ignored` are the fields to ignore, `context` is the number of common lines to show, and `every` is True to show all
    differences.
    """

    ignored: tuple[str, ...]
    context: int
    every: bool


DiffResult = dict[str, Any]
"""The JSON output of `softcard diff`: ``equal`` is True without a difference, ``lines`` is the text output."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two compared files, opened and positioned at its start."""

    path: Path
    file: BinaryIO

    def data(self) -> bytes:
        """Return the whole content of the file."""
        with reading(self.path):
            data = read_at_most(self.file, MAX_FILE_BYTES)
        if data is None:
            raise too_large(self.path, MAX_FILE_BYTES)
        return data


_EVENT: Final = re.compile(rb'\s*\{"time":\s*\d+,\s*"event":')
_CONTROLS: Final = re.compile(rb"[\0-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
"""The control characters that do not occur in text files."""


def diff(
    one: Annotated[Path, typer.Argument(metavar="A", help="The first file; - for standard input.")],
    other: Annotated[Path, typer.Argument(metavar="B", help="The second file, of the same kind.")],
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Field to ignore, at any depth; KIND.FIELD; KIND.* for whole events; can be repeated.",
        ),
    ] = None,
    context: Annotated[
        int, typer.Option(min=0, max=1000, help="Number of equal events, or lines, to show before the difference.")
    ] = 5,
    every: Annotated[
        bool, typer.Option("--all", help="Documents and code: show all differences, however many.")
    ] = False,
    as_json: JsonOption = False,
    form: ResultFormatOption = ResultFormat.TEXT,
) -> None:
    """Show where two records of runs, or two files, begin to differ.

    Traces (JSON lines, of any length): the first event that differs, field by
    field, the events before it, and the rules that they name. Code objects, AMD
    OpenCL 2.0 programs, RISC-V ELF files: differences by kernel, with
    disassembly. RefSi's command buffers: by command. Register maps (JSON), Arrow
    schemas (by their Fletcher maps), other JSON: by name. .npy: the first
    element. Text: the first line. Other files: the first bytes.

    Exit status 0 if there is no difference, 1 if there is one, 2 if a file
    cannot be read or if the two files are of different kinds.

      softcard diff before.jsonl after.jsonl --ignore time

      softcard diff old.co new.co"""
    as_json = is_json(form, as_json)
    wanted = DiffOptions(tuple(ignore or ()), context, every)
    if str(one) == str(other) == "-":
        raise UsageError("standard input (-) can be only one of the two files: give the other one as a file")
    with open_file(one) as first, open_file(other) as second:
        sides = Side(one, first), Side(other, second)
        kinds = [_kind(side) for side in sides]
        if kinds[0] != kinds[1]:
            raise UsageError(f"cannot compare files of different kinds: {one} is {kinds[0]}, {other} is {kinds[1]}")
        if ignore and kinds[0] in (BUFFER, ARRAY, TEXT, MEMORY):
            raise UsageError(f"--ignore requires files with named fields (as traces and JSON), but {one} is {kinds[0]}")
        try:
            found = _comparing(kinds[0])(*sides, wanted)
        except UsageError:
            raise
        except SoftcardError as error:
            raise UsageError(str(error)) from None
    lines = found.pop("lines")
    if as_json:
        print(json.dumps({"kind": kinds[0].split(" ", 1)[1], **found}, indent=2))
    else:
        for line in lines:
            print(line)
    if not found["equal"]:
        raise typer.Exit(ExitCode.GUEST)


# ---- kinds of files --------------------------------------------------------------------------------------------------

TRACE: Final = "a trace"
CODE: Final = "a code object"
BUFFER: Final = "a command buffer"
DOCUMENT: Final = "a document"
SCHEMA: Final = "a schema"
ARRAY: Final = "an array"
TEXT: Final = "a text"
MEMORY: Final = "a memory"


def _kind(side: Side) -> str:
    """Return the kind of a file, detected from its first bytes."""
    with reading(side.path):
        head = bytes(side.file.peek(1))  # type: ignore[attr-defined]
    if not head:
        raise UsageError(f"{side.path} is empty")
    from softcard.cli.file_kinds import FileKind, kind_of
    from softcard.cli.inspect import CODE as CODES

    if head.startswith(b"\x93NUMPY"):
        return ARRAY
    if head.startswith(b"ARROW1") or side.path.suffix == ".as":
        return SCHEMA
    if not _is_text(head):
        with suppress(WireError):
            kind = kind_of(head)
            return CODE if kind in CODES else BUFFER if kind is FileKind.REFSI else MEMORY
        return MEMORY
    if _EVENT.match(head) or _is_event(head.lstrip().partition(b"\n")[0]):
        return TRACE
    if head.lstrip()[:1] in (b"{", b"["):
        return DOCUMENT
    return TEXT


def _is_text(head: bytes) -> bool:
    try:
        getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return _CONTROLS.search(head) is None


def _is_event(line: bytes) -> bool:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and {"time", "event"} <= set(found)


_COMPARED: Final = {
    TRACE: "traces",
    CODE: "codes",
    BUFFER: "buffers",
    DOCUMENT: "documents",
    SCHEMA: "schemas",
    ARRAY: "arrays",
    TEXT: "texts",
    MEMORY: "memories",
}
"""The name of the function in `softcard.cli.diff_kinds` that compares two files of a kind, by kind."""


def _comparing(kind: str) -> Callable[[Side, Side, DiffOptions], DiffResult]:
    from softcard.cli import diff_kinds  # here, since it imports NumPy

    found: Callable[[Side, Side, DiffOptions], DiffResult] = getattr(diff_kinds, _COMPARED[kind])
    return found
