"""The difference of two files that are read whole, as `understudy diff` tells it: code, commands, register maps."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from understudy.cli.diff_data import of_bytes
from understudy.cli.diff_sides import EQUAL, Found, Side, Wanted
from understudy.cli.exits import UsageError
from understudy.cli.inspect import described
from understudy.cli.kinds import FileKind, kind_of
from understudy.core.errors import WireError
from understudy.report.buffers import describe_refsi
from understudy.report.differences import ABSENT, Change, code_changes, document_changes

MOST_CHANGES: Final = 40
"""Those that are shown without --all."""


def codes(one: Side, other: Side, wanted: Wanted) -> Found:
    """By kernel, with headers and disassembly; what is in none of these byte by byte."""
    documents: list[Any] = []
    files = one.data(), other.data()
    for side, data in zip((one, other), files, strict=True):
        try:
            document, _ = described(kind := kind_of(data), data)
            if kind is FileKind.RISCV:  # which are disassembled one by one
                names = [each["name"] for each in document["functions"]]
                document["functions"] = [described(kind, data, name)[0]["functions"][0] for name in names]
            documents.append(document)
        except WireError as error:
            raise error.at("file", str(side.path)) from None
    found = _changes(code_changes(documents[0], documents[1], wanted.ignored), (one, other), wanted)
    if not found["equal"] or wanted.ignored or files[0] == files[1]:
        return found
    # What is in no kernel, and no field: constants, debugging information.
    return of_bytes(io.BytesIO(files[0]), io.BytesIO(files[1]), one, other)


def buffers(one: Side, other: Side, wanted: Wanted) -> Found:
    """By commands, as code by instructions."""
    commands = []
    for side in (one, other):
        found = describe_refsi(side.data())["commands"]
        commands.append({"commands": [{"pc": each["byte"], "text": each["text"]} for each in found]})
    return _changes(document_changes(commands[0], commands[1], wanted.ignored), (one, other), wanted)


def documents(one: Side, other: Side, wanted: Wanted) -> Found:
    """What JSON holds, by names."""
    documents: list[Any] = []
    for side in (one, other):
        try:
            documents.append(json.loads(side.data()))
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{side.path} begins like JSON and is none: {error}") from None
    return _changes(document_changes(documents[0], documents[1], wanted.ignored), (one, other), wanted)


def schemas(one: Side, other: Side, wanted: Wanted) -> Found:
    """The register maps that Fletcher's generator makes of them."""
    from understudy.cli.fletcher import read_files

    def registers(side: Side) -> Any:
        if str(side.path) == "-":
            raise UsageError("schemas are read from files, not from standard input")
        batches = read_files([side.path])
        from understudy.device.fletcher.map.build import fletcher_map
        from understudy.report.fletcher import HEADINGS, rows

        found = [dict(zip(HEADINGS, row, strict=True)) for row in rows(fletcher_map(batches))]
        return {each.pop("register"): each for each in found}

    found = _changes(document_changes(registers(one), registers(other), wanted.ignored), (one, other), wanted)
    return found | ({"lines": [f"{EQUAL} of register maps"]} if found["equal"] else {})


def _changes(changes: Iterator[Any], sides: tuple[Side, Side], wanted: Wanted) -> Found:
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
