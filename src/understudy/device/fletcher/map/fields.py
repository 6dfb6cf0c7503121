"""The named bits of a register map, in the order of their addresses; what the generator writes to its YAML file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from understudy.core.register import Access
from understudy.device.fletcher.map.layout import Behaviour, FletcherMap, MmioField
from understudy.device.fletcher.map.registers import (
    ADDRESS_BITS,
    COUNTERS,
    DEFAULT,
    REGISTER_BITS,
    REGISTER_BYTES,
    RESULT,
    RESULT_BITS,
)

_BEHAVIOURS: Final[dict[Access, Behaviour]] = {Access.STROBE: "strobe", Access.RO: "status"}


def all_fields(plan: FletcherMap) -> FletcherMap:
    """`plan` with its fields. In profile `spec` wide registers are pairs of 32 bits, and strobes can be read back."""
    fields = tuple(_spec_fields(plan) if plan.profile == "spec" else _hardware_fields(plan))
    return replace(plan, fields=fields)


class _Maker:
    """Makes fields, with bit numbers as the bus has them."""

    def __init__(self, plan: FletcherMap) -> None:
        self._word_bytes = plan.bus_width // 8

    def __call__(self, name: str, address: int, width: int, behaviour: Behaviour, doc: str, lsb: int = 0) -> MmioField:
        start = 8 * (address % self._word_bytes)
        return MmioField(name, address, start + lsb, width, behaviour, doc)


def _hardware_fields(plan: FletcherMap) -> Iterator[MmioField]:
    """As generated: wide registers are one field."""
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
    """As the document's tables have them: all registers of 32 bits but the custom ones."""
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
