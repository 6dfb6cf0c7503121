"""How a register map is made: RecordBatches in their order, then addresses, then names checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from understudy.core.errors import RuleError, UnderstudyError, WireError
from understudy.device.fletcher.map.custom import CustomText, parse_custom
from understudy.device.fletcher.map.fields import all_fields
from understudy.device.fletcher.map.flatten import (
    FlatBuffer,
    FlatStream,
    Reading,
    check_streams,
    field_streams,
    flatten_schema,
    is_ignored,
    is_profiled,
)
from understudy.device.fletcher.map.layout import (
    BatchLayout,
    BufferSlot,
    CustomRegister,
    FletcherMap,
    Mode,
    Profile,
    ProfileStream,
)
from understudy.device.fletcher.map.names import check_names, check_words
from understudy.device.fletcher.map.registers import (
    ADDRESS_BITS,
    DEFAULT_BYTES,
    REGISTER_BYTES,
    STREAM_BYTES,
    address_space,
)
from understudy.device.fletcher.rules import MAP_OFFSET, SCHEMA_NAME
from understudy.image.arrow_schema import read_schema

PROFILES: Final = ("fletchgen", "runtime", "spec")
BUS_WIDTHS: Final = (32, 64)
ADDRESS_LIMIT: Final = 1 << 32
"""Addresses on the bus have 32 bits."""


@dataclass(frozen=True, slots=True)
class Source:
    """One RecordBatch of a design: its name, mode, schema, and who flattens it."""

    name: str
    mode: Mode
    schema: pa.Schema
    reading: Reading


def fletcher_map(
    batches: Sequence[pa.Schema | pa.RecordBatch],
    *,
    profile: Profile = "fletchgen",
    custom: Sequence[str] = (),
    offset: int = 0,
    bus_width: int = 32,
) -> FletcherMap:
    """The register map of a design that works on `batches`: schemas, or RecordBatches.

    A schema names its RecordBatch in the metadata ``fletcher_name``, and says ``fletcher_mode`` = ``write`` where the
    kernel writes it. Profile `fletchgen` is what the generator makes of these files (where it is given a RecordBatch,
    it flattens children in another way), `runtime` what the run-time library expects where these are queued in this
    order, `spec` the document's text. `custom` are custom registers, ``c:16:cat``; `offset` is in bytes, `bus_width` 32
    or 64 bits.

    Raises `RuleError` where the tool of the profile refuses the design, `WireError` for arguments that mean nothing,
    `BeyondModel` for Arrow types that the document has no words for.
    """
    if profile not in PROFILES:
        raise WireError(f"profile {profile!r}, expected one of {', '.join(PROFILES)}")
    if bus_width not in BUS_WIDTHS:
        raise WireError(f"a bus of {bus_width} bits, expected 32 or 64")
    step = bus_width // 8
    if offset % step or not 0 <= offset < ADDRESS_LIMIT:
        raise RuleError(f"offset {offset:#x} is no multiple of {step} below {ADDRESS_LIMIT:#x}", rule=MAP_OFFSET)
    customs = [parse_custom(text) for text in custom]
    found = Placer(sources(batches, profile), profile, bus_width, offset).place(customs)
    if found.offset + found.size_bytes > ADDRESS_LIMIT:
        end = found.offset + found.size_bytes
        raise RuleError(f"the map ends at {end:#x}, behind the 32 bits of an address", rule=MAP_OFFSET)
    if profile == "fletchgen":
        check_names(found)
        check_words(found)
    return found


# ---- which RecordBatches, in which order ---------------------------------------------------------------------------


def sources(batches: Sequence[pa.Schema | pa.RecordBatch], profile: Profile) -> tuple[Source, ...]:
    """The RecordBatches of a design in the order of their registers."""
    if profile == "fletchgen":
        return _generator_sources(batches)
    reading = Reading.RUNTIME if profile == "runtime" else Reading.DOCUMENT
    schemas = [read_schema(batch) for batch in batches]
    return tuple(
        Source(batch_name(schema) or f"RB{index}", batch_mode(schema), schema, reading)
        for index, schema in enumerate(schemas)
    )


def _generator_sources(batches: Sequence[pa.Schema | pa.RecordBatch]) -> tuple[Source, ...]:
    """As the generator orders them: it skips what has no name, and takes equal schemas of one name once."""
    found: dict[str, Source] = {}
    # It reads all schema files before the RecordBatch files.
    for batch in sorted(batches, key=lambda each: isinstance(each, pa.RecordBatch)):
        schema = read_schema(batch)
        name = batch_name(schema)
        if not name:
            continue
        reading = Reading.BATCH if isinstance(batch, pa.RecordBatch) else Reading.SCHEMA
        known = found.get(name)
        if known is None:
            found[name] = Source(name, batch_mode(schema), schema, reading)
        elif not known.schema.equals(schema):
            raise RuleError(f"two different schemas are called {name}", rule=SCHEMA_NAME)
        elif known.reading is not reading:
            found[name] = Source(name, known.mode, known.schema, Reading.BATCH)
    by_name = sorted(found.values(), key=lambda source: source.name.encode("utf-8", "surrogateescape"))
    return tuple(sorted(by_name, key=lambda source: source.mode is Mode.WRITE))


def batch_name(schema: pa.Schema) -> str:
    """``fletcher_name`` of a schema, "" where it has none; `WireError` where it is no text."""
    name: bytes = (schema.metadata or {}).get(b"fletcher_name", b"")
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError as error:
        raise WireError(f"fletcher_name is no UTF-8: {error.reason} at byte {error.start} of it") from None


def batch_mode(schema: pa.Schema) -> Mode:
    """``fletcher_mode`` of a schema: WRITE only for exactly ``write``."""
    return Mode.WRITE if (schema.metadata or {}).get(b"fletcher_mode") == b"write" else Mode.READ


# ---- addresses -----------------------------------------------------------------------------------------------------


class Placer:
    """Gives addresses, one register after the other."""

    def __init__(self, batches: tuple[Source, ...], profile: Profile, bus_width: int, offset: int) -> None:
        self._batches = batches
        self._profile = profile
        self._bus_width = bus_width
        self._offset = offset
        self._next = offset + DEFAULT_BYTES

    def _take(self, size_bytes: int) -> int:
        address = self._next
        self._next += size_bytes
        return address

    def place(self, customs: Sequence[CustomText]) -> FletcherMap:
        """The whole map, in the order of its registers."""
        ranges = [(self._take(REGISTER_BYTES), self._take(REGISTER_BYTES)) for _ in self._batches]
        batches = tuple(
            BatchLayout(source.name, source.mode, source.schema, tuple(self._buffers(index, source)), first, last)
            for index, (source, (first, last)) in enumerate(zip(self._batches, ranges, strict=True))
        )
        registers = tuple(
            CustomRegister(text.name, text.width, text.behaviour, text.init, self._take(address_space(text.width)))
            for text in customs
        )
        profiled = tuple(self._profiled())
        has_profile = self._profile != "spec" or bool(profiled)
        enable = self._take(REGISTER_BYTES) if has_profile else None
        clear = self._take(REGISTER_BYTES) if has_profile else None
        streams = tuple(
            ProfileStream(batch, name, self._take(STREAM_BYTES), stream.path, stream.node)
            for batch, name, stream in profiled
        )
        buffers = tuple(slot for batch in batches for slot in batch.buffers)
        plan = FletcherMap(
            self._profile, self._bus_width, self._offset, batches, buffers, registers, enable, clear, streams,
            (), self._next - self._offset,
        )  # fmt: skip
        return all_fields(plan)

    def _buffers(self, index: int, source: Source) -> Iterator[BufferSlot]:
        try:
            if self._profile == "fletchgen":
                _check_generator(source)
            flat = flatten_schema(source.schema, source.reading)
        except UnderstudyError as error:
            raise error.at("RecordBatch", source.name) from None
        joined = generator_name if self._profile == "fletchgen" else plain_name
        for buffer in flat.buffers:
            name = joined(source.name, buffer)
            address = self._take(ADDRESS_BITS // 8)
            yield BufferSlot(index, buffer.path, buffer.kind, name, address, buffer.node)

    def _profiled(self) -> Iterator[tuple[int, str, FlatStream]]:
        """Batch, register name and stream of everything that is profiled."""
        prefix = "" if self._profile == "spec" else "Profile_"
        for index, source in enumerate(self._batches):
            for place, field in enumerate(source.schema):
                if not is_profiled(field):
                    continue
                for number, stream in enumerate(field_streams(field, place)):
                    parts = () if self._profile == "spec" else stream.parts
                    yield index, prefix + "_".join((source.name, field.name, *parts, str(number))), stream


def _check_generator(source: Source) -> None:
    """Refuse fields that the generator refuses even where a RecordBatch tells it their buffers."""
    for index, field in enumerate(source.schema):
        if is_ignored(field):
            continue
        if source.reading is Reading.BATCH:
            flatten_schema(pa.schema([field]), Reading.SCHEMA)
        try:
            check_streams(field)
        except UnderstudyError as error:
            raise error.at("field", f"{index}", field.name) from None


def generator_name(name: str, buffer: FlatBuffer) -> str:
    """A buffer register's name as the generator joins it: no ``_`` behind a part that equals the last one.

    So the values of a field ``values`` are ``R_valuesvalues``.
    """
    parts = "".join(part if part == buffer.kind else f"{part}_" for part in buffer.path)
    return f"{name}_{parts}{buffer.kind}"


def plain_name(name: str, buffer: FlatBuffer) -> str:
    """A buffer register's name with ``_`` between all its parts."""
    return "_".join((name, *buffer.path, buffer.kind))
