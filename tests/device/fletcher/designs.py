"""Designs for the tests: schemas in few words, and what was recorded from the generator and the run-time library."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from softcard.device.fletcher.map.layout import FletcherMap
from softcard.image.arrow_schema import read_arrow

VECTORS = Path(__file__).parents[2] / "vectors" / "fletcher"
I16, UTF8 = pa.int16(), pa.utf8()

Batch = pa.Schema | pa.RecordBatch


def field(name: str, kind: pa.DataType = I16, nullable: bool = False, **metadata: str) -> pa.Field:
    """A field; `metadata` without its prefix: ``profile="true"``."""
    keys = {f"fletcher_{key}": value for key, value in metadata.items()}
    return pa.field(name, kind, nullable=nullable, metadata=keys or None)


def items(kind: pa.DataType, nullable: bool = False, name: str = "item") -> pa.DataType:
    """A list of `kind`."""
    return pa.list_(pa.field(name, kind, nullable=nullable))


def struct(*fields: pa.Field) -> pa.DataType:
    return pa.struct(list(fields))


def schema(*fields: pa.Field, name: str = "R", mode: str = "read") -> pa.Schema:
    return pa.schema(fields, metadata={"fletcher_name": name, "fletcher_mode": mode})


ONE = schema(field("a"))


@dataclass(frozen=True)
class Recorded:
    """A design and what came of it: `fields` of the generator, or None where it stopped."""

    name: str
    inputs: tuple[Batch, ...]
    options: dict[str, Any]
    fields: tuple[str, ...] | None


@cache
def recorded_maps() -> tuple[Recorded, ...]:
    """What the generator made: the register files of `*.mmio.yaml`, and the records of maps.json."""
    known = [_from_yaml(path) for path in sorted(VECTORS.glob("*.mmio.yaml"))]
    for record in json.loads((VECTORS / "maps.json").read_text(encoding="utf-8")):
        fields = tuple(record["fields"]) if "fields" in record else None
        known.append(Recorded(record["name"], decoded(record["inputs"]), record["options"], fields))
    return tuple(known)


def decoded(texts: list[str]) -> tuple[Batch, ...]:
    """Schemas and RecordBatches of a record."""
    return tuple(read_arrow(base64.b64decode(text)) for text in texts)


_SAME_SCHEMA = {"prim_off": "prim", "rb_prim": "prim", "regs_odd": "regs"}
_OPTIONS: dict[str, dict[str, Any]] = {
    "prim_off": {"offset": 64},
    "regs": {"custom": ["c:16:cat", "s:64:dog", "s:32:fish"]},
    "regs_odd": {"custom": ["c:1:bit", "s:33:wide", "c:8:byte", "c:128:big", "c:32:ini"]},
}


def _from_yaml(path: Path) -> Recorded:
    name = path.name.removesuffix(".mmio.yaml")
    if name == "ex_sum_profile":
        number = field("number", pa.int64(), profile="true")
        inputs: tuple[Batch, ...] = (schema(number, name="ExampleBatch"),)
    else:
        inputs = tuple(map(read_arrow, sorted(VECTORS.glob(f"{_SAME_SCHEMA.get(name, name)}.*.as"))))
    return Recorded(name, inputs, _OPTIONS.get(name, {}), yaml_fields(path.read_text(encoding="utf-8")))


def yaml_fields(text: str) -> tuple[str, ...]:
    """``address name bits behaviour`` of each field of a register file for vhdmmio."""
    pattern = r"address: (\d+)\n    name: (\S+)\n(?:    doc: .*\n)?    bitrange: (\S+)\n    behavior: (\S+)"
    return tuple(map(" ".join, re.findall(pattern, text)))


def map_fields(plan: FletcherMap) -> tuple[str, ...]:
    """A map in the same words."""
    return tuple(
        f"{each.address} {each.name} "
        + (f"{each.lsb + each.width - 1}..{each.lsb}" if each.width > 1 else f"{each.lsb}")
        + f" {each.behaviour}"
        for each in plan.fields
    )


def addresses(plan: FletcherMap) -> dict[str, int]:
    """Byte address of each field."""
    return {each.name: each.address for each in plan.fields}
