"""`understudy diff`: two traces, code objects, register maps, arrays or memories, and what first differs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final

import typer

from understudy.cli.exits import ExitCode, UsageError
from understudy.cli.files import MAX_FILE_BYTES, open_file, reading
from understudy.cli.tables import aligned
from understudy.cli.trace import lines_of
from understudy.core.errors import UnderstudyError, WireError
from understudy.trace.reading import Record
from understudy.trace.text import record_line, value_text

if TYPE_CHECKING:
    from understudy.report.differences import Change

EQUAL: Final = "no difference"
WIDE: Final = 50
"""Characters of a value that are shown."""
MOST_CHANGES: Final = 40
"""Of documents and code; --all shows the others too."""
_EVENT: Final = re.compile(rb'\s*\{"time":\s*\d+,\s*"event":')
_TEXT: Final = frozenset(range(32, 256)) | {9, 10, 12, 13, 27}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to compare, and how much to show."""

    ignored: tuple[str, ...]
    context: int
    every: bool


Found = dict[str, Any]
"""What --json prints; ``equal`` says whether there is no difference, ``lines`` hold the text for people."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the files, open at its start."""

    path: Path
    file: BinaryIO

    def data(self) -> bytes:
        """All of it."""
        with reading(self.path):
            data = self.file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise UsageError(f"{self.path} is larger than {MAX_FILE_BYTES} bytes")
        return data


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
    came before it, and the clauses that it names; of any length. Code objects
    and AMD OpenCL 2.0 programs: by kernel, with disassembly. Register maps
    (JSON), Arrow schemas (by their Fletcher maps), other JSON: by name. .npy:
    the first element. Text: the first line. All else: the first bytes.

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
        if ignore and kinds[0] in (ARRAY, TEXT, MEMORY):
            raise UsageError(f"--ignore is for fields: {one} is {kinds[0]}")
        try:
            found = _COMPARED[kinds[0]](*sides, wanted)
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
    from understudy.cli.kinds import GPU_MACHINES
    from understudy.image.hsa.bundle import is_bundle

    if head.startswith(b"\x93NUMPY"):
        return ARRAY
    if head.startswith(b"ARROW1") or side.path.suffix == ".as":
        return SCHEMA
    if is_bundle(head) or (head[:4] == b"\x7fELF" and int.from_bytes(head[18:20], "little") in GPU_MACHINES):
        return CODE
    if _EVENT.match(head) or _is_event(head.lstrip().partition(b"\n")[0]):
        return TRACE
    if head.lstrip()[:1] in (b"{", b"["):
        return DOCUMENT
    return TEXT if _TEXT.issuperset(head) else MEMORY


def _is_event(line: bytes) -> bool:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and {"time", "event"} <= set(found)


# ---- traces ----------------------------------------------------------------------------------------------------------


def _traces(one: Side, other: Side, wanted: Wanted) -> Found:
    from understudy.trace.difference import Ignored, first_difference

    ignored = Ignored.of(wanted.ignored)
    current: list[Path] = [one.path]

    def lines(side: Side) -> Iterator[bytes]:
        for line in lines_of(side.file, side.path):
            current[0] = side.path
            yield line

    try:
        common, found = first_difference(lines(one), lines(other), ignored, wanted.context)
    except WireError as error:
        raise error.at("file", str(current[0])) from None
    if found is None:
        return {"equal": True, "common": common, "lines": [f"{EQUAL}: {common:,} events"]}
    names = str(one.path), str(other.path)
    rules = _rules(found.one, found.other)
    text = [f"event {found.number:,} differs" + _where(found.one or found.other)]
    text += [f"  {line}" for line in _told(found.one, found.other, names, found.missing, found.added)]
    if found.one and found.other and not (found.missing or found.added):
        skipped = ignored.of_kind(str(found.one["event"]))
        text += ["", *_fields(found.one, found.other, skipped, names)]
    else:
        text += [
            f"  {name}: {'has ended' if event is None else record_line(event)}"
            for name, event in zip(names, (found.one, found.other), strict=True)
        ]
    for each in rules:
        text += ["", f"clause {each['clause']} [{each['rule']}]", f"  {each['text']}"]
    if found.before:
        text += ["", f"before it, in both ({min(common, wanted.context)} of {common:,} common events):"]
        text += [f"  {record_line(event)}" for event in found.before]
    document = asdict(found)
    return {"equal": False, "common": common, **document, "rules": rules, "lines": text}


def _where(event: Record | None) -> str:
    from understudy.trace.chrome import thread_name

    return "" if event is None else f": time {event['time']}, {thread_name(event)}, {event['event']}"


def _told(
    one: Record | None, other: Record | None, names: tuple[str, str], missing: int | None, added: int | None
) -> Iterator[str]:
    if one is None or other is None:
        lacks, has = names if one is None else names[::-1]
        yield f"{lacks} ends here, {has} goes on"
    elif missing or added:
        count, has, lacks = (missing, *names) if missing else (added, *names[::-1])
        yield f"{count} event{'s' if count != 1 else ''} of {has} {'are' if count != 1 else 'is'} missing in {lacks}"
    elif one["event"] != other["event"]:
        yield f"{one['event']} in {names[0]}, {other['event']} in {names[1]}"


def _fields(one: Record, other: Record, skipped: frozenset[str], names: tuple[str, str]) -> list[str]:
    """The fields of both events, records in them taken apart; those that differ, and are not skipped, are marked."""
    sides = _flat(one), _flat(other)
    rows: list[tuple[str, ...]] = [("  field", *names, "")]
    for name in dict.fromkeys((*sides[0], *sides[1])):
        cells = [value_text(side[name]) if name in side else "absent" for side in sides]
        is_marked = cells[0] != cells[1] and skipped.isdisjoint(name.split("."))
        rows.append((f"  {name}", *_windows(*cells), "differs" if is_marked else ""))
    return aligned(rows)


def _flat(record: Record, prefix: str = "") -> Record:
    found: Record = {}
    for name, value in record.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = value
    return found


def _windows(one: str, other: str) -> tuple[str, str]:
    """Two texts where they first differ, if they are long."""
    if max(len(one), len(other)) <= WIDE:
        return one, other
    pairs = enumerate(zip(one, other, strict=False))
    at = next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))
    start = max(at - WIDE // 4, 0) if at > WIDE // 2 else 0

    def cut(text: str) -> str:
        return f"{'...' if start else ''}{text[start : start + WIDE]}{'...' if len(text) > start + WIDE else ''}"

    return cut(one), cut(other)


def _rules(*events: Record | None) -> list[dict[str, str]]:
    """The rules that events name, and what they say."""
    from understudy.trace.page_file import find_rule
    from understudy.trace.timeline import CLAUSE

    named: dict[str, str] = {}
    for event in events:
        for name, value in (event or {}).items():
            if isinstance(value, str):
                named |= dict(CLAUSE.findall(value))
                if name == "rule":
                    named.setdefault(value, "")
    found = []
    for name, clause in named.items():
        rule = find_rule(name)
        said = (rule.clause, rule.text) if rule else (clause, "")
        found.append({"rule": name, "clause": said[0], "text": said[1]})
    return found


# ---- documents and code ----------------------------------------------------------------------------------------------


def _codes(one: Side, other: Side, wanted: Wanted) -> Found:
    from understudy.cli.inspect import described
    from understudy.cli.kinds import kind_of
    from understudy.report.differences import code_changes

    documents: list[Any] = []
    for side in (one, other):
        data = side.data()
        try:
            documents.append(described(kind_of(data), data)[0])
        except WireError as error:
            raise error.at("file", str(side.path)) from None
    return _changes(code_changes(documents[0], documents[1], wanted.ignored), (one, other), wanted)


def _documents(one: Side, other: Side, wanted: Wanted) -> Found:
    from understudy.report.differences import document_changes

    documents: list[Any] = []
    for side in (one, other):
        try:
            documents.append(json.loads(side.data()))
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{side.path} begins like JSON and is none: {error}") from None
    return _changes(document_changes(documents[0], documents[1], wanted.ignored), (one, other), wanted)


def _schemas(one: Side, other: Side, wanted: Wanted) -> Found:
    """The register maps that Fletcher's generator makes of them."""
    from understudy.cli.fletcher import read_files
    from understudy.report.differences import document_changes

    def registers(side: Side) -> Any:
        if str(side.path) == "-":
            raise UsageError("schemas are read from files, not from standard input")
        batches = read_files([side.path])
        from understudy.device.fletcher.map.build import fletcher_map
        from understudy.report.fletcher import HEADINGS, rows

        found = [dict(zip(HEADINGS, row, strict=True)) for row in rows(fletcher_map(batches))]
        return {each.pop("register"): each for each in found}

    return _changes(document_changes(registers(one), registers(other), wanted.ignored), (one, other), wanted)


def _changes(changes: Iterator[Any], sides: tuple[Side, Side], wanted: Wanted) -> Found:
    from understudy.report.differences import Change

    every = list(changes)
    if not every:
        return {"equal": True, "changes": [], "lines": [EQUAL]}
    shown = every if wanted.every else every[:MOST_CHANGES]
    text = [f"- {sides[0].path}", f"+ {sides[1].path}"]
    for each in shown:
        if isinstance(each, Change):
            text.append(_change(each, sides))
        else:
            text.append(f"{each.place}:")
            text += [f"  {mark} {pc:#8x}  {line}" for mark, pc, line in each.lines]
    if len(shown) < len(every):
        text.append(f"and {len(every) - len(shown)} more: --all shows them")
    return {"equal": False, "changes": [asdict(each) for each in every], "lines": text}


def _change(change: Change, sides: tuple[Side, Side]) -> str:
    from understudy.report.differences import ABSENT

    for value, lacking, side in ((change.one, change.other, sides[0]), (change.other, change.one, sides[1])):
        if lacking == ABSENT and isinstance(value, (dict, list)):
            return f"{change.place}: in {side.path} only"
    return f"{change.place}: {_short(change.one)} -> {_short(change.other)}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


# ---- arrays, text, memory --------------------------------------------------------------------------------------------


def _arrays(one: Side, other: Side, wanted: Wanted) -> Found:
    import numpy as np

    from understudy.report.differences import bytes_change

    arrays = []
    for side in (one, other):
        if str(side.path) == "-":
            raise UsageError("arrays are read from files, not from standard input")
        try:
            arrays.append(np.load(side.path, mmap_mode="r", allow_pickle=False))
        except (ValueError, OSError, EOFError) as error:
            raise UsageError(f"{side.path} is no array that can be read: {error}") from None
    first, second = arrays
    shapes = [f"{each.dtype}{list(each.shape)}" for each in arrays]
    if shapes[0] != shapes[1]:
        told = f"{one.path} is {shapes[0]}, {other.path} is {shapes[1]}"
        return {"equal": False, "shapes": shapes, "lines": [told]}
    change = bytes_change(_Bytes(first), _Bytes(second))  # type: ignore[arg-type]
    if change is None:
        return {"equal": True, "shapes": shapes, "lines": [f"{EQUAL}: {shapes[0]}"]}
    flat = first.reshape(-1), second.reshape(-1)
    unlike = sum(
        int((_raw(a) != _raw(b)).any(axis=1).sum())
        for at in range(0, len(flat[0]), _ELEMENTS)
        for a, b in [(flat[0][at : at + _ELEMENTS], flat[1][at : at + _ELEMENTS])]
    )
    at = change.offset // first.itemsize
    index = [int(each) for each in np.unravel_index(at, first.shape)]
    values = [each[at].item() for each in flat]
    text = [
        f"element {index} differs, and {unlike:,} of {first.size:,} do",
        *(f"  {side.path}: {value!r}" for side, value in zip((one, other), values, strict=True)),
    ]
    shown = [value if isinstance(value, (int, float)) else str(value) for value in values]
    return {
        "equal": False, "shapes": shapes, "index": index, "values": shown, "differing": unlike, "lines": text,
    }  # fmt: skip


_ELEMENTS: Final = 1 << 18


def _raw(array: Any) -> Any:
    """The bytes of each element: NaNs of the same bits are the same."""
    import numpy as np

    return np.ascontiguousarray(array).view(np.uint8).reshape(len(array), -1)


class _Bytes:
    """An array's bytes, to be read as a file's."""

    def __init__(self, array: Any) -> None:
        self._flat = array.reshape(-1)
        self._at = 0

    def read(self, size: int) -> bytes:
        count = size // self._flat.itemsize or 1
        self._at, at = self._at + count, self._at
        data: bytes = self._flat[at : self._at].tobytes()
        return data


def _texts(one: Side, other: Side, wanted: Wanted) -> Found:
    before: list[bytes] = []
    count = 0
    for count, pair in enumerate(zip_longest(lines_of(one.file, one.path), lines_of(other.file, other.path)), 1):
        if pair[0] != pair[1]:
            texts = [None if each is None else each.decode("utf-8", "replace").rstrip("\r\n") for each in pair]
            old = [each.decode("utf-8", "replace").rstrip("\r\n") for each in before]
            text = [f"line {count:,} differs", *(f"    {each}" for each in old)]
            for mark, side, each in zip("-+", (one, other), texts, strict=True):
                text.append(f"  {mark} {f'({side.path} has ended)' if each is None else each}")
            if texts[0] == texts[1]:
                text.append("  only the line's end differs")
            return {"equal": False, "line": count, "one": texts[0], "other": texts[1], "before": old, "lines": text}
        assert pair[0] is not None  # both have not ended
        before = [*before, pair[0]][-wanted.context :] if wanted.context else []
    return {"equal": True, "lines": [f"{EQUAL}: {count:,} lines"]}


def _memories(one: Side, other: Side, wanted: Wanted) -> Found:
    from understudy.report.differences import bytes_change

    with reading(one.path):
        change = bytes_change(one.file, other.file)
    if change is None:
        return {"equal": True, "lines": [EQUAL]}
    names = str(one.path), str(other.path)
    text = [
        f"bytes {change.offset:#x} to {change.end:#x} differ first ({change.end - change.offset:,}); "
        f"{change.differing:,} bytes in {change.ranges:,} places do"
    ]
    width = max(map(len, names))
    for name, data in zip(names, (change.one, change.other), strict=True):
        text.append(f"  {name:<{width}}  {data.hex(' ', -8) if data else '(has ended)'}")
    if change.sizes[0] != change.sizes[1]:
        text.append(f"  sizes: {change.sizes[0]:,} and {change.sizes[1]:,} bytes")
    document = asdict(change) | {"one": change.one.hex(), "other": change.other.hex()}
    return {"equal": False, **document, "lines": text}


_COMPARED: Final[dict[str, Callable[[Side, Side, Wanted], Found]]] = {
    TRACE: _traces,
    CODE: _codes,
    DOCUMENT: _documents,
    SCHEMA: _schemas,
    ARRAY: _arrays,
    TEXT: _texts,
    MEMORY: _memories,
}
