"""The comparisons of `softcard diff`, by kind of file: arrays, texts, memories, code, documents, traces."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from softcard.cli.diff import EQUAL, DiffOptions, DiffResult, Side
from softcard.cli.exits import UsageError
from softcard.cli.file_kinds import FileKind, kind_of
from softcard.cli.files import reading
from softcard.cli.inspect import described
from softcard.cli.tables import aligned
from softcard.cli.traces import lines_of
from softcard.core.errors import WireError
from softcard.report.differences import ABSENT, Change, bytes_change, code_changes, document_changes
from softcard.report.layouts import describe_refsi
from softcard.trace.chrome import thread_name
from softcard.trace.difference import Ignored, first_difference
from softcard.trace.page_file import find_rule
from softcard.trace.text import record_line, value_text
from softcard.trace.timeline import CLAUSE
from softcard.trace.values import Record

# ---- arrays, texts and memories --------------------------------------------------------------------------------------


def arrays(one: Side, other: Side, wanted: DiffOptions) -> DiffResult:
    """Return the first differing element of two .npy files; NaNs with the same bits are equal."""
    arrays = []
    for side in (one, other):
        if str(side.path) == "-":
            raise UsageError("arrays cannot be read from standard input: give a file")
        try:
            arrays.append(np.load(side.path, mmap_mode="r", allow_pickle=False))
        except (ValueError, OSError, EOFError) as error:
            raise UsageError(f"{side.path} cannot be read as an array: {error}") from None
    first, second = arrays
    shapes = [f"{each.dtype}{list(each.shape)}" for each in arrays]
    if shapes[0] != shapes[1]:
        text = f"{one.path} is {shapes[0]}, {other.path} is {shapes[1]}"
        return {"equal": False, "shapes": shapes, "lines": [text]}
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
    lines = [
        f"element {index} is the first that differs; {unlike:,} of {first.size:,} elements differ",
        *(f"  {side.path}: {value!r}" for side, value in zip((one, other), values, strict=True)),
    ]
    shown = [value if isinstance(value, (int, float)) else str(value) for value in values]
    return {
        "equal": False, "shapes": shapes, "index": index, "values": shown, "differing": unlike, "lines": lines,
    }  # fmt: skip


_ELEMENTS: Final = 1 << 18


def _raw(array: Any) -> Any:
    """Return a two-dimensional array of bytes: each row has the bytes of one element of `array`."""
    return np.ascontiguousarray(array).view(np.uint8).reshape(len(array), -1)


class _Bytes:
    """The bytes of an array, with the interface of a binary file."""

    def __init__(self, array: Any) -> None:
        self._flat = array.reshape(-1)
        self._at = 0

    def read(self, size: int) -> bytes:
        count = size // self._flat.itemsize or 1
        self._at, at = self._at + count, self._at
        data: bytes = self._flat[at : self._at].tobytes()
        return data


def texts(one: Side, other: Side, wanted: DiffOptions) -> DiffResult:
    """Return the first differing line of two text files."""
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
                text.append("  only the line ending differs")
            return {"equal": False, "line": count, "one": texts[0], "other": texts[1], "before": old, "lines": text}
        assert pair[0] is not None  # both have not ended
        before = [*before, pair[0]][-wanted.context :] if wanted.context else []
    return {"equal": True, "lines": [f"{EQUAL}: {count:,} lines"]}


def memories(one: Side, other: Side, wanted: DiffOptions) -> DiffResult:
    """Return the first differing bytes of two files."""
    with reading(one.path):
        return of_bytes(one.file, other.file, one, other)


def of_bytes(first: BinaryIO, second: BinaryIO, one: Side, other: Side) -> DiffResult:
    """Return the first differing bytes of two streams; `one` and `other` are the files that the output names."""
    change = bytes_change(first, second)
    if change is None:
        return {"equal": True, "lines": [EQUAL]}
    names = str(one.path), str(other.path)
    text = [
        f"bytes {change.offset:#x} to {change.end:#x} are the first that differ ({change.end - change.offset:,}); "
        f"{change.differing:,} bytes in {change.ranges:,} places differ in all"
    ]
    width = max(map(len, names))
    for name, data in zip(names, (change.one, change.other), strict=True):
        text.append(f"  {name:<{width}}  {data.hex(' ', -8) if data else '(has ended)'}")
    if change.sizes[0] != change.sizes[1]:
        text.append(f"  sizes: {change.sizes[0]:,} and {change.sizes[1]:,} bytes")
    document = asdict(change) | {"one": change.one.hex(), "other": change.other.hex()}
    return {"equal": False, **document, "lines": text}


# ---- documents and code ----------------------------------------------------------------------------------------------

MOST_CHANGES: Final = 40
"""The maximum number of differences shown without --all."""


def codes(one: Side, other: Side, wanted: DiffOptions) -> DiffResult:
    """Return the differences of two files with machine code.

    Kernels are compared by header and disassembly; the rest of the files is compared as bytes."""
    documents: list[Any] = []
    files = one.data(), other.data()
    for side, data in zip((one, other), files, strict=True):
        try:
            document, _ = described(kind := kind_of(data), data)
            if kind is FileKind.RISCV:  # its functions are disassembled one by one
                names = [each["name"] for each in document["functions"]]
                document["functions"] = [described(kind, data, name)[0]["functions"][0] for name in names]
            documents.append(document)
        except WireError as error:
            raise error.at("file", str(side.path)) from None
    found = _changes(code_changes(documents[0], documents[1], wanted.ignored), (one, other), wanted)
    if not found["equal"] or wanted.ignored or files[0] == files[1]:
        return found
    # All described parts are equal: compare the rest, such as constants and debug information.
    return of_bytes(io.BytesIO(files[0]), io.BytesIO(files[1]), one, other)


def buffers(one: Side, other: Side, wanted: DiffOptions) -> DiffResult:
    """Return the differences of two RefSi command buffers, command by command."""
    commands = []
    for side in (one, other):
        found = describe_refsi(side.data())["commands"]
        commands.append({"commands": [{"pc": each["byte"], "text": each["text"]} for each in found]})
    return _changes(document_changes(commands[0], commands[1], wanted.ignored), (one, other), wanted)


def documents(one: Side, other: Side, wanted: DiffOptions) -> DiffResult:
    """Return the differences of two JSON documents, by the names of their values."""
    documents: list[Any] = []
    for side in (one, other):
        try:
            documents.append(json.loads(side.data()))
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{side.path} begins like JSON but is invalid: {error}") from None
    return _changes(document_changes(documents[0], documents[1], wanted.ignored), (one, other), wanted)


def schemas(one: Side, other: Side, wanted: DiffOptions) -> DiffResult:
    """Return the differences of the register maps that Fletcher's generator derives from two Arrow schemas."""
    from softcard.cli.fletcher import read_files

    def registers(side: Side) -> Any:
        if str(side.path) == "-":
            raise UsageError("schemas cannot be read from standard input: give a file")
        batches = read_files([side.path])
        from softcard.device.fletcher.map.build import fletcher_map
        from softcard.report.fletcher import HEADINGS, rows

        found = [dict(zip(HEADINGS, row, strict=True)) for row in rows(fletcher_map(batches))]
        return {each.pop("register"): each for each in found}

    found = _changes(document_changes(registers(one), registers(other), wanted.ignored), (one, other), wanted)
    return found | ({"lines": [f"{EQUAL} of register maps"]} if found["equal"] else {})


def _changes(changes: Iterator[Any], sides: tuple[Side, Side], wanted: DiffOptions) -> DiffResult:
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
    for value, lacking, side in ((change.one, change.other, sides[0]), (change.other, change.one, sides[1])):
        if lacking == ABSENT and isinstance(value, (dict, list)):
            return f"{change.place}: in {side.path} only"
    return f"{change.place}: {_short(change.one)} -> {_short(change.other)}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


# ---- traces ----------------------------------------------------------------------------------------------------------

WIDE: Final = 50
"""The maximum number of characters of a value that are shown."""


def traces(one: Side, other: Side, wanted: DiffOptions) -> DiffResult:
    """Return the first differing event of two traces, the events before it, and the rules that these events name."""
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
    text += [f"  {line}" for line in _summary(found.one, found.other, names, found.missing, found.added)]
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
    return "" if event is None else f": time {event['time']}, {thread_name(event)}, {event['event']}"


def _summary(
    one: Record | None, other: Record | None, names: tuple[str, str], missing: int | None, added: int | None
) -> Iterator[str]:
    if one is None or other is None:
        lacks, has = names if one is None else names[::-1]
        yield f"{lacks} ends here, {has} has more events"
    elif missing or added:
        count, has, lacks = (missing, *names) if missing else (added, *names[::-1])
        yield f"{count} event{'s' if count != 1 else ''} of {has} {'are' if count != 1 else 'is'} missing in {lacks}"
    elif one["event"] != other["event"]:
        yield f"{one['event']} in {names[0]}, {other['event']} in {names[1]}"


def _fields(one: Record, other: Record, skipped: frozenset[str], names: tuple[str, str]) -> list[str]:
    """Return the lines of a table with the fields of both events; fields that differ have a note.

    Nested records are flattened; fields in `skipped` are left out.
    """
    sides = _flat(one), _flat(other)
    rows: list[tuple[str, ...]] = [("  field", *names, "")]
    for name in dict.fromkeys((*sides[0], *sides[1])):
        cells = [value_text(side[name]) if name in side else "absent" for side in sides]
        differs = cells[0] != cells[1] and skipped.isdisjoint(name.split("."))
        rows.append((f"  {name}", *_windows(*cells), "differs" if differs else ""))
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
    """Return both texts. If they are long, return only an excerpt of each around their first difference."""
    if max(len(one), len(other)) <= WIDE:
        return one, other
    pairs = enumerate(zip(one, other, strict=False))
    at = next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))
    start = max(at - WIDE // 4, 0) if at > WIDE // 2 else 0

    def cut(text: str) -> str:
        return f"{'...' if start else ''}{text[start : start + WIDE]}{'...' if len(text) > start + WIDE else ''}"

    return cut(one), cut(other)


def _rules(*events: Record | None) -> list[dict[str, str]]:
    """Return the rules that the events name, each with its clause and text."""
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
        clause, text = (rule.clause, rule.text) if rule else (clause, "")
        found.append({"rule": name, "clause": clause, "text": text})
    return found
