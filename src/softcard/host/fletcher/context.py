"""The RecordBatches that a host has queued, and the device addresses of their buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa

from softcard.core.errors import RuleError, SoftcardError
from softcard.device.fletcher.kernel import FLETCHER_MODE
from softcard.device.fletcher.map.build import batch_mode, batch_name, fletcher_map
from softcard.device.fletcher.map.flatten import Reading, flatten_schema, type_of
from softcard.device.fletcher.map.layout import BatchLayout, BufferSlot, FletcherMap, Mode
from softcard.device.fletcher.rules import QUEUE_ORDER, SAME_IMPLEMENTATION, TRUNCATED_BATCH
from softcard.host.fletcher.batch import (
    ArrowSource,
    HostBuffer,
    as_batch,
    batch_of,
    buffers_of,
    check_nulls,
    check_slices,
)
from softcard.host.fletcher.port import LocalPort, StatusError

if TYPE_CHECKING:
    from softcard.host.fletcher.platform import Platform

ANY: Final = "any"
CACHE: Final = "cache"
ALLOC_ONLY: Final = "alloc_only"


@dataclass(frozen=True, slots=True)
class DeviceBuffer:
    """A buffer of the host that is accessible to the device at `device_address`."""

    name: str
    size: int
    memory_type: str
    mode: str
    device_address: int
    was_alloced: bool


@dataclass(frozen=True, slots=True)
class _Queued:
    index: int
    batch: pa.RecordBatch
    memory_type: str
    whole: bool
    buffers: tuple[HostBuffer, ...]

    @property
    def name(self) -> str:
        """The name of the RecordBatch in messages."""
        return batch_name(self.batch.schema) or f"RB{self.index}"

    @property
    def mode(self) -> str:
        """The access mode of the RecordBatch: "read" or "write"."""
        return str((self.batch.schema.metadata or {}).get(FLETCHER_MODE, b"read").decode("utf-8", "replace"))


class Context:
    """The RecordBatches that are queued for a kernel.

    `close` frees the device memory that `enable` has allocated, as the destructor of the original class does.
    """

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self.device_buffers: list[DeviceBuffer] = []
        self._queued: list[_Queued] = []
        self._first: list[int] = []
        self._is_enabled = False

    def __repr__(self) -> str:
        return f"<context on {self.platform.name()}, RecordBatches queued: {self.num_recordbatches()}>"

    def queue_record_batch(self, record_batch: ArrowSource, mem_type: str = ANY, *, whole: bool = False) -> None:
        """Queue a RecordBatch of any Arrow producer. The device receives nothing before `enable`.

        With `mem_type` "any", the platform shares or copies the buffers, whichever is cheaper; with "cache", it
        copies them to the device. A strict platform refuses a sliced RecordBatch (choice fletcher/sliced-batch)
        unless `whole` is True. In that case its whole buffers are passed, as the original library does, and the host
        selects the rows by `Kernel.set_range`."""
        if mem_type not in (ANY, CACHE, ALLOC_ONLY):
            raise StatusError(f"mem_type is {mem_type!r}, expected 'any' or 'cache'")
        if self._is_enabled:
            raise StatusError("the context is enabled already: queue all RecordBatches before enable()")
        batch = as_batch(record_batch)
        self._queued.append(_Queued(len(self._queued), batch, mem_type, whole, buffers_of(batch)))

    def get_queue_size(self) -> int:
        """Return the size in bytes of all queued buffers."""
        return sum(buffer.size for queued in self._queued for buffer in queued.buffers)

    def num_recordbatches(self) -> int:
        """Return the number of queued RecordBatches."""
        return len(self._queued)

    def num_buffers(self) -> int:
        """Return the number of buffers of all queued RecordBatches."""
        return sum(len(queued.buffers) for queued in self._queued)

    def rows(self) -> tuple[int, ...]:
        """Return the number of rows of each queued RecordBatch."""
        return tuple(queued.batch.num_rows for queued in self._queued)

    def get_device_buffer(self, buffer_index: int) -> DeviceBuffer:
        """Return the buffer with the index `buffer_index` among those that `enable` made accessible to the device.

        Raise `StatusError` for an invalid index."""
        if not 0 <= buffer_index < len(self.device_buffers):
            raise StatusError(f"there is no device buffer {buffer_index}, the context has {len(self.device_buffers)}")
        return self.device_buffers[buffer_index]

    @property
    def is_enabled(self) -> bool:
        """True if the queued buffers are accessible to the device."""
        return self._is_enabled

    def enable(self) -> None:
        """Make all queued buffers accessible to the device.

        A second call raises `StatusError`. If the kernel would read wrong rows of a RecordBatch, for example of a
        slice, a strict platform raises `RuleError`, and other platforms report a lint. A strict platform that knows
        its register map also raises `RuleError` for a queue that does not fit the map, since the run-time library
        would write addresses to the wrong registers."""
        if self._is_enabled:
            raise StatusError("the context is enabled already: call enable() once")
        port = self.platform.port
        for queued in self._queued:
            try:
                self._check_rows(queued)
            except RuleError as error:
                if port.strict:
                    raise
                if isinstance(port, LocalPort):
                    port.device.lint("wrong-rows", error)
        if port.strict and port.map is not None:
            self.check(port.map)
        self._is_enabled = True
        for queued in self._queued:
            self._first.append(len(self.device_buffers))
            for buffer in queued.buffers:
                self.device_buffers.append(self._bring(queued, buffer))

    def check(self, layout: FletcherMap) -> None:
        """Raise a `RuleError` if the queued RecordBatches do not fit the register map `layout` of the design."""
        own = fletcher_map([queued.batch for queued in self._queued], profile="runtime", offset=layout.offset)
        self._check_batches(own, layout)
        for mine, theirs in zip(own.buffers, layout.buffers, strict=False):
            same = (mine.batch, mine.node, mine.kind) == (theirs.batch, theirs.node, theirs.kind)
            if not same and mine.kind == "validity" and len(mine.node) > 1:
                raise RuleError(_nullable_child(own.batches[mine.batch], mine), rule=SAME_IMPLEMENTATION)
            if mine.address != theirs.address or not same:
                raise RuleError(
                    f"the run-time would write the address of {mine.name} to {mine.address:#x}, where the design has "
                    f"{theirs.name} (at {theirs.address:#x})",
                    rule=SAME_IMPLEMENTATION,
                )
        if len(own.buffers) != len(layout.buffers):
            raise RuleError(
                f"the queued RecordBatches have {len(own.buffers)} buffers, but the design has {len(layout.buffers)}",
                rule=SAME_IMPLEMENTATION,
            )

    def read_record_batch(self, index: int, rows: int | None = None) -> pa.RecordBatch:
        """Copy RecordBatch number `index` back from device memory, and return its first `rows` rows, by default all."""
        if not 0 <= index < len(self._first):
            state = f"{len(self._first)} are on the device" if self._is_enabled else "call enable() first"
            raise StatusError(f"RecordBatch {index} cannot be copied back: {state}")
        queued = self._queued[index]
        buffers = self.device_buffers[self._first[index] :][: len(queued.buffers)]
        copies = {
            each.device_address: self.platform.port.copy_device_to_host(each.device_address, each.size)
            for each in buffers
        }
        addresses = [each.device_address for each in buffers]
        return batch_of(queued.batch.schema, queued.batch.num_rows if rows is None else rows, addresses, copies)

    def close(self) -> None:
        """Free device memory; further calls have no effect."""
        buffers, self.device_buffers = self.device_buffers, []
        for buffer in buffers:
            if buffer.was_alloced:
                self.platform.port.device_free(buffer.device_address)

    def _check_rows(self, queued: _Queued) -> None:
        """Raise a `RuleError` if the kernel would not find the RecordBatch's rows in the buffers that are passed.

        The causes are types whose buffers are not passed, slices, and nulls in fields without a validity buffer."""
        cut = flatten_schema(queued.batch.schema, Reading.RUNTIME).cut
        if cut is not None:
            path, kind = cut
            raise RuleError(
                f"{queued.name}.{'.'.join(path)} is of type {kind}, expected a type that Fletcher supports (for an "
                "extension array, its storage): the run-time passes no buffers of this field and of later fields",
                rule=TRUNCATED_BATCH,
            )
        if not queued.whole:
            check_slices(queued.name, queued.batch, queued.index)
        if batch_mode(queued.batch.schema) is Mode.READ:
            check_nulls(queued.name, queued.batch)

    def _bring(self, queued: _Queued, buffer: HostBuffer) -> DeviceBuffer:
        name = f"{'_'.join(buffer.flat.path)}_{buffer.flat.kind}"
        port = self.platform.port
        try:
            if queued.memory_type == ANY:
                address, alloced = port.prepare_host_buffer(buffer.data, buffer.size)
            elif queued.memory_type == CACHE:
                address, alloced = port.cache_host_buffer(buffer.data, buffer.size), True
            else:
                raise StatusError(f"the run-time library does not support mem_type {queued.memory_type!r}")
        except SoftcardError as error:
            error.at("buffer", name)
            raise
        return DeviceBuffer(name, buffer.size, queued.memory_type, queued.mode, address, alloced)

    def _check_batches(self, own: FletcherMap, layout: FletcherMap) -> None:
        mine = [_described(batch.schema, batch.name) for batch in own.batches]
        theirs = [_described(batch.schema, batch.name) for batch in layout.batches]
        if len(mine) != len(theirs):
            queued = "1 RecordBatch is" if len(mine) == 1 else f"{len(mine)} RecordBatches are"
            written = " ".join(batch.name for batch in layout.batches if batch.mode is Mode.WRITE)
            room = f"; queue an empty one for {written} too, which the kernel writes: empty_batch(schema, rows)"
            raise RuleError(
                f"{queued} queued, but the design has {len(theirs)}: {_names(theirs)}"
                f"{room if written and len(mine) < len(theirs) else ''}",
                rule=QUEUE_ORDER,
            )
        for number, (one, other) in enumerate(zip(mine, theirs, strict=True)):
            if not (columns := _different(own.batches[number].schema, layout.batches[number].schema)) and (
                not one[0] or one[0] == other[0]
            ):
                continue
            text = (
                f"RecordBatch {number} of the queue is {one[0] or 'nameless'}{one[1]}, but the design has {other[0]}"
                f"{other[1]} there"
            )
            is_order = one[0] != other[0] and (one[0] or one in [("", each[1]) for each in theirs])
            if is_order:
                raise RuleError(f"{text}: queue them in the order {_names(theirs)}", rule=QUEUE_ORDER)
            raise RuleError(f"{text}: {'; '.join(columns)}", rule=SAME_IMPLEMENTATION)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _nullable_child(batch: BatchLayout, slot: BufferSlot) -> str:
    """Return the message that the design has no register for the validity buffer of a nested field.

    The run-time library passes such a buffer nevertheless."""
    field = batch.schema.field(slot.node[0])
    for index in slot.node[1:]:
        field = field.type.field(index)
    place = f"{batch.name}.{'.'.join(slot.path)}" + ("" if len(slot.path) == len(slot.node) else " (list items)")
    return (
        f"{place} may be null: the run-time library passes a validity buffer of it, for which the design has no "
        "register; "
        f"write pa.field({field.name!r}, {field.type}, nullable=False) inside of the type"
    )


def _different(given: pa.Schema, wanted: pa.Schema) -> list[str]:
    """Return messages about the differences between a RecordBatch's columns and the design's columns.

    The names, order, types and nullability of the columns are compared."""
    names = [field.name for field in given]
    found = [f"column {type_of(field, named=True)} is missing" for field in wanted if field.name not in names]
    known = [field.name for field in wanted]
    found += [f"the design has no column {name}" for name in names if name not in known]
    if found:
        return found
    if names != known:
        return [f"order the columns as {', '.join(known)}"]
    return [
        f"column {one.name} is {type_of(one)}, expected {type_of(other)}"
        for one, other in zip(given, wanted, strict=True)
        if (one.type, one.nullable) != (other.type, other.nullable)
    ]


def _described(schema: pa.Schema, name: str) -> tuple[str, str]:
    """Return two texts that describe a RecordBatch: its name, and its fields with their types.

    The name is "" if the schema does not contain one."""
    fields = ", ".join(type_of(field, named=True) for field in schema)
    return (name if b"fletcher_name" in (schema.metadata or {}) else ""), "{" + fields + "}"


def _names(batches: Sequence[tuple[str, str]]) -> str:
    return " ".join(name for name, _ in batches)
