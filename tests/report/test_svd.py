"""CMSIS-SVD files, read back by another program: all registers and fields are where the map has them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cmsis_svd import SVDParser

from softcard.core.register import Access, Register, RegisterMap
from softcard.device.acceldev.registers import MMIO
from softcard.device.fletcher.map.registers import DEFAULT
from softcard.device.refsi.registers import CMP, DMA, PERF_COUNTERS
from softcard.report.register_formats import to_svd

SIDES = {"r": "read-only", "w": "write-only", "rw": "read-write"}
ACCESS = {
    Access.RW: "read-write", Access.W1C: "read-write", Access.RO: "read-only", Access.WO: "write-only",
    Access.STROBE: "write-only",
}  # fmt: skip


def elements(registers: RegisterMap) -> Iterator[tuple[str, int, Register]]:
    for each in registers:
        for index in range(each.count):
            name = f"{each.name}{index}" if each.count > 1 else each.name
            yield name, each.offset_of(index, registers.unit_bytes) * registers.unit_bytes, each


def fields(register: Register) -> list[tuple[Any, ...]]:
    return [
        (part.name, part.lsb, part.width, ACCESS[register.access(part.name)], part.values or {})
        for part in register.fields
        if register.access(part.name) is not Access.RSVD
    ]


@pytest.mark.parametrize(
    "maps", [(CMP, DMA, PERF_COUNTERS), (MMIO,), (DEFAULT,)], ids=["refsi", "acceldev", "fletcher"]
)
def test_another_parser_reads_what_the_map_says(maps: tuple[RegisterMap, ...], tmp_path: Path) -> None:
    path = tmp_path / "device.svd"
    path.write_text(to_svd("device", maps), encoding="utf-8")
    device = SVDParser.for_xml_file(str(path)).get_device()
    assert [each.name for each in device.peripherals] == [each.name for each in maps]
    for theirs, ours in zip(device.peripherals, maps, strict=True):
        read = {each.name: each for each in theirs.get_registers()}
        assert list(read) == [name for name, _, _ in elements(ours)]
        for name, offset, register in elements(ours):
            found = read[name]
            assert (found.address_offset, found.size, found.access.value) == (
                offset,
                register.width,
                SIDES[register.side],
            )
            assert found.reset_value == register.reset_value
            assert [
                (
                    part.name, part.bit_offset, part.bit_width, part.access.value,
                    {one.value: one.name for every in part.enumerated_values or [] for one in every.enumerated_values},
                )
                for part in found.fields or []
            ] == fields(register)  # fmt: skip
        last = max(offset + each.width // 8 for _, offset, each in elements(ours))
        assert theirs.address_blocks[0].size == last
