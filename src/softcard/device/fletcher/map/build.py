"""The construction of a register map: orders RecordBatches, assigns addresses, names bits, checks names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from softcard.core.errors import RuleError, SoftcardError, WireError
from softcard.core.register import Access
from softcard.device.fletcher.map.flatten import (
    FlatBuffer,
    FlatStream,
    Reading,
    check_streams,
    field_streams,
    flatten_schema,
    is_ignored,
    is_profiled,
)
from softcard.device.fletcher.map.layout import (
    BatchLayout,
    Behaviour,
    BufferSlot,
    CustomRegister,
    FletcherMap,
    MmioField,
    Mode,
    Profile,
    ProfileStream,
)
from softcard.device.fletcher.map.registers import (
    ADDRESS_BITS,
    COUNTERS,
    DEFAULT,
    DEFAULT_BYTES,
    REGISTER_BITS,
    REGISTER_BYTES,
    RESULT,
    RESULT_BITS,
    STREAM_BYTES,
    CustomText,
    address_space,
    parse_custom,
)
from softcard.device.fletcher.rules import BUS_WORDS, MAP_OFFSET, NAME_LETTERS, SCHEMA_NAME, UNIQUE_NAMES
from softcard.image.arrow_schema import read_schema

# ---- names of registers ----------------------------------------------------------------------------------------------
# The restrictions of the generator fletchgen and of vhdmmio on register names and addresses.


MAX_WORDS: Final = 26
"""The maximum number of bus words of a register, because vhdmmio numbers them with letters."""
YAML_WORDS: Final = frozenset(
    form for word in ("yes", "no", "on", "off", "true", "false", "null") for form in (word, word.title(), word.upper())
)
"""The words that YAML does not read as text."""
_NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")


def check_names(plan: FletcherMap) -> None:
    """Raise `RuleError` for a name that is not an identifier, or that two registers or ports would share."""
    lower: dict[str, str] = {}
    for field in plan.fields:
        if not _NAME.fullmatch(field.name):
            raise RuleError(
                f"register name {field.name!r} must be an ASCII letter followed by letters, digits and _",
                rule=NAME_LETTERS,
            )
        if field.name in YAML_WORDS:
            raise RuleError(
                f"register name {field.name!r} is a reserved word in YAML, choose another", rule=NAME_LETTERS
            )
        other = lower.setdefault(field.name.lower(), field.name)
        if other is not field.name:
            raise RuleError(f"two registers would have the name {_pair(other, field.name)}", rule=UNIQUE_NAMES)
    _unique(_kernel_ports(plan), "ports of the kernel")
    written = (f"{field.name}_write" if field.behaviour == "status" else field.name for field in plan.fields)
    _unique(written, "ports of the register file")


def _pair(one: str, other: str) -> str:
    return one if one == other else f"{one} and {other}, which are the same in VHDL"


def _kernel_ports(plan: FletcherMap) -> Iterator[str]:
    """Yield the port names of the generated kernel.

    These are clock and reset, the ports of the registers that precede the profile registers, except for the
    registers with buffer addresses, and three ports for each field."""
    yield "kcd"
    buffers = {buffer.name for buffer in plan.buffers}
    profile = plan.profile_enable if plan.profile_enable is not None else plan.offset + plan.size_bytes
    for field in plan.fields:
        if field.address < profile and field.name not in buffers:
            yield field.name
    for batch in plan.batches:
        for field in batch.schema:
            if not is_ignored(field):
                name = f"{batch.name}_{field.name}"
                yield from (name, f"{name}_cmd", f"{name}_unl")


def _unique(names: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise RuleError(f"two {what} would have the name {name}", rule=UNIQUE_NAMES)
        seen.add(name)


def check_words(plan: FletcherMap) -> None:
    """Raise `RuleError` for custom registers that need too many bus words or share a bus word in a forbidden way.

    The last bus word of a custom register with several words must not contain the start of another register."""
    word = plan.bus_width // 8
    for custom in plan.customs:
        start = custom.address % word * 8
        words = -(-(start + custom.width) // plan.bus_width)
        if words > MAX_WORDS:
            raise RuleError(
                f"custom register {custom.name} needs {words} words of the bus, expected {MAX_WORDS} or fewer",
                rule=BUS_WORDS,
            )
        end = custom.address + address_space(custom.width)
        if words > 1 and end % word:
            follows = next(field.name for field in plan.fields if field.address == end)
            raise RuleError(
                f"{follows} at {end:#x} would begin in the last bus word of custom register {custom.name} at "
                f"{custom.address:#x}: widen or reorder the registers",
                rule=BUS_WORDS,
            )


# ---- named bits ------------------------------------------------------------------------------------------------------
# The named bits of a register map, in the order of their addresses, as in the generator's YAML file.


_BEHAVIOURS: Final[dict[Access, Behaviour]] = {Access.STROBE: "strobe", Access.RO: "status"}


def all_fields(plan: FletcherMap) -> FletcherMap:
    """Return a copy of `plan` whose `fields` are all bit fields of its registers.

    In profile `spec` (the text of the Fletcher specification), registers of more than 32 bits, except custom ones, are
    pairs of 32-bit registers, and strobes can be read back. In other profiles, each register of more than 32 bits is
    one field, and strobes store nothing.
    """
    fields = tuple(_spec_fields(plan) if plan.profile == "spec" else _hardware_fields(plan))
    return replace(plan, fields=fields)


class _Maker:
    """The builder of bit fields; their bit numbers are those within a bus word."""

    def __init__(self, plan: FletcherMap) -> None:
        self._word_bytes = plan.bus_width // 8

    def __call__(self, name: str, address: int, width: int, behaviour: Behaviour, doc: str, lsb: int = 0) -> MmioField:
        start = 8 * (address % self._word_bytes)
        return MmioField(name, address, start + lsb, width, behaviour, doc)


def _hardware_fields(plan: FletcherMap) -> Iterator[MmioField]:
    """Yield the bit fields of the generated hardware, in which a register wider than 32 bits is one field."""
    make = _Maker(plan)
    for register in DEFAULT:
        if register.offset >= RESULT:
            continue
        for part in register.fields:
            behaviour = _BEHAVIOURS[part.access]
            yield make(part.name, plan.offset + register.offset, part.width, behaviour, part.doc, part.lsb)
    yield make("result", plan.result, RESULT_BITS, "status", "return value")
    for batch in plan.batches:
        about = f"index of {batch.name}"
        yield make(f"{batch.name}_firstidx", batch.first_index, REGISTER_BITS, "control", f"first {about}")
        yield make(f"{batch.name}_lastidx", batch.last_index, REGISTER_BITS, "control", f"last {about}, exclusive")
    for buffer in plan.buffers:
        about = f"address of the {buffer.kind} of {plan.batches[buffer.batch].name}.{'.'.join(buffer.path)}"
        yield make(buffer.name, buffer.address, ADDRESS_BITS, "control", about)
    yield from _custom_fields(plan, make)
    yield from _profile_fields(plan, make, "strobe")


def _spec_fields(plan: FletcherMap) -> Iterator[MmioField]:
    """Yield the bit fields of the Fletcher specification's tables: all registers but custom ones have 32 bits."""
    make = _Maker(plan)
    for register in DEFAULT:
        for part in register.fields:
            name = register.name if part.name == "value" else part.name
            behaviour: Behaviour = "status" if part.access is Access.RO else "control"
            doc = part.doc or register.doc
            yield make(name, plan.offset + register.offset, part.width, behaviour, doc, part.lsb)
    for index, batch in enumerate(plan.batches):
        about = f"RecordBatch {index} ({batch.name})"
        yield make(f"RB{index}_FIRSTIDX", batch.first_index, REGISTER_BITS, "control", f"{about} first index")
        yield make(f"RB{index}_LASTIDX", batch.last_index, REGISTER_BITS, "control", f"{about} last index")
    for index, buffer in enumerate(plan.buffers):
        about = f"address of buffer {index} ({buffer.name})"
        low, high = buffer.address, buffer.address + REGISTER_BYTES
        yield make(f"buffer{index}_address_low", low, REGISTER_BITS, "control", f"low part of the {about}")
        yield make(f"buffer{index}_address_high", high, REGISTER_BITS, "control", f"high part of the {about}")
    yield from _custom_fields(plan, make)
    yield from _profile_fields(plan, make, "control")


def _custom_fields(plan: FletcherMap, make: _Maker) -> Iterator[MmioField]:
    for custom in plan.customs:
        behaviour: Behaviour = "control" if custom.behaviour == "c" else "status"
        yield make(custom.name, custom.address, custom.width, behaviour, f"custom register {custom.name}")


def _profile_fields(plan: FletcherMap, make: _Maker, clear: Behaviour) -> Iterator[MmioField]:
    if plan.profile_enable is not None and plan.profile_clear is not None:
        yield make("Profile_enable", plan.profile_enable, 1, "control", "profilers count while this is 1")
        yield make("Profile_clear", plan.profile_clear, 1, clear, "writing 1 clears the profilers' counters")
    for stream in plan.streams:
        for counter in COUNTERS:
            address = stream.address + counter.offset
            yield make(f"{stream.name}_{counter.name}", address, counter.width, "status", counter.doc)


# ---- register maps ---------------------------------------------------------------------------------------------------


PROFILES: Final = ("fletchgen", "runtime", "spec")
BUS_WIDTHS: Final = (32, 64)
ADDRESS_LIMIT: Final = 1 << 32
"""The end of the address range of registers: bus addresses have 32 bits."""


@dataclass(frozen=True, slots=True)
class Source:
    """A RecordBatch of a design: its name, mode, schema, and the rules that map its fields to buffers."""

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
    """Return the register map of a design that works on `batches`: schemas, or RecordBatches.

    A schema's metadata ``fletcher_name`` is the name of its RecordBatch. If the kernel writes the RecordBatch,
    the metadata ``fletcher_mode`` must be ``write``.

    The `profile` selects the rules. Profile `fletchgen` follows the generator, which would read `batches` from
    files; it flattens the children of a RecordBatch and of a schema in different ways. Profile `runtime` follows
    the run-time library, with `batches` queued in this order. Profile `spec` follows the text of the Fletcher
    specification.

    `custom` are custom registers such as ``c:16:cat``; `offset` is in bytes, `bus_width` is 32 or 64 bits.

    Raise `RuleError` if the tool of the profile rejects the design, `WireError` for invalid arguments, and
    `BeyondModel` for Arrow types that the specification does not cover."""
    if profile not in PROFILES:
        raise WireError(f"profile is {profile!r}, expected one of {', '.join(PROFILES)}")
    if bus_width not in BUS_WIDTHS:
        raise WireError(f"the bus has {bus_width} bits, expected 32 or 64")
    step = bus_width // 8
    if offset % step or not 0 <= offset < ADDRESS_LIMIT:
        raise RuleError(
            f"offset is {offset:#x}, expected a multiple of {step} below {ADDRESS_LIMIT:#x}", rule=MAP_OFFSET
        )
    customs = [parse_custom(text) for text in custom]
    found = Placer(sources(batches, profile), profile, bus_width, offset).place(customs)
    if found.offset + found.size_bytes > ADDRESS_LIMIT:
        end = found.offset + found.size_bytes
        raise RuleError(f"the register map ends at {end:#x}, after the last 32-bit address", rule=MAP_OFFSET)
    if profile == "fletchgen":
        check_names(found)
        check_words(found)
    return found


# ---- which RecordBatches, in which order ---------------------------------------------------------------------------


def sources(batches: Sequence[pa.Schema | pa.RecordBatch], profile: Profile) -> tuple[Source, ...]:
    """Return the RecordBatches of a design, in the order in which registers are assigned to them.

    With profile `fletchgen`, this is the order of Fletcher's generator. With the other profiles, it is the
    order of `batches`."""
    if profile == "fletchgen":
        return _generator_sources(batches)
    reading = Reading.RUNTIME if profile == "runtime" else Reading.DOCUMENT
    schemas = [read_schema(batch) for batch in batches]
    return tuple(
        Source(batch_name(schema) or f"RB{index}", batch_mode(schema), schema, reading)
        for index, schema in enumerate(schemas)
    )


def _generator_sources(batches: Sequence[pa.Schema | pa.RecordBatch]) -> tuple[Source, ...]:
    """Return the RecordBatches in the order in which the generator fletchgen assigns their registers.

    The generator skips schemas without a name, and uses several equal schemas with the same name only once."""
    found: dict[str, Source] = {}
    # The generator reads all schema files before the RecordBatch files.
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
    """Return a schema's ``fletcher_name``, or "" if it has none; raise `WireError` if it is not text."""
    name: bytes = (schema.metadata or {}).get(b"fletcher_name", b"")
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError as error:
        raise WireError(f"fletcher_name is not valid UTF-8: {error.reason} at byte {error.start}") from None


def batch_mode(schema: pa.Schema) -> Mode:
    """Return a schema's ``fletcher_mode``: WRITE if the metadata is exactly ``write``, READ in all other cases."""
    return Mode.WRITE if (schema.metadata or {}).get(b"fletcher_mode") == b"write" else Mode.READ


# ---- addresses -----------------------------------------------------------------------------------------------------


class Placer:
    """The component that assigns addresses to registers, one register after another."""

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
        """Assign an address to every register, in ascending order, and return the whole map.

        `customs` are the custom registers, which follow the index range and buffer registers."""
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
        except SoftcardError as error:
            raise error.at("RecordBatch", source.name) from None
        joined = generator_name if self._profile == "fletchgen" else plain_name
        for buffer in flat.buffers:
            name = joined(source.name, buffer)
            address = self._take(ADDRESS_BITS // 8)
            yield BufferSlot(index, buffer.path, buffer.kind, name, address, buffer.node)

    def _profiled(self) -> Iterator[tuple[int, str, FlatStream]]:
        """Yield each profiled stream, with the index of its RecordBatch and the name of its profile registers.

        The items are triples of batch index, name and stream."""
        prefix = "" if self._profile == "spec" else "Profile_"
        for index, source in enumerate(self._batches):
            for place, field in enumerate(source.schema):
                if not is_profiled(field):
                    continue
                for number, stream in enumerate(field_streams(field, place)):
                    parts = () if self._profile == "spec" else stream.parts
                    yield index, prefix + "_".join((source.name, field.name, *parts, str(number))), stream


def _check_generator(source: Source) -> None:
    """Raise an error if Fletcher's generator cannot make a stream for a field of `source`.

    The cause is the field's type or metadata. Such a field may have buffers: given a RecordBatch, the generator
    assigns registers to buffers of fields that it would reject in a schema. Fields that the generator ignores
    are not checked."""
    for index, field in enumerate(source.schema):
        if is_ignored(field):
            continue
        if source.reading is Reading.BATCH:
            flatten_schema(pa.schema([field]), Reading.SCHEMA)
        try:
            check_streams(field)
        except SoftcardError as error:
            raise error.at("field", f"{index}", field.name) from None


def generator_name(name: str, buffer: FlatBuffer) -> str:
    """Return the name of a buffer's register as the generator fletchgen joins it from its parts.

    The generator omits the ``_`` after every part that equals the last part. So the register for the values buffer of a
    field ``values`` is called ``R_valuesvalues``.
    """
    parts = "".join(part if part == buffer.kind else f"{part}_" for part in buffer.path)
    return f"{name}_{parts}{buffer.kind}"


def plain_name(name: str, buffer: FlatBuffer) -> str:
    """Return the name of a buffer's register with ``_`` between all its parts."""
    return "_".join((name, *buffer.path, buffer.kind))
