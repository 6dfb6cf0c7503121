"""What stands in an Arrow schema, as data: its fields, and the register map of the Fletcher design that reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from understudy.core.errors import RuleError
from understudy.device.fletcher.map.build import fletcher_map
from understudy.image.arrow_schema import read_arrow
from understudy.report.fletcher import HEADINGS, rows

Document = dict[str, Any]


def describe(data: bytes) -> Document:
    """The schema's fields, metadata and registers; ``refused`` says why there are none. `WireError` for no schema."""
    found = read_arrow(data)
    schema = getattr(found, "schema", found)
    registers: list[tuple[str, ...]] = []
    refused = ""
    try:
        registers = list(rows(fletcher_map([found])))
    except RuleError as error:
        refused = str(error)
    return {
        "format": "Arrow schema",
        "rows": getattr(found, "num_rows", None),
        "metadata": {_text(key): _text(value) for key, value in (schema.metadata or {}).items()},
        "fields": [
            {"name": each.name, "type": str(each.type), "nullable": each.nullable, "metadata": {
                _text(key): _text(value) for key, value in (each.metadata or {}).items()
            }}
            for each in schema
        ],
        "registers": [dict(zip(HEADINGS, row, strict=True)) for row in registers],
        "refused": refused,
    }  # fmt: skip


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def lines(document: Document) -> Iterator[str]:
    """The text of what `describe` gave."""
    count = "" if document["rows"] is None else f", a RecordBatch of {document['rows']} rows"
    yield f"Arrow schema: {len(document['fields'])} fields{count}"
    for key, value in document["metadata"].items():
        yield f"  {key}: {value}"
    for each in document["fields"]:
        marks = [f"{key}={value}" for key, value in each["metadata"].items()]
        nullable = " (nullable)" if each["nullable"] else ""
        yield f"  {each['name']}: {each['type']}{nullable} {' '.join(marks)}".rstrip()
    if document["refused"]:
        yield f"no register map: {document['refused']}"
        return
    yield "registers (understudy fletcher map has them in other forms):"
    for row in document["registers"]:
        yield f"  {row['address']:>8}  {row['bits']:<7} {row['register']} ({row['host may']})"
