"""How long does a register map take?

Schemas of 1,000 columns: flat ones, and ones whose columns are nested and profiled. The target is 200 ms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from harness import Row, cpu, latency, main, repeat
from softcard.device.fletcher.map.build import fletcher_map
from softcard.device.fletcher.map.checker import check_design
from softcard.image.arrow_schema import read_schema
from softcard.report.fletcher import to_vhdmmio

COLUMNS: Final = 1000
TARGET_MS: Final = 200
TITLE: Final = "Fletcher: register map of a schema"


def flat() -> pa.Schema:
    """Numbers and strings, every other one nullable."""
    kinds = (pa.int64(), pa.utf8(), pa.float32(), pa.timestamp("us"))
    fields = [pa.field(f"c{n}", kinds[n % 4], nullable=bool(n % 2)) for n in range(COLUMNS)]
    return pa.schema(fields, metadata={"fletcher_name": "Flat"})


def nested() -> pa.Schema:
    """Lists of structs with a string, all of them profiled: 4,000 buffers, 24,000 counters."""
    point = pa.struct([pa.field("x", pa.int32(), False), pa.field("n", pa.utf8(), False)])
    kind = pa.list_(pa.field("item", point, False))
    metadata = {"fletcher_profile": "true"}
    fields = [pa.field(f"c{n}", kind, nullable=False, metadata=metadata) for n in range(COLUMNS)]
    return pa.schema(fields, metadata={"fletcher_name": "Nested"})


def measure(quick: bool = False) -> list[Row]:
    rounds = 3 if quick else 20

    def row(what: str, action: Callable[[], Any], **more: Any) -> Row:
        return latency("fletcher_map", what, "ms", repeat(rounds, lambda: cpu(action)), **more)

    wide, deep = flat(), nested()
    file, plan = wide.serialize().to_pybytes(), fletcher_map([deep])
    return [
        row(f"{COLUMNS:,} columns, from the file", lambda: fletcher_map([read_schema(file)]), target=TARGET_MS),
        row(f"{COLUMNS:,} nested, profiled columns", lambda: fletcher_map([deep]), target=TARGET_MS),
        row(f"{COLUMNS:,} columns, profile runtime", lambda: fletcher_map([wide], profile="runtime"), target=TARGET_MS),
        row(f"{COLUMNS:,} columns, profile spec", lambda: fletcher_map([wide], profile="spec"), target=TARGET_MS),
        row(f"check of {COLUMNS:,} columns", lambda: check_design([wide])),
        row(f"YAML of {len(plan.fields):,} fields", lambda: to_vhdmmio(plan)),
    ]


if __name__ == "__main__":
    main(measure, TITLE)
