"""Memory, windows and ports of the profile refsidrv, as the reference driver has them."""

from __future__ import annotations

import pytest

from softcard.core.errors import AccessFault, GuestFault
from softcard.core.space import Unit
from softcard.device.refsi.counters import PerfCounters
from softcard.device.refsi.interfaces import COMMAND_PROCESSOR, CORE, HART, HOST
from softcard.device.refsi.refsidrv.devices import ReferenceCrash
from softcard.device.refsi.refsidrv.memory import RefsidrvMemory, scaling_factor
from softcard.device.refsi.registers import (
    DMA_BASE,
    DRAM_BASE,
    DRAM_SIZE,
    PERF_COUNTERS_BASE,
    TCDM_BASE,
    TCIM_BASE,
    WINDOW_BASE,
    WINDOW_MODE,
    WINDOW_SCALE,
    WINDOW_TARGET,
)

HART0, HART1 = Unit(HART, 0), Unit(HART, 1)
DRAM_END = DRAM_BASE + DRAM_SIZE


@pytest.fixture
def memory() -> RefsidrvMemory:
    return RefsidrvMemory(PerfCounters(lambda index: None))


def mode(size: int, kind: int = 0, active: bool = True) -> int:
    return WINDOW_MODE.encode(ACTIVE=int(active), MODE=kind, SIZE=size - 1)


def open_window(
    memory: RefsidrvMemory, base: int, target: int, size: int = 0x1000, kind: int = 0, scale: int = 0, index: int = 2
) -> None:
    for register, value in (
        (WINDOW_BASE, base),
        (WINDOW_TARGET, target),
        (WINDOW_SCALE, WINDOW_SCALE.encode(SCALE_A=1, SCALE_B=scale - 1) if scale else 0),
        (WINDOW_MODE, mode(size, kind)),
    ):
        memory.window_register(register.offset + index, value)


def refuses(memory: RefsidrvMemory, address: int, size: int = 8, unit: Unit = HOST) -> bool:
    try:
        memory.read(address, size, unit)
    except AccessFault as fault:
        return fault.address == address
    return False


# ---- plain memory


def test_memory_keeps_what_is_written(memory: RefsidrvMemory) -> None:
    for address in (TCDM_BASE, DRAM_BASE + 1, DRAM_END - 8):
        memory.write(address, b"abcdefgh", HOST)
        assert memory.read(address, 8, HART1) == b"abcdefgh"
    view = memory.view(TCDM_BASE, 4)
    assert view is not None
    view[0] = ord("X")
    assert memory.read(TCDM_BASE, 2, HOST) == b"Xb"


def test_accesses_stay_inside_one_device(memory: RefsidrvMemory) -> None:
    assert refuses(memory, DRAM_END - 4)
    assert refuses(memory, DRAM_END)
    assert refuses(memory, 0x100)
    assert refuses(memory, 0x2000_0000), "behind TCDM the last device below an address still decodes it"
    with pytest.raises(AccessFault, match="write of 8 bytes at 0xbffffffc is refused"):
        memory.write(DRAM_END - 4, bytes(8), HOST)
    assert memory.view(DRAM_END - 4, 8) is None
    assert memory.view(DMA_BASE, 8) is None


def test_reset_zeroes_everything(memory: RefsidrvMemory) -> None:
    memory.write(DRAM_BASE, b"x", HOST)
    memory.write(DMA_BASE + 24, b"abcdefgh", HART0)
    open_window(memory, 0x30000000, DRAM_BASE)
    memory.reset()
    assert memory.read(DRAM_BASE, 1, HOST) == b"\0"
    assert memory.read(DMA_BASE + 24, 8, HART0) == bytes(8)
    assert refuses(memory, 0x30000000)


# ---- windows


def test_shared_window(memory: RefsidrvMemory) -> None:
    open_window(memory, 0x30000000, DRAM_BASE + 0x100)
    memory.write(0x30000008, b"abcdefgh", COMMAND_PROCESSOR)
    assert memory.read(DRAM_BASE + 0x108, 8, HOST) == b"abcdefgh"


def test_size_does_not_bound_direct_accesses(memory: RefsidrvMemory) -> None:
    open_window(memory, 0x30000000, DRAM_BASE)
    memory.write(DRAM_BASE + 0xE00_0000, b"far away", HOST)
    assert memory.read(0x3E00_0000, 8, HOST) == b"far away"
    assert memory.port(0).load(0x3E00_0000, 8) == int.from_bytes(b"far away", "little")


def test_per_hart_window(memory: RefsidrvMemory) -> None:
    open_window(memory, 0x30000000, DRAM_BASE, kind=1, scale=0x2000)
    memory.write(0x30000000, b"hart one", HART1)
    assert memory.read(DRAM_BASE + 0x2000, 8, HOST) == b"hart one"
    for unit in (HOST, COMMAND_PROCESSOR, Unit(CORE, 0), Unit(0)):
        assert refuses(memory, 0x30000000, unit=unit)


@pytest.mark.parametrize(
    ("a", "b", "scale"),
    [(0, 0xFFF, 0), (1, 0xFFF, 0x1000), (2, 0, 2), (12, 0, 0x800), (12, 1, 0x1000), (31, 0, 1 << 30)],
)
def test_scaling_factor(a: int, b: int, scale: int) -> None:
    assert scaling_factor(a, b) == scale


def test_last_byte_of_a_window_is_lost_to_slow_accesses(memory: RefsidrvMemory) -> None:
    open_window(memory, 0x30000000, DMA_BASE, size=0x20)
    memory.write(0x30000010 - 8 + 8, bytes(8), HART0)
    assert refuses(memory, 0x30000018, unit=HART0)
    open_window(memory, 0x31000000, DRAM_BASE, size=0x20, index=3)
    memory.copy64(0x31000000, DRAM_BASE + 0x100, 3, HOST)
    with pytest.raises(AccessFault, match="read of 8 bytes at 0x31000018 is refused"):
        memory.copy64(0x31000018, DRAM_BASE + 0x100, 1, HOST)
    with pytest.raises(AccessFault, match="write of 8 bytes at 0x31000018 is refused"):
        memory.copy64(DRAM_BASE, 0x31000018, 1, HOST)


def test_a_window_onto_registers(memory: RefsidrvMemory) -> None:
    open_window(memory, 0x30000000, DMA_BASE, size=0x100)
    memory.write(0x30000018, (0x123).to_bytes(8, "little"), COMMAND_PROCESSOR)
    assert memory.read(DMA_BASE + 24, 8, COMMAND_PROCESSOR) == (0x123).to_bytes(8, "little")
    assert memory.read(DMA_BASE + 24, 8, HOST) == bytes(8)


@pytest.mark.parametrize(
    ("target", "kind", "message"),
    [
        (0x100, 0, "window 2 (base 0x30000000, target 0x100) cannot be opened: its target is not memory"),
        (0x30001000, 0, "its target lies in another window"),
        (DRAM_BASE, 2, "mode 2 (PER_CORE) is not supported"),
        (DRAM_BASE, 3, "mode 3 (reserved) is not supported"),
    ],
)
def test_windows_that_cannot_open(memory: RefsidrvMemory, target: int, kind: int, message: str) -> None:
    open_window(memory, 0x30001000, DRAM_BASE, index=3)
    with pytest.raises(AccessFault) as caught:
        open_window(memory, 0x30000000, target, kind=kind)
    assert message in str(caught.value)
    assert caught.value.address == target


def test_a_refused_window_opens_with_its_next_register(memory: RefsidrvMemory) -> None:
    """ACTIVE stays set in the registers: mapping is tried again at every write."""
    memory.window_register(WINDOW_BASE.offset, 0x30000000)
    with pytest.raises(AccessFault):
        memory.window_register(WINDOW_MODE.offset, mode(0x1000))
    memory.window_register(WINDOW_TARGET.offset, DRAM_BASE)
    memory.write(0x30000000, b"x", HOST)
    assert memory.read(DRAM_BASE, 1, HOST) == b"x"


@pytest.mark.parametrize(
    ("register", "value"),
    [
        (WINDOW_BASE, 0x31000000),
        (WINDOW_TARGET, TCDM_BASE),
        (WINDOW_MODE, mode(0x2000)),
        (WINDOW_MODE, mode(0x1000, 1)),
    ],
)
def test_changing_an_open_window_closes_it(memory: RefsidrvMemory, register: object, value: int) -> None:
    open_window(memory, 0x30000000, DRAM_BASE)
    memory.window_register(register.offset + 2, value)  # type: ignore[attr-defined]
    assert refuses(memory, 0x30000000)
    assert refuses(memory, 0x31000000)
    assert not memory.windows[2].config.active
    memory.window_register(WINDOW_MODE.offset + 2, mode(0x1000))
    assert not refuses(memory, memory.windows[2].mapped.base)


def test_writing_what_is_there_changes_nothing(memory: RefsidrvMemory) -> None:
    open_window(memory, 0x30000000, DRAM_BASE)
    memory.window_register(WINDOW_BASE.offset + 2, 0x30000000)
    memory.window_register(WINDOW_MODE.offset + 2, mode(0x1000))
    assert not refuses(memory, 0x30000000)
    memory.window_register(WINDOW_MODE.offset + 2, mode(0x1000, active=False))
    assert refuses(memory, 0x30000000)


def test_a_window_over_a_memory_takes_it_away_when_closed(memory: RefsidrvMemory) -> None:
    open_window(memory, DRAM_BASE, TCDM_BASE)
    memory.write(DRAM_BASE, b"still DRAM", HOST)
    assert memory.read(TCDM_BASE, 5, HOST) == bytes(5), "the window is refused silently"
    memory.window_register(WINDOW_MODE.offset + 2, 0)
    assert refuses(memory, DRAM_BASE)


def test_wild_pointers_are_named_errors(memory: RefsidrvMemory) -> None:
    open_window(memory, 0x30000000, DRAM_BASE, kind=1)
    memory.window_register(WINDOW_SCALE.offset + 2, WINDOW_SCALE.encode(SCALE_A=31, SCALE_B=(1 << 32) - 1))
    memory.window_register(WINDOW_TARGET.offset + 2, (1 << 62) * 3 + DRAM_BASE - 8)
    memory.window_register(WINDOW_MODE.offset + 2, mode(0x1000, 1))
    unit = Unit(HART, 1)
    with pytest.raises(ReferenceCrash, match="8 bytes before a RAM, out of bounds") as caught:
        memory.read(0x30000000, 8, unit)
    assert isinstance(caught.value, GuestFault)


# ---- COPY_MEM64


def test_copy_one_by_one(memory: RefsidrvMemory) -> None:
    memory.write(DRAM_BASE, b"AAAAAAAABBBBBBBBCCCCCCCC", HOST)
    memory.copy64(DRAM_BASE, DRAM_BASE + 8, 3, HOST)
    assert memory.read(DRAM_BASE, 32, HOST) == b"A" * 32
    memory.copy64(DRAM_BASE, DRAM_BASE + 0x104, 1, HOST)
    assert memory.read(DRAM_BASE + 0x104, 8, HOST) == b"A" * 8


@pytest.mark.parametrize(
    ("source", "target", "count", "message"),
    [
        (DRAM_BASE + 4, DRAM_BASE, 1, "the source of COPY_MEM64 is 0x40000004, expected a multiple of 8"),
        (0x100, DRAM_BASE, 0, "read of 0 bytes at 0x100 is refused"),
        (DRAM_END - 8, DRAM_BASE, 2, "read of 16 bytes at 0xbffffff8 is refused"),
        (DRAM_BASE, DRAM_END - 8, 2, "write of 16 bytes at 0xbffffff8 is refused"),
        (PERF_COUNTERS_BASE, DRAM_BASE, 65, "read of 520 bytes at 0x20100000 is refused"),
        (PERF_COUNTERS_BASE, DRAM_BASE, 1, "read of 8 bytes at 0x20100000 is refused"),
    ],
)
def test_refused_copies(memory: RefsidrvMemory, source: int, target: int, count: int, message: str) -> None:
    with pytest.raises(AccessFault) as caught:
        memory.copy64(source, target, count, HOST)
    assert message in str(caught.value)


def test_what_was_copied_before_a_refusal_stays(memory: RefsidrvMemory) -> None:
    memory.write(PERF_COUNTERS_BASE + 8 * 63, b"lastslot", HOST)
    memory.copy64(PERF_COUNTERS_BASE, DRAM_BASE, 64, HART0)
    assert memory.read(DRAM_BASE + 8 * 63, 8, HOST) == b"lastslot"
    memory.write(DRAM_BASE, b"?" * 8, HOST)
    with pytest.raises(AccessFault):
        memory.copy64(PERF_COUNTERS_BASE + 8 * 31, DRAM_BASE, 2, HOST)
    assert memory.read(DRAM_BASE, 8, HOST) == b"?" * 8


# ---- ports


def test_ports_fault_with_the_guest_address(memory: RefsidrvMemory) -> None:
    port = memory.port(0)
    for call, message in (
        (lambda: port.load(8, 8), "load of 8 bytes at 0x8 is refused"),
        (lambda: port.store(1 << 56, 8, 0), "store of 8 bytes at 0x100000000000000 is refused"),
        (lambda: port.fetch(DMA_BASE), "fetch of 2 bytes at 0x20002000 is refused"),
        (lambda: port.store(DMA_BASE + 24, 4, 0), "store of 4 bytes at 0x20002018 is refused"),
        (lambda: port.load(DMA_BASE + 8, 1), "load of 1 bytes at 0x20002008 is refused"),
    ):
        with pytest.raises(AccessFault, match=message):
            call()


def test_ports_reach_registers(memory: RefsidrvMemory) -> None:
    port = memory.port(2)
    port.store(DMA_BASE + 31 * 8, 8, 0x1_0000_0099)
    assert port.load(DMA_BASE + 31 * 8, 4) == 0x99
    assert memory.read(DMA_BASE + 31 * 8, 8, Unit(HART, 2))[4] == 1
    assert port.page(DMA_BASE, "load") is None
    assert port.page(1 << 57, "load") is None
    open_window(memory, 0x100, DMA_BASE, size=0x100)
    assert refuses(memory, 0x118, 8, HOST) is False
    with pytest.raises(AccessFault):
        port.load(0x118, 8)


def test_pages_hold_for_the_byte_that_was_asked_for(memory: RefsidrvMemory) -> None:
    """A window that starts inside a page: its neighbours in the page show what lies before the target."""
    open_window(memory, 0x30000100, DRAM_BASE + 0x2000)
    addend = memory.port(0).page(0x30000108, "store")
    plain = memory.port(0).page(DRAM_BASE, "store")
    assert addend is not None
    assert plain is not None
    assert (0x30000000 + addend) - (DRAM_BASE + 0x2000 + plain) == -0x100


def test_strings(memory: RefsidrvMemory) -> None:
    port = memory.port(0)
    text = b"x" * 5000
    memory.write(DRAM_BASE, text + b"\0more", HOST)
    assert port.string(DRAM_BASE) == text
    memory.write(DRAM_END - 3, b"end", HOST)
    assert port.string(DRAM_END - 3) == b"end", "the reference finds zeros behind its memory"
    memory.write(PERF_COUNTERS_BASE + 8 * 40, b"abcdefgh", HOST)
    memory.write(PERF_COUNTERS_BASE + 8 * 41, b"ij\0\0\0\0\0\0", HOST)
    assert port.string(PERF_COUNTERS_BASE + 8 * 40) == b"abcdefghij"
    assert port.string(PERF_COUNTERS_BASE + 8 * 40 + 1) is None
    assert port.string(0x8) is None


# ---- G1


def test_rom_is_written_by_the_host_alone() -> None:
    memory = RefsidrvMemory(PerfCounters(lambda index: None), family="g")
    memory.write(TCIM_BASE, b"\x13\0\0\0\0\0\0\0", HOST)
    assert memory.port(0).fetch(TCIM_BASE) == 0x13
    assert memory.port(0).load(TCIM_BASE, 4) == 0x13
    assert memory.port(0).page(TCIM_BASE, "load") is None
    with pytest.raises(AccessFault):
        memory.port(0).store(TCIM_BASE, 4, 0)
    assert memory.view(TCIM_BASE, 8) is not None
    with pytest.raises(AccessFault):
        memory.write(DMA_BASE, bytes(8), HOST)
    memory.open_g1_windows(0xB8010000, 0x98010000)
    memory.write(0x20800000, b"hart", Unit(HART, 63))
    assert memory.read(0x98010000 + 63 * 0x800000, 4, HOST) == b"hart"
    memory.write(0x10000, b"code", HOST)
    assert memory.read(0xB8010000, 4, HOST) == b"code"
