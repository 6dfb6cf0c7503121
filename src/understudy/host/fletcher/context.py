"""Which RecordBatches a host has queued, and where their buffers are on the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from understudy.core.errors import RuleError, UnderstudyError
from understudy.device.fletcher.kernel import FLETCHER_MODE
from understudy.device.fletcher.map.build import batch_mode, batch_name, fletcher_map
from understudy.device.fletcher.map.flatten import Reading, flatten_schema
from understudy.device.fletcher.map.layout import BatchLayout, BufferSlot, FletcherMap, Mode
from understudy.device.fletcher.rules import CUT_BATCH, QUEUE_ORDER, SAME_IMPLEMENTATION
from understudy.host.fletcher.batch import HostBuffer, as_batch, batch_of, buffers_of
from understudy.host.fletcher.port import LocalPort, StatusError
from understudy.host.fletcher.rows import check_nulls, check_slices

if TYPE_CHECKING:
    from understudy.host.fletcher.platform import Platform

ANY: Final = "any"
CACHE: Final = "cache"
ALLOC_ONLY: Final = "alloc_only"


@dataclass(frozen=True, slots=True)
class DeviceBuffer:
    """A buffer of the host's and its place on the device."""

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
        """What messages call it."""
        return batch_name(self.batch.schema) or f"RB{self.index}"

    @property
    def mode(self) -> str:
        """ "read" or "write"."""
        return str((self.batch.schema.metadata or {}).get(FLETCHER_MODE, b"read").decode("utf-8", "replace"))


class Context:
    """RecordBatches for a kernel. `close` frees what `enable` has allocated, as the real one does in its destructor."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self.device_buffers: list[DeviceBuffer] = []
        self._queued: list[_Queued] = []
        self._first: list[int] = []
        self._is_enabled = False

    def __repr__(self) -> str:
        return f"<context on {self.platform.name()}, RecordBatches queued: {self.num_recordbatches()}>"

    def queue_record_batch(self, record_batch: Any, mem_type: str = ANY, *, whole: bool = False) -> None:
        """Queue a RecordBatch, of any Arrow producer. Nothing reaches the device before `enable`.

        `mem_type`: "any" makes its buffers reachable with the least effort, "cache" copies them to the device. `whole`
        says that a slice is meant to be passed with all of its buffers, as the run-time does: the host names the rows
        by `Kernel.set_range`. Otherwise a strict platform refuses a slice (choice fletcher/sliced-batch).
        """
        if mem_type not in (ANY, CACHE, ALLOC_ONLY):
            raise StatusError(f"mem_type {mem_type!r}, expected 'any' or 'cache'")
        if self._is_enabled:
            raise StatusError("the context is enabled already, expected all RecordBatches to be queued before")
        batch = as_batch(record_batch)
        self._queued.append(_Queued(len(self._queued), batch, mem_type, whole, buffers_of(batch)))

    def get_queue_size(self) -> int:
        """Bytes of all queued buffers."""
        return sum(buffer.size for queued in self._queued for buffer in queued.buffers)

    def num_recordbatches(self) -> int:
        """How many RecordBatches are queued."""
        return len(self._queued)

    def num_buffers(self) -> int:
        """How many buffers they have."""
        return sum(len(queued.buffers) for queued in self._queued)

    def rows(self) -> tuple[int, ...]:
        """How many rows each queued RecordBatch has."""
        return tuple(queued.batch.num_rows for queued in self._queued)

    def get_device_buffer(self, buffer_index: int) -> DeviceBuffer:
        """A buffer that `enable` has brought to the device."""
        if not 0 <= buffer_index < len(self.device_buffers):
            raise StatusError(f"device buffer {buffer_index}, the context has {len(self.device_buffers)}")
        return self.device_buffers[buffer_index]

    def enable(self) -> None:
        """Bring all queued buffers to the device.

        Once is enough: a second call is a `StatusError`. Where the platform is strict, RecordBatches of which the
        kernel would see other rows than they have are a `RuleError` (elsewhere a lint); where it knows its register
        map, a queue that does not fit it is one too: the run-time would write addresses to the wrong registers.
        """
        if self._is_enabled:
            raise StatusError("the context is enabled already")
        port = self.platform.port
        for queued in self._queued:
            try:
                self._check_rows(queued)
            except RuleError as error:
                if port.strict:
                    raise
                if isinstance(port, LocalPort):
                    port.device.lint("other-rows", error)
        if port.strict and port.map is not None:
            self.check(port.map)
        self._is_enabled = True
        for queued in self._queued:
            self._first.append(len(self.device_buffers))
            for buffer in queued.buffers:
                self.device_buffers.append(self._bring(queued, buffer))

    def check(self, layout: FletcherMap) -> None:
        """`RuleError` where the queued RecordBatches give another register map than the design's `layout`."""
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
                f"the queued RecordBatches have {len(own.buffers)} buffers, the design {len(layout.buffers)}",
                rule=SAME_IMPLEMENTATION,
            )

    def read_record_batch(self, index: int, rows: int | None = None) -> pa.RecordBatch:
        """Copy a RecordBatch back: its first `rows` rows (all by default) as they are in device memory now."""
        if not 0 <= index < len(self._first):
            state = f"{len(self._first)} are on the device" if self._is_enabled else "expected enable() before"
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
        """Free device memory; once is enough."""
        buffers, self.device_buffers = self.device_buffers, []
        for buffer in buffers:
            if buffer.was_alloced:
                self.platform.port.device_free(buffer.device_address)

    def _check_rows(self, queued: _Queued) -> None:
        """`RuleError` unless the buffers that are passed hold the rows of a RecordBatch from the first one on."""
        cut = flatten_schema(queued.batch.schema, Reading.RUNTIME).cut
        if cut is not None:
            path, kind = cut
            raise RuleError(
                f"{queued.name}.{'.'.join(path)} is of type {kind}: the run-time passes no buffers of it, nor of any "
                "later field; expected a type of Fletcher's, or the storage of an extension array",
                rule=CUT_BATCH,
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
                raise StatusError(f"mem_type {queued.memory_type!r}, which the run-time library does not support")
        except UnderstudyError as error:
            error.at("buffer", name)
            raise
        return DeviceBuffer(name, buffer.size, queued.memory_type, queued.mode, address, alloced)

    def _check_batches(self, own: FletcherMap, layout: FletcherMap) -> None:
        mine = [_shown(batch.schema, batch.name) for batch in own.batches]
        theirs = [_shown(batch.schema, batch.name) for batch in layout.batches]
        if len(mine) != len(theirs):
            queued = "1 RecordBatch is" if len(mine) == 1 else f"{len(mine)} RecordBatches are"
            written = " ".join(batch.name for batch in layout.batches if batch.mode is Mode.WRITE)
            room = f"; room for {written}, which the kernel writes, is one too: empty_batch(schema, rows)"
            raise RuleError(
                f"{queued} queued, the design has {len(theirs)}: {_names(theirs)}"
                f"{room if written and len(mine) < len(theirs) else ''}",
                rule=QUEUE_ORDER,
            )
        for number, (one, other) in enumerate(zip(mine, theirs, strict=True)):
            if one[1] != other[1] or (one[0] and one[0] != other[0]):
                raise RuleError(
                    f"RecordBatch {number} of the queue is {one[0] or 'nameless'}{one[1]}, the design has {other[0]}"
                    f"{other[1]} there: expected the order {_names(theirs)}",
                    rule=QUEUE_ORDER,
                )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _nullable_child(batch: BatchLayout, slot: BufferSlot) -> str:
    """What to say where the run-time passes a validity buffer, for which the design has no register."""
    field = batch.schema.field(slot.node[0])
    for index in slot.node[1:]:
        field = field.type.field(index)
    place = f"{batch.name}.{'.'.join(slot.path)}" + ("" if len(slot.path) == len(slot.node) else " (list items)")
    return (
        f"{place} may be null: the run-time passes a validity buffer of it, for which the design has no register; "
        f"write pa.field({field.name!r}, {field.type}, nullable=False) inside of the type"
    )


def _shown(schema: pa.Schema, name: str) -> tuple[str, str]:
    """A RecordBatch's name, where its schema has one, and its fields."""
    fields = ", ".join(f"{field.name}: {field.type}" for field in schema)
    return (name if b"fletcher_name" in (schema.metadata or {}) else ""), "{" + fields + "}"


def _names(batches: Sequence[tuple[str, str]]) -> str:
    return " ".join(name for name, _ in batches)
