"""Does a kernel fit a register map? What it wants is there, under its names; a map may have more."""

from __future__ import annotations

import pyarrow as pa

from understudy.core.errors import UnderstudyError, WireError
from understudy.device.fletcher.kernel import FLETCHER_MODE, FLETCHER_NAME, Kernel
from understudy.device.fletcher.map.custom import parse_custom
from understudy.device.fletcher.map.layout import FletcherMap


def check_kernel(layout: FletcherMap, kernel: Kernel) -> None:
    """`WireError` that says what the kernel wants and the map lacks."""
    try:
        for schema in kernel.schemas:
            _check_schema(layout, schema)
        for text in kernel.custom:
            wanted = parse_custom(text)
            found = layout.custom(wanted.name)
            if (found.behaviour, found.width) != (wanted.behaviour, wanted.width):
                raise WireError(
                    f"custom register {found.name} of the map is {found.behaviour}:{found.width}, "
                    f"expected {wanted.behaviour}:{wanted.width}"
                )
    except UnderstudyError as error:
        raise error.at("kernel", kernel.name) from None


def _check_schema(layout: FletcherMap, schema: pa.Schema) -> None:
    metadata = schema.metadata or {}
    name = metadata.get(FLETCHER_NAME, b"").decode("utf-8", "replace")
    mode = metadata.get(FLETCHER_MODE, b"read").decode("utf-8", "replace")
    batch = layout.batch(name)
    if batch.mode.value != mode:
        raise WireError(f"RecordBatch {name} of the map is one to {batch.mode.value}, expected one to {mode}")
    wanted = [(field.name, field.type, field.nullable) for field in schema]
    given = [(field.name, field.type, field.nullable) for field in batch.schema]
    if wanted != given:
        raise WireError(f"RecordBatch {name} of the map has {_text(given)}, expected {_text(wanted)}")


def _text(fields: list[tuple[str, pa.DataType, bool]]) -> str:
    return "{" + ", ".join(f"{name}: {kind}{' or null' if nullable else ''}" for name, kind, nullable in fields) + "}"
