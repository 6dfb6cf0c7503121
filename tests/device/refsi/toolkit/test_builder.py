"""The builder: bytes as recorded from real hosts, and one refusal per field that does not fit."""

from __future__ import annotations

import doctest
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softcard.core.errors import WireError
from softcard.core.space import Unit
from softcard.device.refsi.commands import WriteReg64, decode_all
from softcard.device.refsi.toolkit import builder
from softcard.device.refsi.toolkit.builder import CommandBuffer, scale_fields

# The buffer with which the reference's HAL opens its two windows.
HAL_WINDOWS = (
    *(0x8C0020200, 0x10000, 0x10C0020200, 0x70000000, 0x20C0020200, 0x0, 0x18C0020200, 0x7FEFFFF00000001),
    *(0x9C0020200, 0x14000000, 0x11C0020200, 0x10200000, 0x21C0020200, 0x7FFFF00000001, 0x19C0020200, 0x7FFFF00000003),
    0xC0000100,
)


def test_windows_as_the_reference_host_opens_them() -> None:
    buffer = (
        CommandBuffer("refsidrv")
        .window(0, base=0x10000, target=0x7000_0000, size=0x7FF0000, perms=0)
        .window(1, base=0x1400_0000, target=0x1020_0000, size=0x80000, mode="PER_HART", scale=0x80000, perms=0)
        .finish()
    )
    assert buffer.words == HAL_WINDOWS
    assert len(buffer) == 17
    assert buffer.size_bytes == len(buffer.to_bytes()) == 136
    assert list(buffer) == list(HAL_WINDOWS)


def test_run_as_recorded() -> None:
    buffer = CommandBuffer().kernel(0x10002, stack_top=0x14080000, return_address=0x60077000)
    buffer.run_instances(4, 0x53000000, 0x53000000, 0x54000000, 8).copy_mem64(32, 0x20100000, 0x50000000, Unit(3))
    buffer.store_imm64(0x50010000, 1).finish()
    assert buffer.words == (
        *(0x1C0020200, 0x10002, 0x5C0020200, 0x14080000, 0x6C0020200, 0x60077000),
        *(0x400C00A0800, 4, 0x53000000, 0x53000000, 0x54000000, 8),
        *(0x20C0060600, 0x20100000, 0x50000000, 0x3000000, 0x50010000C0020500, 1, 0xC0000100),
    )


def test_every_other_command() -> None:
    buffer = CommandBuffer().nop(7).load_reg64(0, 0x20002008).store_reg64("CMP_SCRATCH", 0x50000000)
    buffer.uniform_block(0x53000000, 300, kargs=(0, 8), tsd=(8, 16)).run_kernel_slice(4, 2, max_harts=3).sync_cache()
    assert buffer.words == (
        *(0xC0020000, 7, 0xC0020300, 0x20002008, 0xC0020400, 0x50000000),
        *(0x2C0020200, 0x2000053000000, 0x3C0020200, 0x80000000000, 0x4C0020200, 0x100000080000),
        *(0x3C0040700, 4, 2, 0x3C0000900),
    )


def test_dma_sequences() -> None:
    one = CommandBuffer().dma_1d(0x54000000, 0x53000000, 32).wait_dma()
    assert one.words == (
        *(0x20002018C0020500, 0x53000000, 0x20002020C0020500, 0x54000000, 0x20002028C0020500, 32),
        *(0x20002000C0020500, 0x11, 0xC0020300, 0x20002008, 0xC0020400, 0x20002010),
    )
    two = CommandBuffer().dma_2d(2, 1, (8, 3), source_stride=0)
    assert two.words[-6:] == (0x20002040C0020500, 0, 0x20002050C0020500, 8, 0x20002000C0020500, 0xE1)
    three = CommandBuffer().dma_3d(2, 1, (8, 3, 2), target_strides=(16, 64))
    assert three.words[-10:] == (
        *(0x20002040C0020500, 8, 0x20002048C0020500, 24, 0x20002050C0020500, 16, 0x20002058C0020500, 64),
        *(0x20002000C0020500, 0xF1),
    )


def test_close_window() -> None:
    assert CommandBuffer().close_window(7).words == (0x1FC0020200, 0)


def test_registers_by_fields() -> None:
    assert CommandBuffer().write_reg64("CMP_KUB_DESC", KUB_ADDR=0x5300_0000, KUB_SIZE=1).words[1] == 0x1000053000000


def test_wrong_on_purpose() -> None:
    assert CommandBuffer().add(WriteReg64(40, 1)).chunks(5).words == (0x28C0020200, 1, 5)


REFUSALS: dict[str, tuple[Callable[[CommandBuffer], object], str]] = {
    "register name": (lambda b: b.write_reg64("CMP_NOPE", 1), "has no register CMP_NOPE"),
    "register number": (lambda b: b.write_reg64(40, 1), "there is no CMP register 40, .*refsi/reg-idx"),
    "register hole": (lambda b: b.store_reg64(7, 0), "there is no CMP register 7"),
    "value": (lambda b: b.write_reg64(0, 1 << 64), "is 0x10000000000000000, expected 64 bits"),
    "negative": (lambda b: b.run_instances(-1), "is -0x1, expected 64 bits"),
    "field": (lambda b: b.write_reg64("CMP_KUB_DESC", KUB_SIZE=1 << 16), "KUB_SIZE of register CMP_KUB_DESC holds 16"),
    "field name": (lambda b: b.write_reg64("CMP_KUB_DESC", NOPE=1), "has no field NOPE"),
    "entry": (lambda b: b.kernel(1 << 32, stack_top=0, return_address=0), "ENTRY_POINT_ADDR .* holds 32 bits"),
    "imm address": (lambda b: b.store_imm64(1 << 32, 0), "DST_ADDR_LO is 0x100000000, expected a 32-bit address"),
    "count": (lambda b: b.copy_mem64(1 << 32, 0, 0), "COUNT of register INLINE holds 32 bits"),
    "unit": (
        lambda b: b.copy_mem64(1, 0, 0, Unit(3, 1 << 16)),
        "kind 0x3 and index 0x10000, expected a kind of 8 and an index of 16 bits",
    ),
    "harts": (lambda b: b.run_instances(1, max_harts=256), "MAX_HARTS of register INLINE holds 8 bits"),
    "arguments": (lambda b: b.run_instances(1, *range(8)), "takes at most 7 extra arguments, not 8"),
    "window": (lambda b: b.window(8, base=0, target=0, size=1), "no memory window 8, expected 0 .. 7"),
    "closed window": (lambda b: b.close_window(-1), "no memory window -1"),
    "window size": (
        lambda b: b.window(0, base=0, target=0, size=0),
        "the size of the window is 0x0, expected 1 to 2\\^32 bytes",
    ),
    "window mode": (lambda b: b.window(0, base=0, target=0, size=1, mode="OWN"), "unknown window mode 'OWN'"),
    "window scale": (
        lambda b: b.window(0, base=0, target=0, size=1, mode="PER_HART", scale=3),
        "scaling factor is 0x3, expected 2\\^n \\* m with n 1 .. 31 and m 1 .. 2\\^32",
    ),
    "chunk": (lambda b: b.chunks(1 << 64), "a chunk of 64 bits"),
    "payload": (lambda b: b.nop(*[0] * 9000), "COUNT"),
}


@pytest.mark.parametrize("mistake", REFUSALS)
def test_refusals_leave_the_buffer_alone(mistake: str) -> None:
    make, text = REFUSALS[mistake]
    buffer = CommandBuffer()
    with pytest.raises(WireError, match=text):
        make(buffer)
    assert mistake == "entry" or not buffer.words


def test_unknown_profile() -> None:
    with pytest.raises(WireError, match="unknown profile 'fast', expected one of spec, refsidrv"):
        CommandBuffer("fast")


@pytest.mark.parametrize(("profile", "shift"), [("spec", 0), ("refsidrv", 1)])
def test_scale_fields_give_the_factor_back(profile: str, shift: int) -> None:
    for scale in (2, 0x80000, 6, 1 << 63, (1 << 62) - (1 << 30)):
        if profile == "refsidrv" and scale > 1 << 62:
            continue
        a, b = scale_fields(scale, profile)
        assert (b + 1) << (a - shift) == scale
        assert 1 <= a <= 31
        assert 0 <= b < 1 << 32
    assert scale_fields(0, profile) == (0, 0)


def test_odd_scale_exists_in_the_reference_only() -> None:
    assert scale_fields(3, "refsidrv") == (1, 2)
    with pytest.raises(WireError):
        scale_fields(-4)


WORD = st.integers(0, (1 << 64) - 1)


@given(WORD, WORD, st.lists(WORD, max_size=7), st.integers(0, 255))
def test_what_is_built_is_decoded(first: int, second: int, args: list[int], harts: int) -> None:
    buffer = CommandBuffer().write_reg64(0, first).load_reg64(39, second).run_instances(first, *args, max_harts=harts)
    buffer.copy_mem64(harts, first, second).store_imm64(harts, second).finish()
    commands = [command for _, command in decode_all(buffer.words)]
    again = CommandBuffer()
    for command in commands:
        again.add(command)
    assert again.words == buffer.words


def test_docstrings() -> None:
    assert doctest.testmod(builder).failed == 0
