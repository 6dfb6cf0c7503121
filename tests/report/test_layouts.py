"""Commands and packets as they are shown: fields lie where packing puts them."""

from __future__ import annotations

import pytest

from softcard.core.record import Record
from softcard.device.acceldev.commands import DEVICE_COMMANDS, USER_COMMANDS
from softcard.device.amdcl2.queue_records import AqlWrap
from softcard.device.hsa.queues.packets import (
    AgentDispatchPacket,
    BarrierPacket,
    BarrierValuePacket,
    KernelDispatchPacket,
    Pm4IbPacket,
)
from softcard.device.refsi.commands import CopyMem64, RunInstances, RunKernelSlice, StoreImm64, WriteReg64
from softcard.report.layouts import INTERFACES, Layout, layouts, record_layout

RECORDS = [
    *DEVICE_COMMANDS.values(), *USER_COMMANDS.values(), KernelDispatchPacket, AgentDispatchPacket, BarrierPacket,
    BarrierValuePacket, Pm4IbPacket,
]  # fmt: skip


def bits_of(text: str, whole: int) -> tuple[int, int]:
    """Lowest bit and how many."""
    if not text:
        return 0, whole
    high, _, low = text.partition("-")
    return int(low or high), int(high) - int(low or high) + 1


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_fields_lie_where_packing_puts_them(record: type[Record]) -> None:
    blank = record.parse(bytes(record.size_bytes))
    zeros = {slot.name: getattr(blank, slot.name) for slot in record.slots}
    layout = record_layout(record)
    assert layout.size_bytes == record.size_bytes
    for part in layout.parts:
        if part.name == "reserved" or not part.type.startswith("u") or "[" in part.type:
            continue
        low, width = bits_of(part.bits, int(part.type[1:]))
        packed = int.from_bytes(record(**{**zeros, part.name: (1 << width) - 1}).pack(), "little")
        assert packed == (1 << width) - 1 << 8 * int(part.place, 16) + low


@pytest.mark.parametrize(
    ("command", "values"),
    [
        (WriteReg64(7, 0x1234), {"REG_IDX": 7, "IMM_VAL": 0x1234}),
        (StoreImm64(0x100, 9), {"DST_ADDR_LO": 0x100, "IMM_VAL": 9}),
        (CopyMem64(5, 1, 2, 3), {"COUNT": 5, "SRC_ADDR": 1, "DST_ADDR": 2, "UNIT": 3}),
        (RunKernelSlice(4, 100, 2), {"MAX_HARTS": 4, "NUM_INSTANCES": 100, "SLICE_ID": 2}),
        (RunInstances(4, 100, (8, 9)), {"MAX_HARTS": 4, "NUM_ARGS": 2, "NUM_INSTANCES": 100}),
    ],
    ids=lambda each: type(each).__name__,
)
def test_fields_of_refsi_lie_where_encoding_puts_them(command: object, values: dict[str, int]) -> None:
    words = command.encode()  # type: ignore[attr-defined]
    layout = next(each for each in layouts("refsi") if each.name == command.opcode.name)  # type: ignore[attr-defined]
    found = {}
    for part in layout.parts:
        if part.place.endswith("..."):
            continue
        low, width = bits_of(part.bits, 64)
        value = words[int(part.place.split()[1])] >> low & (1 << width) - 1
        if part.value:
            assert value == int(part.value), part.name
        found[part.name] = value  # the inline COUNT comes behind that of the header
    assert {name: found[name] for name in values} == values
    assert layout.size_bytes in (None, 8 * len(words))


def names(found: tuple[Layout, ...]) -> list[str]:
    return [each.name for each in found]


def test_every_interface_shows_all_of_its() -> None:
    assert names(layouts("refsi"))[:3] == ["NOP", "FINISH", "WRITE_REG64"]
    assert len(layouts("refsi")) == 10
    assert "user command FILL, in Python Fill" in names(layouts("acceldev"))
    assert {"KernelDispatchPacket", "BarrierValuePacket", "AmdQueue"} <= set(names(layouts("hsa")))
    assert AqlWrap.__name__ in names(layouts("amdcl2"))
    for interface in INTERFACES:
        assert all(each.doc and each.parts for each in layouts(interface))
