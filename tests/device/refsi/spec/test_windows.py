"""Memory windows of the `spec` profile: arithmetic, permissions, bounds and every refusal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softcard.core.errors import AccessFault, RuleError
from softcard.core.space import Unit
from softcard.device.refsi.interfaces import COMMAND_PROCESSOR, CORE, HART, HOST
from softcard.device.refsi.registers import (
    DMA_BASE,
    DRAM_BASE,
    DRAM_SIZE,
    TCDM_BASE,
    TCDM_SIZE,
    WINDOW_BASE,
    WINDOW_MODE,
    WINDOW_SCALE,
    WINDOW_TARGET,
)
from softcard.device.refsi.spec.memory import SpecMemory
from softcard.device.refsi.spec.windows import Topology, WindowFile, scaling_factor
from tests.device.refsi.spec.rig import TARGET, WINDOW, hart, open_window, refused

SHARED, PER_HART, PER_CORE = range(3)
READ, WRITE, EXECUTE = 1, 2, 4


@pytest.fixture
def memory():
    return SpecMemory()


# ---- arithmetic against an oracle


def oracle(fields, offset, index, count):
    """Physical address of one byte, written from the document's formulas and the interleave choice."""
    target, mode, scale_a, scale_b, interleave, stride = fields
    scale = (0 if scale_a == 0 else 2**scale_a) * (scale_b + 1)
    if mode == SHARED:
        return target + offset
    if interleave:
        k = offset // 2**stride
        return target + (k * count + index) * 2**stride + offset % 2**stride
    return target + scale * index + offset


FIELDS = st.tuples(
    st.integers(0, 2**64 - 1),
    st.sampled_from([SHARED, PER_HART, PER_CORE]),
    st.integers(0, 31),
    st.integers(0, 2**32 - 1),
    st.booleans(),
    st.integers(0, 31),
)


@given(
    FIELDS,
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(1, 40),
    st.integers(0, 5),
)
def test_refsi_window_addresses_agree_with_the_formulas(fields, base, size_field, offset, length, index):
    topology = Topology(cores=3, harts_per_core=2)
    target, mode, scale_a, scale_b, interleave, stride = fields
    registers = WindowFile()
    registers.write(WINDOW_BASE.offset + 5, base)
    registers.write(WINDOW_TARGET.offset + 5, target)
    registers.write(WINDOW_SCALE.offset + 5, WINDOW_SCALE.encode(SCALE_A=scale_a, SCALE_B=scale_b))
    registers.write(
        WINDOW_MODE.offset + 5,
        WINDOW_MODE.encode(ACTIVE=1, MODE=mode, INTERLEAVE=int(interleave), STRIDE=stride, SIZE=size_field),
    )
    (window,) = registers.active
    assert (window.number, window.base, window.end) == (5, base, base + size_field + 1)
    seat = window.seat(hart(index), topology)
    assert seat is not None
    offset %= size_field + 1
    length = min(length, size_field + 1 - offset)
    seen = [first + i for first, size in window.runs(offset, length, seat) for i in range(size)]
    index, count = {SHARED: (0, 1), PER_HART: (index, 6), PER_CORE: (index // 2, 3)}[mode]
    assert seen == [oracle(fields, offset + i, index, count) for i in range(length)]


@given(st.integers(0, 7), st.integers(0, 3), st.integers(0, 12), st.integers(0, 0xFE0), st.integers(1, 32))
def test_refsi_window_interleave_memory_agrees_with_the_formula(number, index, stride, offset, length):
    memory = _shared_memory
    open_window(memory, number, MODE=PER_HART, INTERLEAVE=1, STRIDE=stride)
    data = bytes(range(1, length + 1))
    memory.write(WINDOW + offset, data, hart(index))
    fields = (TARGET, PER_HART, 0, 0, True, stride)
    physical = [oracle(fields, offset + i, index, 4) for i in range(length)]
    assert b"".join(memory.read(address, 1, HOST) for address in physical) == data
    assert memory.read(WINDOW + offset, length, hart(index)) == data
    memory.window_register(WINDOW_MODE.offset + number, 0)


_shared_memory = SpecMemory()


# ---- registers


def test_refsi_window_base_and_target_shared(memory):
    open_window(memory)
    memory.write(WINDOW + 0x10, b"window", hart(1))
    assert memory.read(TARGET + 0x10, 6, HOST) == b"window"
    assert memory.read(WINDOW + 0x10, 6, COMMAND_PROCESSOR) == b"window"
    assert memory.read(WINDOW + 0x10, 6, hart(3)) == b"window"


@pytest.mark.parametrize(
    ("a", "b", "factor"),
    [(0, 0xFFF, 0), (1, 0, 2), (1, 0x7FFFF, 0x100000), (12, 1, 0x2000), (31, 0, 1 << 31), (31, 0xFFFFFFFF, 1 << 63)],
)
def test_refsi_window_scale_is_the_product_of_scale_a_and_scale_b(a, b, factor):
    assert scaling_factor(a, b) == factor


def test_refsi_window_per_hart(memory):
    open_window(memory, MODE=PER_HART, scale=(11, 1))
    for index in range(4):
        memory.write(WINDOW, bytes([index + 1]), hart(index))
    assert [memory.read(TARGET + 0x1000 * index, 1, HOST)[0] for index in range(4)] == [1, 2, 3, 4]


def test_refsi_window_per_core():
    memory = SpecMemory(cores=2, harts_per_core=2)
    open_window(memory, MODE=PER_CORE, scale=(12, 0))
    memory.write(WINDOW, b"0", hart(1))
    memory.write(WINDOW, b"1", hart(2))
    assert memory.read(TARGET, 1, HOST) + memory.read(TARGET + 0x1000, 1, HOST) == b"01"
    assert memory.read(WINDOW, 1, hart(3)) == memory.read(WINDOW, 1, Unit(CORE, 1)) == b"1"


def test_refsi_window_registers_take_effect_in_any_order(memory):
    memory.window_register(WINDOW_MODE.offset, 0xFFF_0000_0001)
    memory.window_register(WINDOW_TARGET.offset, TARGET)
    memory.window_register(WINDOW_BASE.offset, WINDOW)
    memory.write(WINDOW, b"x", HOST)
    memory.window_register(WINDOW_TARGET.offset, TARGET + 0x1000)
    memory.write(WINDOW, b"y", HOST)
    assert memory.read(TARGET, 1, HOST) + memory.read(TARGET + 0x1000, 1, HOST) == b"xy"


def test_refsi_window_active_clear_closes_the_window(memory):
    open_window(memory)
    memory.window_register(WINDOW_MODE.offset, 0xFFF_0000_0000)
    refused(
        lambda: memory.read(WINDOW + 8, 8, hart(0)),
        "window-active",
        "read of 8 bytes at 0x30000008: window 0 (SHARED 0x30000000..0x30001000) is not active",
    )


def test_refsi_window_mode_reserved(memory):
    with pytest.raises(RuleError) as caught:
        memory.window_register(WINDOW_MODE.offset + 2, 0xFFF_0000_0007)
    assert str(caught.value) == (
        "CMP_REG_WINDOW_MODE2 = 0xfff00000007: MODE 3 is reserved, expected 0 (SHARED), 1 (PER_HART) or 2 (PER_CORE), "
        "[refsi/window-mode-reserved: CMP_REG_WINDOW_MODEn (IDs: 24 through 31)]"
    )


@pytest.mark.parametrize(
    ("number", "value", "message"),
    [
        (24, 0xFFF_0000_2001, "CMP_REG_WINDOW_MODE0 = 0xfff00002001: bits 0x2000 are reserved, expected 0"),
        (33, 0xFFF_0000_0020, "CMP_REG_WINDOW_SCALE1 = 0xfff00000020: bits 0x20 are reserved, expected 0"),
    ],
)
def test_refsi_window_reserved_bits(memory, number, value, message):
    with pytest.raises(RuleError) as caught:
        memory.window_register(number, value)
    assert caught.value.message == message
    assert caught.value.rule is not None
    assert caught.value.rule.id == "refsi/window-reserved"


@pytest.mark.parametrize("number", [7, 40])
def test_refsi_reg_idx_of_a_window_register(memory, number):
    with pytest.raises(RuleError, match=f"CMP register {number} is not a window register, expected 8 to 39"):
        memory.window_register(number, 0)


def test_refsi_write_reg64_of_a_window_register_is_64_bits(memory):
    with pytest.raises(RuleError, match="value 0x10000000000000000 does not fit a 64-bit register"):
        memory.window_register(8, 1 << 64)


# ---- bounds


def test_refsi_window_size_last_byte_is_inside(memory):
    open_window(memory, size=0x1001)
    memory.write(WINDOW + 0x1000, b"z", hart(0))
    assert memory.read(TARGET + 0x1000, 1, HOST) == b"z"


def test_refsi_window_size_one_byte_and_4_gib(memory):
    open_window(memory, size=1)
    memory.write(WINDOW, b"1", hart(0))
    refused(
        lambda: memory.read(WINDOW, 2, hart(0)),
        "window-size",
        "read of 2 bytes at 0x30000000 through window 0 (SHARED 0x30000000..0x30000001) exceeds the bounds of the "
        "window",
    )
    open_window(memory, base=1 << 40, size=1 << 32)
    assert memory.read((1 << 40) + DRAM_SIZE - (TARGET - DRAM_BASE) - 1, 1, HOST) == b"\0"


def test_refsi_window_size_access_behind_the_end(memory):
    open_window(memory)
    refused(
        lambda: memory.write(WINDOW + 0x1010, b"12345678", hart(2)),
        "window-size",
        "write of 8 bytes at 0x30001010: no memory there, "
        "0x10 bytes past the end of window 0 (SHARED 0x30000000..0x30001000)",
    )


def test_refsi_window_size_access_in_front_of_the_start(memory):
    open_window(memory)
    refused(
        lambda: memory.read(WINDOW - 4, 8, hart(2)),
        "window-size",
        "read of 8 bytes at 0x2ffffffc through window 0 (SHARED 0x30000000..0x30001000) exceeds the bounds of the "
        "window",
    )


def test_refsi_window_size_neighbours_are_two_areas(memory):
    open_window(memory)
    open_window(memory, 1, base=WINDOW + 0x1000, target=TARGET + 0x1000)
    refused(
        lambda: memory.read(WINDOW + 0xFFC, 8, hart(0)),
        "window-size",
        "read of 8 bytes at 0x30000ffc crosses from window 0 (SHARED 0x30000000..0x30001000) to "
        "window 1 (SHARED 0x30001000..0x30002000), expected only one of them",
    )


def test_refsi_memory_overlap_of_two_windows(memory):
    open_window(memory)
    open_window(memory, 1, base=WINDOW + 0x800)
    memory.read(WINDOW + 0x7F8, 8, hart(0))
    refused(
        lambda: memory.read(WINDOW + 0x7FC, 8, hart(0)),
        "memory-overlap",
        "read of 8 bytes at 0x300007fc: the address is claimed by window 0 (SHARED 0x30000000..0x30001000) and "
        "window 1 (SHARED 0x30000800..0x30001800), expected only one of them",
    )


def test_refsi_memory_overlap_of_window_and_memory(memory):
    open_window(memory, base=TCDM_BASE)
    refused(
        lambda: memory.write(TCDM_BASE, b"x", COMMAND_PROCESSOR),
        "memory-overlap",
        "write of 1 bytes at 0x10000000: the address is claimed by window 0 (SHARED 0x10000000..0x10001000) and TCDM, "
        "expected only one of them",
    )
    memory.write(TCDM_BASE + 0x1000, b"x", COMMAND_PROCESSOR)


# ---- targets


def test_refsi_window_target_physical_unmapped(memory):
    open_window(memory, target=0x100)
    refused(
        lambda: memory.read(WINDOW, 8, hart(0)),
        "window-target-physical",
        "read of 8 bytes at 0x30000000 through window 0 (SHARED 0x30000000..0x30001000): its target 0x100..0x108 "
        "is outside of every memory",
    )


def test_refsi_window_target_physical_is_no_window(memory):
    open_window(memory)
    open_window(memory, 1, base=0x3100_0000, target=WINDOW)
    refused(
        lambda: memory.read(0x3100_0000, 8, hart(0)),
        "window-target-physical",
        "read of 8 bytes at 0x31000000 through window 1 (SHARED 0x31000000..0x31001000): its target "
        "0x30000000..0x30000008 is a window, expected a physical memory area",
    )


def test_refsi_window_target_physical_end_of_memory(memory):
    open_window(memory, target=TCDM_BASE + TCDM_SIZE - 8)
    memory.read(WINDOW, 8, hart(0))
    refused(
        lambda: memory.read(WINDOW + 4, 8, hart(0)),
        "window-target-physical",
        "read of 8 bytes at 0x30000004 through window 0 (SHARED 0x30000000..0x30001000): its target "
        "0x103ffffc..0x10400004 is outside of every memory",
    )


def test_refsi_window_target_physical_says_how_scale_led_there(memory):
    open_window(memory, base=0x1400_0000, target=0x1020_0000, size=0x80000, MODE=PER_HART, scale=(1, 0x7FFFF))
    memory.read(0x1400_0000, 8, hart(1))
    refused(
        lambda: memory.read(0x1400_0000, 8, hart(2)),
        "window-target-physical",
        "read of 8 bytes at 0x14000000 through window 0 (PER_HART 0x14000000..0x14080000): its target "
        "0x10400000..0x10400008 is outside of every memory (TARGET 0x10200000 + SCALE 0x100000 * hart 2; "
        "half of that SCALE lies in memory: for hosts of the reference driver, where SCALE_A n means 2^(n-1), "
        "set window_scale to driver; see choice refsi/window-scale-fields)",
    )


def test_refsi_window_scale_as_the_driver_reads_it():
    memory = SpecMemory(scale_encoding="refsidrv")
    open_window(memory, base=0x1400_0000, target=0x1020_0000, size=0x80000, MODE=PER_HART, scale=(1, 0x7FFFF))
    memory.write(0x1400_0000, b"hart 3  ", hart(3))
    assert memory.read(0x1020_0000 + 3 * 0x80000, 8, HOST) == b"hart 3  "


def test_refsi_window_onto_registers(memory):
    open_window(memory, target=DMA_BASE, size=0x100)
    memory.write(WINDOW + 0x18, (0x123).to_bytes(8, "little"), hart(1))
    assert memory.read(DMA_BASE + 0x18, 8, hart(1)) == (0x123).to_bytes(8, "little")
    assert memory.read(DMA_BASE + 0x18, 8, HOST) == bytes(8)


def test_refsi_register_whole_through_an_interleaved_window(memory):
    open_window(memory, target=DMA_BASE, size=0x20, MODE=PER_HART, INTERLEAVE=1, STRIDE=2)
    refused(
        lambda: memory.read(WINDOW, 8, hart(0)),
        "register-whole",
        "read of 8 bytes at 0x30000000: a register cannot be accessed in pieces through an interleaved window",
    )
    refused(
        lambda: memory.write(WINDOW, bytes(8), hart(0)),
        "register-whole",
        "write of 8 bytes at 0x30000000: a register cannot be accessed in pieces through an interleaved window",
    )


# ---- units and permissions


def test_refsi_window_per_hart_needs_a_hart(memory):
    open_window(memory, MODE=PER_HART)
    refused(
        lambda: memory.read(WINDOW, 8, COMMAND_PROCESSOR),
        "window-per-hart",
        "read of 8 bytes at 0x30000000 through window 0 (PER_HART 0x30000000..0x30001000) as the CMP, "
        "which has no hart_id",
    )


def test_refsi_window_per_core_needs_a_core(memory):
    open_window(memory, MODE=PER_CORE)
    refused(
        lambda: memory.write(WINDOW, bytes(8), HOST),
        "window-per-core",
        "write of 8 bytes at 0x30000000 through window 0 (PER_CORE 0x30000000..0x30001000) as the host, "
        "which has no core_id",
    )


@pytest.mark.parametrize("unit", [hart(4), Unit(CORE, 1), Unit(9)])
def test_refsi_unit_exists(memory, unit):
    name = {HART: "hart 4", CORE: "core 1", 9: "unit kind 9"}[unit.kind]
    refused(
        lambda: memory.read(DRAM_BASE, 8, unit),
        "unit-exists",
        f"read at 0x40000000 as {name}: the unit does not exist, expected a hart below 4 or a core below 1",
    )


ACCESSES = {
    "reading": (READ, lambda memory: memory.port(0).load(WINDOW, 8)),
    "writing": (WRITE, lambda memory: memory.port(0).store(WINDOW, 8, 1)),
    "executing": (EXECUTE, lambda memory: memory.port(0).fetch(WINDOW)),
}


@pytest.mark.parametrize("perms", range(8))
@pytest.mark.parametrize("activity", ACCESSES)
def test_refsi_window_perms(memory, perms, activity):
    open_window(memory, PERMS=perms)
    bit, access = ACCESSES[activity]
    if perms == 0 or perms & bit:
        access(memory)
        return
    name, size = {"reading": ("read", 8), "writing": ("write", 8), "executing": ("execute", 2)}[activity]
    refused(
        lambda: access(memory),
        "window-perms",
        f"{name} of {size} bytes at 0x30000000 through window 0 (SHARED 0x30000000..0x30001000): "
        f"the window's PERMS {perms:#05b} do not permit {activity}",
    )


def test_refsi_window_perms_bind_the_host_and_the_cmp(memory):
    open_window(memory, PERMS=READ)
    memory.read(WINDOW, 8, HOST)
    with pytest.raises(AccessFault, match="do not permit writing"):
        memory.write(WINDOW, bytes(8), COMMAND_PROCESSOR)


# ---- interleave


def test_refsi_window_interleave_deals_granules_to_harts(memory):
    open_window(memory, MODE=PER_HART, INTERLEAVE=1, STRIDE=4, scale=(5, 5))
    memory.write(WINDOW, bytes(range(48)), hart(1))
    assert memory.read(TARGET + 16, 16, HOST) == bytes(range(16))
    assert memory.read(TARGET + 16 + 64, 16, HOST) == bytes(range(16, 32))
    assert memory.read(WINDOW, 48, hart(0)) == bytes(48)


def test_refsi_window_interleave_deals_granules_to_cores():
    memory = SpecMemory(cores=2, harts_per_core=2)
    open_window(memory, MODE=PER_CORE, INTERLEAVE=1, STRIDE=12, size=0x2000)
    memory.write(WINDOW + 0xFFF, b"ab", hart(3))
    assert memory.read(TARGET + 0x1FFF, 1, HOST) + memory.read(TARGET + 0x3000, 1, HOST) == b"ab"


def test_refsi_window_stride_of_a_shared_window_changes_nothing(memory):
    open_window(memory, INTERLEAVE=1, STRIDE=3)
    memory.write(WINDOW, b"0123456789abcdef", HOST)
    assert memory.read(TARGET, 16, HOST) == b"0123456789abcdef"


def test_refsi_window_stride_without_interleave_changes_nothing(memory):
    open_window(memory)
    memory.window_register(WINDOW_MODE.offset, 0xFFF_0000_0001 | 0x1F00)
    memory.write(WINDOW, b"0123456789abcdef", HOST)
    assert memory.read(TARGET, 16, HOST) == b"0123456789abcdef"
