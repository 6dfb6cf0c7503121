"""The check that a kernel fits a register map: the map must contain all that the kernel needs."""

from __future__ import annotations

import pyarrow as pa

from softcard.core.errors import SoftcardError, WireError
from softcard.device.fletcher.kernel import FLETCHER_MODE, FLETCHER_NAME, Kernel
from softcard.device.fletcher.map.flatten import type_of
from softcard.device.fletcher.map.layout import FletcherMap
from softcard.device.fletcher.map.registers import parse_custom


def check_kernel(layout: FletcherMap, kernel: Kernel) -> None:
    """Raise a `WireError` if the map `layout` lacks registers or RecordBatches that `kernel` needs.

    The error message lists them."""
    try:
        for schema in kernel.schemas:
            _check_schema(layout, schema)
        for text in kernel.custom:
            wanted = parse_custom(text)
            found = layout.custom(wanted.name)
            if (found.behaviour, found.width) != (wanted.behaviour, wanted.width):
                raise WireError(
                    f"custom register {found.name} of the register map is {found.behaviour}:{found.width}, "
                    f"but the kernel needs {wanted.behaviour}:{wanted.width}"
                )
    except SoftcardError as error:
        raise error.at("kernel", kernel.name) from None


def _check_schema(layout: FletcherMap, schema: pa.Schema) -> None:
    metadata = schema.metadata or {}
    name = metadata.get(FLETCHER_NAME, b"").decode("utf-8", "replace")
    mode = metadata.get(FLETCHER_MODE, b"read").decode("utf-8", "replace")
    batch = layout.batch(name)
    if batch.mode.value != mode:
        raise WireError(
            f"RecordBatch {name} of the register map has mode {batch.mode.value!r}, but the kernel needs {mode!r}"
        )
    wanted = [(field.name, field.type, field.nullable) for field in schema]
    given = [(field.name, field.type, field.nullable) for field in batch.schema]
    if wanted != given:
        raise WireError(
            f"RecordBatch {name} of the register map has {_text(batch.schema)}, but the kernel needs {_text(schema)}"
        )


def _text(schema: pa.Schema) -> str:
    return "{" + ", ".join(type_of(field, named=True) for field in schema) + "}"
