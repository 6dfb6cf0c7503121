"""What a virtual kernel is: a name, the schemas it works on, its custom registers, and a function that does the work.

A user adds one in ten lines::

    import pyarrow.compute as pc
    from understudy.device.fletcher.kernel import kernel

    @kernel(read={"ExampleBatch": [("number", pa.int64())]})
    def longest(job):
        return pc.max(job.batch()["number"]).as_py()  # what is returned is the 64-bit result

The function gets a `Job` (job.py): the rows the host has asked for as Arrow arrays over device memory, the custom
registers, and a way to write RecordBatches back. A function runs in one piece. A generator runs in slices: between two
of them the host sees status registers and profile counters move, and may stop or reset it::

    @kernel(read={"ExampleBatch": [("number", pa.int64())]}, custom=["s:32:batches"])
    def total(job):
        for count, part in enumerate(job.slices(rows=1 << 20), 1):
            job.result += pc.sum(part["number"]).as_py()
            job.set_status("batches", count)
            yield
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from understudy.core.errors import WireError
from understudy.core.shown import Rows, Shown, count

if TYPE_CHECKING:
    import pyarrow as pa

    from understudy.device.fletcher.job import Job
    from understudy.device.fletcher.map.layout import FletcherMap

Run: TypeAlias = "Callable[[Job], Iterator[None] | int | None]"
"""Does the work of one start; an int is the result, an iterator is advanced slice by slice."""
SchemaLike: TypeAlias = "pa.Schema | Sequence[tuple[str, pa.DataType]]"
"""A schema, or (name, type) pairs of fields that are not nullable."""

FLETCHER_NAME: Final = b"fletcher_name"
FLETCHER_MODE: Final = b"fletcher_mode"
READ: Final = "read"
WRITE: Final = "write"


@dataclass(frozen=True, slots=True)
class Handshake:
    """How a kernel drives idle, busy and done, and which control bits it heeds. Kernels differ (facts of the examples).

    `idle_when_done`: done comes with idle (status 5); otherwise with done alone (4).
    `restartable`: a start while done begins anew; otherwise it is ignored until the control reset.
    `heeds_stop`: control(1) ends a running job; a kernel that does not heed it works on.
    `heeds_reset`: control(2) ends a running job; otherwise it works only when the kernel is done.
    """

    idle_when_done: bool = True
    restartable: bool = False
    heeds_stop: bool = True
    heeds_reset: bool = True


@dataclass(frozen=True, slots=True)
class Kernel(Shown):
    """A virtual kernel. `schemas` carry `fletcher_name` and `fletcher_mode`; none means that it takes any map.

    `custom` are custom registers in the generator's syntax, ``c:16:cat`` or ``s:64:dog``.
    """

    name: str
    run: Run
    schemas: tuple[pa.Schema, ...] = ()
    custom: tuple[str, ...] = ()
    handshake: Handshake = field(default_factory=Handshake)
    doc: str = ""

    def __repr__(self) -> str:
        return f"<virtual kernel {self.name}, {count(len(self.schemas), 'schema')}>"

    def _rows(self) -> Rows:
        yield "schema", "field", "type"
        for schema in self.schemas:
            name = (schema.metadata or {}).get(b"fletcher_name", b"").decode()
            for each in schema:
                yield name, each.name, each.type

    def __reduce__(self) -> tuple[Any, ...]:
        home = getattr(self.run, "__module__", "")
        for name, value in vars(sys.modules[home]).items() if home in sys.modules else ():
            if value is self:
                return _named, (home, name)
        raise WireError(f"kernel {self.name} has no name in module {home}, expected one to pickle it by")

    def map(self, **options: Any) -> FletcherMap:
        """The register map of the kernel's schemas and custom registers; `options` are those of `fletcher_map`."""
        from understudy.device.fletcher.map.build import fletcher_map

        if not self.schemas:
            raise WireError(f"kernel {self.name} works on any schema: give the device a map, expected schemas for one")
        return fletcher_map(self.schemas, custom=self.custom, **options)


def _named(module: str, name: str) -> Kernel:
    found = getattr(import_module(module), name)
    assert isinstance(found, Kernel)
    return found


def kernel(
    name: str = "",
    *,
    read: Mapping[str, SchemaLike] | None = None,
    write: Mapping[str, SchemaLike] | None = None,
    custom: Sequence[str] = (),
    handshake: Handshake | None = None,
) -> Callable[[Run], Kernel]:
    """Make a `Kernel` of a function; its name is that of the function where none is given.

    `read` and `write` are schemas by RecordBatch name, in the order in which the host queues them where the map is
    the run-time's (the generator sorts them itself).
    """
    schemas = (
        *(named_schema(each, schema, READ) for each, schema in (read or {}).items()),
        *(named_schema(each, schema, WRITE) for each, schema in (write or {}).items()),
    )

    def made(run: Run) -> Kernel:
        own = name or getattr(run, "__name__", "kernel")
        doc = (getattr(run, "__doc__", None) or "").strip()
        return Kernel(own, run, schemas, tuple(custom), handshake or Handshake(), doc)

    return made


def named_schema(name: str, schema: SchemaLike, mode: str = READ) -> pa.Schema:
    """`schema` with the metadata that the generator wants: RecordBatch `name`, and `mode` "read" or "write"."""
    import pyarrow as pa

    if mode not in (READ, WRITE):
        raise WireError(f"mode {mode!r} of RecordBatch {name}, expected {READ!r} or {WRITE!r}")
    if not isinstance(schema, pa.Schema):
        schema = pa.schema([pa.field(each, kind, nullable=False) for each, kind in schema])
    own = {FLETCHER_NAME: name.encode(), FLETCHER_MODE: mode.encode()}
    return schema.with_metadata({**(schema.metadata or {}), **own})
