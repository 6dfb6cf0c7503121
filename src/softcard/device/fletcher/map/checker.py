"""The differences between Fletcher's generator and its run-time library that break a design.

According to the Fletcher specification, both map schemas to buffers in the same way. In fact, they differ in
batch order, nullable children, lists within lists, and some types. If a design depends on such a difference,
host and hardware use different registers, and no error occurs at run time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain

import pyarrow as pa

from softcard.core.diagnostics import Diagnostic
from softcard.core.display import RichDisplay, Rows
from softcard.core.errors import RuleError, SoftcardError
from softcard.core.findings import Level
from softcard.core.rule import Rule
from softcard.device.fletcher.map.build import Source, batch_name, fletcher_map, generator_name, plain_name, sources
from softcard.device.fletcher.map.flatten import (
    FlatBuffer,
    Reading,
    check_streams,
    field_streams,
    flatten_schema,
    is_ignored,
    is_profiled,
    type_text,
)
from softcard.device.fletcher.map.layout import FletcherMap, Profile
from softcard.device.fletcher.map.registers import REGISTER_BITS, parse_custom
from softcard.device.fletcher.rules import (
    BATCH_ORDER,
    CUSTOM_BEHAVIOR,
    CUSTOM_SIZE,
    CUSTOM_SYNTAX,
    DERIVED_REGISTERS,
    PROFILED_FIELDS,
    SAME_IMPLEMENTATION,
    SCHEMA_NAME,
    SUPPORTED_TYPES,
    TRUNCATED_BATCH,
    UNIQUE_NAMES,
)
from softcard.image.arrow_schema import read_schema


class Severity(Enum):
    """The severity of a finding."""

    ERROR = "error"
    """The severity of a fault: the hardware cannot be built, or the host writes registers with another meaning."""
    NOTE = "note"
    """The severity of a remark: generator and run-time library agree, but a user should know about this."""


@dataclass(frozen=True, slots=True)
class Finding(RichDisplay):
    """A finding about a design. `place` is the name of a RecordBatch, field (``Alpha.s.item``) or custom register."""

    severity: Severity
    place: str
    message: str
    rule: Rule

    def __repr__(self) -> str:
        return f"<{self}>"

    def _rows(self) -> Rows:
        yield ()
        yield "severity", self.severity.value
        yield "place", self.place
        yield "rule", f"{self.rule.id}: {self.rule.text} ({self.rule.clause})"

    def diagnostic(self) -> Diagnostic:
        """Return the finding as a diagnostic."""
        level, check = Level(self.severity.value), self.rule.id.rpartition("/")[2]
        return Diagnostic(level, check, self.message, self.place, kernel=self.place, rule=self.rule)

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        return f"{self.severity.value}: {where}{self.message} [{self.rule.id}]"


@dataclass(frozen=True, slots=True)
class Moved:
    """A register whose byte address on the host differs from that in hardware.

    `generator` is the address in hardware and `runtime` the address on the host; None means that the register is
    missing."""

    name: str
    generator: int | None
    runtime: int | None


@dataclass(frozen=True)
class Agreement(RichDisplay):
    """The result of comparing a design's register map by Fletcher's generator with that by its run-time library.

    `generator` or `runtime` is None if that tool rejects the design; `moved` is then empty. A host must queue
    RecordBatches in the order `queue_order`."""

    findings: tuple[Finding, ...]
    queue_order: tuple[str, ...]
    generator: FletcherMap | None
    runtime: FletcherMap | None
    moved: tuple[Moved, ...]

    def __repr__(self) -> str:
        errors = sum(finding.severity is Severity.ERROR for finding in self.findings)
        verdict = "agree" if self.agree else f"disagree in {errors} thing{'s' * (errors != 1)}"
        return f"<generator and run-time library {verdict}>"

    def _rows(self) -> Rows:
        yield "severity", "place", "finding", "rule"
        for each in self.findings:
            yield each.severity.value, each.place, each.message, each.rule.id

    @property
    def agree(self) -> bool:
        """True if the run-time library drives the generated hardware correctly."""
        return not any(finding.severity is Severity.ERROR for finding in self.findings)


def check_design(
    batches: Sequence[pa.Schema | pa.RecordBatch],
    *,
    custom: Sequence[str] = (),
    offset: int = 0,
    bus_width: int = 32,
) -> Agreement:
    """Compare the register map of Fletcher's generator for `batches` with that of its run-time library.

    The comparison assumes that the host queues the batches in this order. The options are those of
    `fletcher_map`. If the generator or the library rejects the design, the result has a finding; no error is
    raised. Raise `WireError` for an argument that is not a schema."""
    queue = sources(batches, "runtime")
    given = {source.name for source, batch in zip(queue, batches, strict=True) if isinstance(batch, pa.RecordBatch)}
    fields = chain.from_iterable(_fields(source, _reading(source, given)) for source in queue)
    findings = [*_names(batches, queue), *fields, *_customs(custom)]
    found: dict[str, FletcherMap] = {}
    profiles: tuple[Profile, ...] = ("fletchgen", "runtime")
    for profile in profiles:
        try:
            found[profile] = fletcher_map(batches, profile=profile, custom=custom, offset=offset, bus_width=bus_width)
        except RuleError as error:
            if not _covered(findings, error):
                findings.append(_refusal(profile, error))
    generator, runtime = found.get("fletchgen"), found.get("runtime")
    order = tuple(batch.name for batch in generator.batches) if generator else _wanted_order(queue)
    if order != tuple(dict.fromkeys(source.name for source in queue if source.name in order)):
        findings.insert(0, _order(queue, order))
    moved = tuple(_moved(generator, runtime)) if generator and runtime else ()
    if moved and not any(finding.severity is Severity.ERROR for finding in findings):
        findings.append(
            _error(
                "",
                f"{len(moved)} registers have another address in the run-time library than in the hardware",
                SAME_IMPLEMENTATION,
            )
        )
    return Agreement(tuple(findings), order, generator, runtime, moved)


def _error(place: str, message: str, rule: Rule) -> Finding:
    return Finding(Severity.ERROR, place, message, rule)


def _refusal(profile: str, error: SoftcardError) -> Finding:
    tool = "the generator" if profile == "fletchgen" else "the run-time library"
    place = ".".join(part.what or part.where for part in reversed(error.path))
    return _error(place, f"{tool} stops: {error.message}", error.rule or SAME_IMPLEMENTATION)


def _reading(source: Source, given: set[str]) -> Reading:
    """Return the rules by which Fletcher's generator maps the fields of `source` to buffers.

    `given` has the names of those sources that the user specifies as a RecordBatch, not only as a schema.
    They are mapped by the generator's rules for RecordBatches, all others by its rules for schemas."""
    return Reading.BATCH if source.name in given else Reading.SCHEMA


def _covered(findings: list[Finding], error: SoftcardError) -> bool:
    """Return True if one of `findings` already reports the rule that `error` violates."""
    reported = {finding.rule for finding in findings if finding.severity is Severity.ERROR}
    return error.rule in reported or (error.rule is SUPPORTED_TYPES and TRUNCATED_BATCH in reported)


# ---- RecordBatches -------------------------------------------------------------------------------------------------


def _names(batches: Sequence[pa.Schema | pa.RecordBatch], queue: Sequence[Source]) -> Iterator[Finding]:
    nameless = [source.name for source, batch in zip(queue, batches, strict=True) if not batch_name(read_schema(batch))]
    for name in nameless:
        message = "has no fletcher_name: the generator skips it, the run-time library gives it registers"
        yield _error(name, message, SCHEMA_NAME)
    for name, count in Counter(source.name for source in queue).items():
        if count == 1:
            continue
        same = {source.name: source.schema for source in queue}[name]
        if all(source.schema.equals(same) for source in queue if source.name == name):
            message = f"{count} schemas have this name: the generator uses one, the run-time library {count}"
        else:
            message = f"{count} different schemas have this name: the generator stops with an error"
        yield _error(name, message, SCHEMA_NAME)


def _wanted_order(queue: Sequence[Source]) -> tuple[str, ...]:
    """Return the names of the RecordBatches in the order of Fletcher's generator.

    This is used for a design that the generator rejects, so that it makes no register map with the order."""
    ordered = sorted(queue, key=lambda source: (source.mode.value, source.name.encode("utf-8", "surrogateescape")))
    return tuple(dict.fromkeys(source.name for source in ordered))


def _order(queue: Sequence[Source], order: tuple[str, ...]) -> Finding:
    given = ", ".join(source.name for source in queue)
    message = f"RecordBatches are queued as {given}, but the hardware has {', '.join(order)}: queue them in that order"
    return _error("", message, BATCH_ORDER)


# ---- fields --------------------------------------------------------------------------------------------------------


def _fields(source: Source, reading: Reading) -> Iterator[Finding]:
    """Yield findings about the fields of the RecordBatch `source`."""
    cut = False
    for field in source.schema:
        place = f"{source.name}.{field.name}"
        if cut:
            message = "is not passed by the run-time library, which stops at an earlier field"
            yield _error(place, message, TRUNCATED_BATCH)
            continue
        findings = tuple(_field(place, source.name, field, reading))
        yield from findings
        cut = any(finding.rule is TRUNCATED_BATCH for finding in findings)


def _field(place: str, batch: str, field: pa.Field, reading: Reading) -> Iterator[Finding]:
    schema = pa.schema([field])
    refused = _generator_refuses(schema, field)
    try:
        runtime = flatten_schema(schema, Reading.RUNTIME)
    except RuleError:
        yield _error(place, f"is of type {type_text(field.type)}, which crashes the run-time library", TRUNCATED_BATCH)
        return
    passes = f"the run-time library passes {_buffers(len(runtime.buffers))}"
    if runtime.cut is not None:
        path, kind = runtime.cut
        unknown_to = "the run-time library does not know" if refused is None else "the generator refuses"
        yield _error(
            f"{batch}.{'.'.join(path)}",
            f"is of type {kind}, which {unknown_to}; {passes} of the field and, without an error, none of later fields",
            TRUNCATED_BATCH,
        )
    elif refused is not None:
        yield _error(place, f"{refused.message}; {passes}", refused.rule or SUPPORTED_TYPES)
    else:
        generator = flatten_schema(schema, reading).buffers
        yield from _nullable_children(batch, generator, runtime.buffers)
        yield from _joined_names(place, batch, generator, passes)
        streams = len(field_streams(field, 0))
        if is_profiled(field) and streams > 1:
            message = f"is profiled and has {streams} streams: the generator's VHDL for it does not compile"
            yield _error(place, message, PROFILED_FIELDS)
        if is_ignored(field) and generator:
            verb = "has a register" if len(generator) == 1 else "have registers"
            message = f"is ignored by the generator, but its {_buffers(len(generator))} {verb}"
            yield Finding(Severity.NOTE, place, message, DERIVED_REGISTERS)


def _buffers(count: int) -> str:
    return f"{count} buffer" if count == 1 else f"{count} buffers"


def _generator_refuses(schema: pa.Schema, field: pa.Field) -> RuleError | None:
    try:
        flatten_schema(schema, Reading.SCHEMA)
        if not is_ignored(field):
            check_streams(field)
    except RuleError as error:
        return error
    return None


def _nullable_children(
    batch: str, generator: tuple[FlatBuffer, ...], runtime: tuple[FlatBuffer, ...]
) -> Iterator[Finding]:
    known = set(generator)
    for buffer in runtime:
        if buffer in known:
            continue
        name = f"{batch}.{'.'.join(buffer.path)}"
        items = "" if len(buffer.path) == len(buffer.node) else " (list items)"
        yield _error(
            name + items,
            "is a nullable child: the run-time library passes its validity buffer, for which the generator has no "
            "register where it is given a schema, but one where it is given a RecordBatch",
            SAME_IMPLEMENTATION,
        )


def _joined_names(place: str, batch: str, generator: tuple[FlatBuffer, ...], passes: str) -> Iterator[Finding]:
    """Yield findings about the register names that Fletcher's generator joins from several names.

    The registers of lists within lists can get equal names. The generator also omits the ``_`` in some names.
    `generator` are the buffers of field `place` of RecordBatch `batch`. `passes` is the end of the error
    message; it says what the run-time library does with the field."""
    for name, count in Counter(generator_name(batch, buffer) for buffer in generator).items():
        if count > 1:
            message = f"{count} buffers would be called {name}, so the generator stops; {passes}"
            yield _error(place, message, UNIQUE_NAMES)
    for buffer in generator:
        name = generator_name(batch, buffer)
        if name != plain_name(batch, buffer):
            message = f"the generator names a register {name}, where {plain_name(batch, buffer)} would be expected"
            yield Finding(Severity.NOTE, place, message, UNIQUE_NAMES)


# ---- custom registers ----------------------------------------------------------------------------------------------


def _customs(texts: Sequence[str]) -> Iterator[Finding]:
    """Yield findings about the run-time library's SetArguments, which writes custom registers as 32-bit items.

    SetArguments writes consecutive 32-bit items from the first custom register on, even if registers are wider or
    narrower."""
    index, seen_status = 0, ""
    for text in texts:
        try:
            custom = parse_custom(text)
        except RuleError:
            continue  # the map itself reports the error
        items = -(-custom.width // REGISTER_BITS)
        if custom.init:
            message = f"init {custom.init:#x} is lost: the generator reads it as decimal, and hardware starts with 0"
            yield Finding(Severity.NOTE, custom.name, message, CUSTOM_SYNTAX)
        if custom.behaviour == "s":
            seen_status = seen_status or custom.name
        elif seen_status:
            message = f"SetArguments can set it only if it also writes {seen_status}, which the kernel sets"
            yield Finding(Severity.NOTE, custom.name, message, CUSTOM_BEHAVIOR)
        if items > 1 and custom.behaviour == "c":
            message = f"takes items {index} to {index + items - 1} of SetArguments, lowest 32 bits first"
            yield Finding(Severity.NOTE, custom.name, message, CUSTOM_SIZE)
        index += items


# ---- addresses -----------------------------------------------------------------------------------------------------


def _moved(generator: FletcherMap, runtime: FletcherMap) -> Iterator[Moved]:
    """Yield the registers whose address differs between the maps of Fletcher's generator and its run-time library.

    They have the generator's order. Registers that only the run-time library has follow at the end."""
    there, here = _addresses(generator), _addresses(runtime)
    for key, (name, address) in there.items():
        other = here.get(key, ("", None))[1]
        if other != address:
            yield Moved(name, address, other)
    for key, (name, address) in here.items():
        if key not in there:
            yield Moved(name, None, address)


def _addresses(plan: FletcherMap) -> dict[tuple[object, ...], tuple[str, int]]:
    found: dict[tuple[object, ...], tuple[str, int]] = {}
    for batch in plan.batches:
        found[batch.name, "firstidx"] = f"{batch.name}_firstidx", batch.first_index
        found[batch.name, "lastidx"] = f"{batch.name}_lastidx", batch.last_index
    for buffer in plan.buffers:
        found[plan.batches[buffer.batch].name, buffer.node, buffer.kind] = buffer.name, buffer.address
    for custom in plan.customs:
        found["", custom.name] = custom.name, custom.address
    return found
