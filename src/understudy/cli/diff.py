"""`understudy diff`: two traces, code objects, register maps, arrays or memories, and what first differs."""

from __future__ import annotations

import json
import re
from codecs import getincrementaldecoder
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Annotated, Final

import typer

from understudy.cli.diff_sides import Found, Side, Wanted
from understudy.cli.exits import ExitCode, UsageError
from understudy.cli.files import open_file, reading
from understudy.core.errors import UnderstudyError, WireError

_EVENT: Final = re.compile(rb'\s*\{"time":\s*\d+,\s*"event":')
_CONTROLS: Final = re.compile(rb"[\0-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
"""What text has not."""


def diff(
    one: Annotated[Path, typer.Argument(metavar="A", help="A file; - for standard input.")],
    other: Annotated[Path, typer.Argument(metavar="B", help="Another of the same kind.")],
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="What may differ: a field, at any depth; KIND.FIELD; KIND.* for whole events. Again for more.",
        ),
    ] = None,
    context: Annotated[int, typer.Option(min=0, max=1000, help="Common events, or lines, to show before.")] = 5,
    every: Annotated[bool, typer.Option("--all", help="Documents and code: all differences, however many.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The same as one JSON object.")] = False,
) -> None:
    """Say where two records of runs, or two files, begin to differ.

    Traces (JSON lines): the first event that differs, field by field, what
    came before it, and the clauses that it names; of any length. Code objects,
    AMD OpenCL 2.0 programs, RISC-V ELF files: by kernel, with disassembly.
    RefSi's command buffers: by command. Register maps (JSON), Arrow schemas (by
    their Fletcher maps), other JSON: by name. .npy: the first element. Text: the
    first line. All else: the first bytes.

    Exit status 0 without a difference, 1 with one, 2 where a file cannot be
    read, or the two are of different kinds.

      understudy diff before.jsonl after.jsonl --ignore time

      understudy diff old.co new.co
    """
    wanted = Wanted(tuple(ignore or ()), context, every)
    if str(one) == str(other) == "-":
        raise UsageError("standard input is one file, not two")
    with open_file(one) as first, open_file(other) as second:
        sides = Side(one, first), Side(other, second)
        kinds = [_kind(side) for side in sides]
        if kinds[0] != kinds[1]:
            raise UsageError(f"nothing to compare: {one} is {kinds[0]}, {other} is {kinds[1]}")
        if ignore and kinds[0] in (BUFFER, ARRAY, TEXT, MEMORY):
            raise UsageError(f"--ignore is for fields: {one} is {kinds[0]}")
        try:
            found = _comparing(kinds[0])(*sides, wanted)
        except UsageError:
            raise
        except UnderstudyError as error:
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
    """What a file is, by its first bytes."""
    with reading(side.path):
        head = bytes(side.file.peek(1))  # type: ignore[attr-defined]
    if not head:
        raise UsageError(f"{side.path} is empty")
    from understudy.cli.inspect import CODE as CODES
    from understudy.cli.kinds import FileKind, kind_of

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
    TRACE: ("diff_traces", "traces"),
    CODE: ("diff_documents", "codes"),
    BUFFER: ("diff_documents", "buffers"),
    DOCUMENT: ("diff_documents", "documents"),
    SCHEMA: ("diff_documents", "schemas"),
    ARRAY: ("diff_data", "arrays"),
    TEXT: ("diff_data", "texts"),
    MEMORY: ("diff_data", "memories"),
}
"""Which module of `understudy.cli` compares files of a kind, and how it calls that."""


def _comparing(kind: str) -> Callable[[Side, Side, Wanted], Found]:
    module, name = _COMPARED[kind]
    found: Callable[[Side, Side, Wanted], Found] = getattr(import_module(f"understudy.cli.{module}"), name)
    return found
