"""What the driver library takes from the environment of its program."""

from __future__ import annotations

import ctypes

import pytest

from softcard.attach.refsi import events
from softcard.isa.riscv.assembler import assemble
from tests.attach.refsi.rig import SUCCESS, TCDM, Driver, G, Info, M, needs_compiler, opened, served

pytestmark = needs_compiler
VLEN = "CA_RISCV_VLEN_BITS_MIN"
ROM, KERNEL = 0x1000, 0x1_0000
START = "lui t1, 0x10; jalr zero, 0(t1)"
WIDTHS = f"""
csrrs t0, vlenb, zero
vsetvli t1, zero, e8, m1, ta, ma
lui a1, {TCDM >> 12:#x}
sd t0, 0(a1)
sd t1, 8(a1)
addi a0, zero, 0
addi a7, zero, 0
ecall
"""


def vlen_of(driver: Driver) -> int:
    info = Info()
    assert driver.lib.refsiQueryDeviceInfo(driver.handle, ctypes.byref(info)) == SUCCESS
    return info.core_vlen


@pytest.mark.parametrize(("text", "vlen"), [("256", 256), ("1024", 1024), ("64", 64), ("", 128), ("wide", 128)])
def test_width_of_vector_registers_of_g1(text: str, vlen: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel sees the width that the host is told."""
    monkeypatch.setenv(VLEN, text)
    with opened(G) as driver:
        assert vlen_of(driver) == vlen
        assert driver.write(ROM, assemble(START, ROM)) == SUCCESS
        assert driver.write(KERNEL, assemble(WIDTHS, KERNEL)) == SUCCESS
        assert driver.lib.refsiExecuteKernel(driver.handle, KERNEL, 1) == SUCCESS
        assert driver.read(TCDM, 16) == (SUCCESS, (vlen // 8).to_bytes(8, "little") * 2)


def test_m1_has_its_own_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VLEN, "256")
    with opened(M) as driver:
        assert vlen_of(driver) == 512


@pytest.mark.parametrize("text", ["100", "32", "131072", "-1"])
def test_widths_that_no_device_has(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VLEN, text)
    with served() as server:
        driver = Driver(server.path, G)
        assert driver.handle is None
        driver.lib.refsiTerminate()
    assert [str(event.error) for event in server.seen(events.Told)]
    assert "vector registers must have a power of two of bits, 64 to 65536" in str(server.seen(events.Told)[0].error)
