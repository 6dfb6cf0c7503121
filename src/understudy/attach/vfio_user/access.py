"""REGION_READ, REGION_WRITE and REGION_WRITE_MULTI: accesses to BARs and to the configuration space."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from understudy.attach.vfio_user import rules
from understudy.attach.vfio_user.config_space import SIZE as CONFIG_SIZE
from understudy.attach.vfio_user.config_space import ConfigSpace
from understudy.attach.vfio_user.dma import DmaMemory
from understudy.attach.vfio_user.intx import Intx
from understudy.attach.vfio_user.messages import RegionAccess, RegionIndex, SingleWrite, WriteMultiHead
from understudy.core.errors import RuleError, WireError
from understudy.core.pci import PciDevice

ACCESS: Final = RegionAccess.layout
CONFIG: Final = int(RegionIndex.CONFIG)
DEVICE_SIZES: Final = frozenset({1, 2, 4, 8})


class Regions:
    """The device's BARs and configuration space, by region index. The configuration space outlives sessions."""

    def __init__(self, device: PciDevice, dma: DmaMemory, intx: Intx, limit: int) -> None:
        self._device = device
        self._config = ConfigSpace(device)
        self._dma = dma
        self._intx = intx
        self._limit = limit
        self._sizes = {bar.index: bar.size_bytes for bar in device.bars} | {CONFIG: CONFIG_SIZE}
        self.has_interrupt = bool(device.identity.interrupt_pin)
        self._config_changed()

    def size_of(self, region: int) -> int:
        """Bytes of a region; 0 where the device has none."""
        return self._sizes.get(region, 0)

    def reset(self) -> None:
        """Device and configuration space as after power-on."""
        self._device.reset()
        self._config.reset()
        self._config_changed()

    def read(self, payload: bytes) -> bytes:
        """REGION_READ: payload of the command to payload of the reply."""
        if len(payload) != ACCESS.size:
            raise _wrong_size(f"REGION_READ takes {ACCESS.size} bytes, not {len(payload)}", payload)
        offset, region, count = ACCESS.unpack(payload)
        self._check(offset, region, count, 0)
        if region == CONFIG:
            return payload + self._config.read(offset, count, self._device.line.level)
        read = self._device.read_bar
        if count in DEVICE_SIZES:
            return payload + read(region, offset, count).to_bytes(count, "little")
        return payload + b"".join(read(region, at, size).to_bytes(size, "little") for at, size in _cut(offset, count))

    def write(self, payload: bytes) -> bytes:
        """REGION_WRITE, likewise."""
        if len(payload) < ACCESS.size:
            raise _wrong_size(f"REGION_WRITE takes {ACCESS.size} bytes and data, not {len(payload)}", payload)
        offset, region, count = ACCESS.unpack_from(payload)
        if len(payload) != ACCESS.size + count:
            raise _wrong_size(f"REGION_WRITE of {count} bytes has {len(payload) - ACCESS.size} bytes of data", payload)
        self._check(offset, region, count, 0)
        self._write(offset, region, payload[ACCESS.size :])
        return payload[: ACCESS.size]

    def write_multi(self, payload: bytes) -> bytes:
        """REGION_WRITE_MULTI; all writes are checked before the first is made."""
        head = WriteMultiHead.parse(payload)
        room, rest = divmod(len(payload) - WriteMultiHead.size_bytes, SingleWrite.size_bytes)
        if rest or head.wr_cnt != room:
            raise _wrong_size(
                f"REGION_WRITE_MULTI of {head.wr_cnt} writes has {len(payload) - WriteMultiHead.size_bytes} bytes "
                f"of them, {SingleWrite.size_bytes} each",
                payload,
            )
        starts = range(WriteMultiHead.size_bytes, len(payload), SingleWrite.size_bytes)
        writes = [(start, SingleWrite.parse(payload, start)) for start in starts]
        for start, write in writes:
            if write.count > SingleWrite.slot("data").size_bytes:
                raise RuleError(
                    f"a single write has 8 bytes at most, not {write.count}", rule=rules.WRITE_MULTI_COUNT
                ).at("byte", start + SingleWrite.offset_of("count"))
            self._check(write.offset, write.region, write.count, start)
        for _, write in writes:
            self._write(write.offset, write.region, write.data.to_bytes(8, "little")[: write.count])
        return head.pack()

    def _write(self, offset: int, region: int, data: bytes) -> None:
        count = len(data)
        if region == CONFIG:
            self._config.write(offset, data)
            self._config_changed()
        elif count in DEVICE_SIZES:
            self._device.write_bar(region, offset, count, int.from_bytes(data, "little"))
        else:
            for at, size in _cut(offset, count):
                piece = data[at - offset : at - offset + size]
                self._device.write_bar(region, at, size, int.from_bytes(piece, "little"))

    def _config_changed(self) -> None:
        self._dma.set_bus_master(self._config.bus_master)
        self._intx.set_disabled(self._config.interrupt_disabled)

    def _check(self, offset: int, region: int, count: int, start: int) -> None:
        """Refuse what lies outside of the region; `start` is where the access stands in the payload."""
        size = self._sizes.get(region, 0)
        if offset + count <= size and 0 < count <= self._limit:
            return
        if not size:
            raise RuleError(f"the device has no region {region}", rule=rules.REGION_INDEX).at(
                "byte", start + RegionAccess.offset_of("region")
            )
        if not 0 < count <= self._limit:
            raise RuleError(f"count must be 1 to {self._limit}, not {count}", rule=rules.REGION_COUNT).at(
                "byte", start + RegionAccess.offset_of("count")
            )
        raise RuleError(
            f"{count} bytes at {offset:#x} do not lie in region {region} of {size:#x} bytes", rule=rules.REGION_BOUNDS
        ).at("byte", start + RegionAccess.offset_of("offset"))


def _cut(offset: int, count: int) -> Iterator[tuple[int, int]]:
    """Naturally aligned accesses of at most 8 bytes that make up `count` bytes at `offset`: place and size."""
    end = offset + count
    while offset < end:
        size = min(8, offset & -offset or 8, 1 << (end - offset).bit_length() - 1)
        yield offset, size
        offset += size


def _wrong_size(text: str, payload: bytes) -> WireError:
    return WireError(text, rule=rules.PAYLOAD).at("byte", len(payload), "end of the payload")
