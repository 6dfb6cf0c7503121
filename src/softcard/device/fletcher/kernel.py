"""Virtual kernels: a name, the schemas of its data, its custom registers, and a function that does the work.

A user adds one in ten lines::

    import pyarrow.compute as pc
    from softcard.device.fletcher.kernel import kernel

    @kernel(read={"ExampleBatch": [("number", pa.int64())]})
    def longest(job):
        return pc.max(job.batch()["number"]).as_py()  # the return value is the 64-bit result

The function gets a `Job` (job.py): the rows of the host's index range as Arrow arrays over device memory, the custom
registers, and a way to write RecordBatches. A plain function runs without interruption. A generator runs in slices:
between two of them the host can observe status registers and profile counters, and may stop or reset the kernel::

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
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict, Unpack

from softcard.core.display import RichDisplay, Rows, count
from softcard.core.errors import WireError

if TYPE_CHECKING:
    import pyarrow as pa

    from softcard.device.fletcher.job import Job
    from softcard.device.fletcher.map.layout import FletcherMap, Profile

Run: TypeAlias = "Callable[[Job], Iterator[None] | int | None]"
"""The type of a kernel's function, which is called for each start of the kernel.

If it returns an int, that is the result. If it returns an iterator, each item ends a slice of the work.
"""
SchemaLike: TypeAlias = "pa.Schema | Sequence[tuple[str, pa.DataType] | pa.Field]"
"""A schema, or pairs of name and type for fields that are not nullable."""

FLETCHER_NAME: Final = b"fletcher_name"
FLETCHER_MODE: Final = b"fletcher_mode"
READ: Final = "read"
WRITE: Final = "write"


@dataclass(frozen=True, slots=True)
class Handshake:
    """The handshake of a kernel: how it sets the bits idle, busy and done, and how it reacts to control bits.

    - `idle_when_done`: if True, the kernel sets done together with idle (status 5); otherwise done alone (status
      4).
    - `restartable`: if True, a start in the state done begins again; otherwise it is ignored until the control
      reset.
    - `heeds_stop`: if True, control stop (1) ends a running job; otherwise it is ignored.
    - `heeds_reset`: if True, control reset (2) ends a running job; otherwise it has an effect only when the
      kernel is done."""

    idle_when_done: bool = True
    restartable: bool = False
    heeds_stop: bool = True
    heeds_reset: bool = True


class MapOptions(TypedDict, total=False):
    """The options of `Kernel.map`, as keywords; they are passed to `fletcher_map`."""

    profile: Profile
    offset: int
    bus_width: int


@dataclass(frozen=True, slots=True)
class Kernel(RichDisplay):
    """A virtual kernel: the schemas of its data, its custom registers, and its function.

    The `schemas` have the metadata `fletcher_name` and `fletcher_mode`. A kernel without schemas fits any map. `custom`
    are custom registers in the syntax of the generator fletchgen, such as ``c:16:cat`` or ``s:64:dog``.
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

    def __reduce__(self) -> tuple[object, ...]:
        home = getattr(self.run, "__module__", "")
        for name, value in vars(sys.modules[home]).items() if home in sys.modules else ():
            if value is self:
                return _named, (home, name)
        raise WireError(f"kernel {self.name} cannot be pickled: assign it to a global variable of module {home}")

    def map(self, **options: Unpack[MapOptions]) -> FletcherMap:
        """Return the register map for the kernel's schemas and custom registers.

        `options` are those of `fletcher_map`.
        """
        from softcard.device.fletcher.map.build import fletcher_map

        if not self.schemas:
            raise WireError(f"kernel {self.name} works on any schema and has no register map: pass one to the device")
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
    """Return a decorator that turns a function into a `Kernel`; the default name is that of the function.

    `read` and `write` are schemas by RecordBatch name. For a map of Fletcher's run-time library, their order must be
    that in which the host queues the RecordBatches; the generator fletchgen sorts them itself.
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
    """Return `schema` with the metadata that Fletcher's generator needs: the RecordBatch's `name` and the mode.

    `mode` is "read" or "write". Fields are pairs of a name and a type, which are not nullable, or Arrow fields,
    which are used unchanged."""
    import pyarrow as pa

    if mode not in (READ, WRITE):
        raise WireError(f"the mode of RecordBatch {name} is {mode!r}, expected {READ!r} or {WRITE!r}")
    if not isinstance(schema, pa.Schema):
        schema = pa.schema([_field(each, f"RecordBatch {name}") for each in schema])
    own = {FLETCHER_NAME: name.encode(), FLETCHER_MODE: mode.encode()}
    return schema.with_metadata({**(schema.metadata or {}), **own})


def _field(given: Any, what: str) -> pa.Field:
    """Return `given` if it is an Arrow field, or the field that a pair of name and type describes.

    Raise `WireError` for anything else; `what` describes the field in its message."""
    import pyarrow as pa

    if isinstance(given, pa.Field):
        return given
    try:
        name, kind = given
        return pa.field(name, kind, nullable=False)
    except (TypeError, ValueError):
        text = f"{what} has the field {given!r}, expected a pair of name and Arrow type, or a pyarrow.field"
        raise WireError(text) from None
