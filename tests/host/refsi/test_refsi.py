"""Programs, buffers and launches on a virtual RefSi M1."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softcard.core.errors import AccessFault, GuestFault, RuleError, SoftcardError, WireError
from softcard.device.refsi.registers import Counter
from softcard.engine.riscv.jit.engine import JitEngine
from softcard.host.refsi import refsi
from softcard.host.refsi.refsi import RefSi, demo_kernels
from softcard.ir import llvm
from tests.image.riscv.test_program import elf64

VECTORS = Path(__file__).parents[2] / "vectors" / "refsi"
DRAM = 0x5000_0000


@pytest.fixture(params=["spec", "refsidrv"])
def device(request: pytest.FixtureRequest) -> RefSi:
    found = RefSi.open(profile=request.param, engine="reference")
    found.load_elf(demo_kernels())
    return found


def test_docstrings() -> None:
    assert doctest.testmod(refsi).failed == 0


# ---- buffers -------------------------------------------------------------------------------------------------------


def test_buffers_are_device_memory(device: RefSi) -> None:
    buffer = device.array([[1, 2], [3, 4]], np.int16)
    assert (buffer.shape, buffer.dtype, buffer.nbytes) == ((2, 2), np.dtype(np.int16), 8)
    assert device.read(buffer.address, 8) == bytes((1, 0, 2, 0, 3, 0, 4, 0))
    device.write(buffer.address, b"\x09")
    assert buffer.array[0, 0] == 9
    assert repr(buffer) == f"<Buffer int16[2, 2] at {buffer.address:#x}>"


def test_zeros_over_old_data(device: RefSi) -> None:
    with device.array(np.ones(100)) as old:
        address = old.address
    new = device.zeros(100, np.float64)
    assert new.address == address
    assert not new.array.any()


def test_freed_buffers(device: RefSi) -> None:
    buffer = device.empty(4)
    buffer.free()
    buffer.free()
    assert repr(buffer) == "<Buffer float32[4] at freed>"
    with pytest.raises(RuleError, match="the buffer was freed"):
        device.launch("vector_add", 1, [buffer])


def test_empty_buffers(device: RefSi) -> None:
    assert device.empty((0, 3)).array.shape == (0, 3)


@pytest.mark.parametrize("dtype", [object, ">i4", "V0"])
def test_arrays_that_no_device_can_hold(device: RefSi, dtype: Any) -> None:
    with pytest.raises(WireError, match="cannot be in device memory, expected little-endian elements of fixed size"):
        device.empty(3, dtype)


# ---- programs ------------------------------------------------------------------------------------------------------


def test_programs() -> None:
    device = RefSi.open(engine="reference")
    with pytest.raises(RuleError, match="the program is not loaded: call load_elf first"):
        device.kernel("vector_add")
    program = device.load_elf(VECTORS / "kernels.elf")
    assert {"k_vecadd", "k_slice", "k_barrier"} <= set(program.kernels)
    assert device.kernel("k_vecadd").entry == 0x10002
    with pytest.raises(WireError, match=r"no symbol 'k_vecad' .* did you mean 'k_vecadd'"):
        device.launch("k_vecad", 1)


def test_a_new_program_replaces_the_old_one() -> None:
    device = RefSi.open(engine="reference")
    device.load_elf(demo_kernels())
    old = device.kernel("vector_add")
    device.load_elf((VECTORS / "kernels.elf").read_bytes())
    with pytest.raises(RuleError, match="a new program replaces the loaded one"):
        device.launch(old, 1)
    out = device.zeros(16, np.int32)
    device.launch("k_vecadd", 4, [device.array(np.arange(16, dtype=np.int32))] * 2 + [out, 4])
    assert out.array.tolist() == list(range(0, 32, 2))


def test_programs_outside_of_the_window() -> None:
    device = RefSi.open(engine="reference")
    code = bytes.fromhex("8280")  # c.jr ra
    start = 64 + 56 * 2
    device.load_elf(elf64([(1, 7, start, DRAM, 2, 0x200000), (1, 7, start, 0x1000_0000, 2, 2)], body=code))
    assert device.read(DRAM, 4) == code + b"\0\0"
    assert device.read(0x1000_0000, 2) == code


@pytest.mark.parametrize("address", [0x2000_2000, 0x100, 0x7FF_FFFF, 0xBFFF_FFFF])
def test_programs_that_fit_nowhere(address: int) -> None:
    device = RefSi.open(engine="reference")
    before = device.allocate(8)
    device.free(before)
    with pytest.raises(WireError, match=f"ELF segment at {address:#x}"):
        device.load_elf(elf64([(1, 7, 0, address, 8, 8)]))
    assert device.allocate(8) == before


def test_what_is_no_program(device: RefSi) -> None:
    with pytest.raises(WireError, match="expected 7f 45 4c 46"):
        device.load_elf(b"hello")
    assert device.launch("hello", 0).status.ok


def test_stacks_are_the_harts_own(device: RefSi) -> None:
    device.load_elf(VECTORS / "kernels.elf")
    device.launch_slices("k_slice", 4)
    seen = np.frombuffer(device.read(DRAM, 4 * 64), np.uint64).reshape(4, 8)
    assert seen[:, 4].tolist() == [0x1408_0000] * 4
    assert seen[:, 5].tolist() == [0, 1, 2, 3]


# ---- launches ------------------------------------------------------------------------------------------------------


def test_arrays_are_copied_in_and_out(device: RefSi) -> None:
    a, b = np.arange(32, dtype=np.int32), np.arange(32, dtype=np.int32)[::-1]
    c = np.zeros((4, 8), dtype=np.int32)
    result = device.launch("vector_add", 4, [a, b, c, 8])
    assert (c == 31).all()
    assert result.kernel == "vector_add"
    assert result.instructions == result.status.steps > 100


def test_only_writable_arrays_come_back(device: RefSi) -> None:
    a = np.arange(8, dtype=np.int32)
    a.flags.writeable = False
    device.launch("vector_add", 1, [a, a, a, 8])
    assert a.tolist() == list(range(8))
    b = np.arange(8, dtype=np.int32)
    device.launch("vector_add", 1, [b, b, b, 8])
    assert b.tolist() == list(range(0, 16, 2))


def test_launches_leave_no_memory_behind(device: RefSi) -> None:
    before = device.allocate(8)
    device.free(before)
    device.launch("vector_add", 1, [np.zeros(8, np.int32)] * 3 + [8])
    with pytest.raises(GuestFault):
        device.launch("broken", 8, [np.zeros(8, np.int32), 0])
    with pytest.raises(WireError):
        device.launch("vector_add", 1, [np.zeros(8, np.int32), "text"])  # type: ignore[list-item]
    with pytest.raises(WireError):
        device.launch_slices("vector_add", -1, 1, [np.zeros(8, np.int32)])
    assert device.allocate(8) == before


def test_numbers_travel_as_bits(device: RefSi) -> None:
    y = device.array(np.ones(4, np.float32))
    device.launch("saxpy", 1, [np.float32(-2.5), np.full(4, 2, np.float32), y, np.int64(4)])
    assert y.array.tolist() == [-4.0] * 4
    out = np.zeros(2, np.int32)
    device.launch("vector_add", 1, [np.array([-5, 5], np.int32), np.zeros(2, np.int32), out, np.uint8(2)])
    assert out.tolist() == [-5, 5]


def test_every_kind_of_number() -> None:
    from softcard.host.refsi.launch import Arguments

    arguments = Arguments(RefSi.open(engine="reference"))
    for number in (1, -1, True, 1.5, np.float32(1.5), np.int8(-1), np.uint16(7), np.bool_(True), np.float16(1)):
        arguments.add(number)
    ones = (1 << 64) - 1
    assert arguments.values == [1, ones, 1, 0x3FF8000000000000, 0x3FC00000, ones, 7, 1, 0x3C00]
    assert arguments.packed().hex() == (
        "0100000000000000"
        + "ff" * 8
        + "0100000000000000"
        + "000000000000f83f"
        + "0000c03f"
        + "ff00"
        + "0700"
        + "0100003c"
    )


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ("text", "a str cannot be passed, expected a number, an array or a Buffer, at argument 1"),
        (None, "a NoneType cannot be passed"),
        (1 << 64, "integer 0x10000000000000000 does not fit 64 bits"),
        (-(1 << 63) - 1, "does not fit 64 bits"),
        (np.complex64(1), "a complex64 cannot be passed, expected an integer or float of at most 64 bits"),
        (np.longdouble(1), "cannot be passed"),
        (np.array(["a"], object), "cannot be in device memory"),
    ],
)
def test_arguments_that_cannot_be_passed(device: RefSi, argument: Any, text: str) -> None:
    with pytest.raises(WireError, match=text):
        device.launch("vector_add", 1, [0, argument])


def test_arrays_that_overlap(device: RefSi) -> None:
    data = np.zeros(16, np.int32)
    with pytest.raises(WireError, match=r"the array shares memory with argument 0: pass a copy, .* at argument 1"):
        device.launch("vector_add", 1, [data[:8], data[4:12], 0, 0])


def test_grids(device: RefSi) -> None:
    out = np.zeros((6, 5), np.uint32)
    device.launch("mandelbrot", (5, 6), [out, 5, 6, 20])
    assert out.max() == 20
    assert out.min() >= 1
    again = np.zeros((6, 5), np.uint32)
    device.launch("mandelbrot", (5, 3, 2), [again, 5, 6, 20])
    assert (again == out).all()


@pytest.mark.parametrize(
    ("grid", "count", "text"),
    [
        ((), 0, r"the grid is \(\), expected 1 to 3 sizes"),
        ((1, 1, 1, 1), 0, r"the grid is \(1, 1, 1, 1\), expected 1 to 3 sizes of 0 or more"),
        (-1, 0, "sizes of 0 or more"),
        (1, 8, "at most 7 arguments, not 8"),
        ((1, 1), 7, r"at most 6 arguments besides the slice number, not 7, \[refsi/run-extra-args"),
        ((1, 1 << 20), 0, "the grid has 1048576 slices, expected at most 65536"),
    ],
)
def test_launches_that_cannot_be(device: RefSi, grid: Any, count: int, text: str) -> None:
    with pytest.raises(WireError, match=text):
        device.launch("vector_add", grid, [0] * count)


def test_too_many_slices(device: RefSi) -> None:
    with pytest.raises(WireError, match="the number of slices is 65537, expected 0 to 65536"):
        device.launch_slices("vector_add", 1, 65537)


def test_slices_with_packed_arguments() -> None:
    device = RefSi.open(engine="reference")
    device.load_elf(VECTORS / "kernels.elf")
    device.launch_slices("k_slice", 2, 3, [np.float32(1.5), 7], thread_data=b"template")
    seen = np.frombuffer(device.read(DRAM, 3 * 4096), np.uint64).reshape(3, 512)
    assert seen[:, 0].tolist() == [0, 0, 0]
    assert seen[:, 1].tolist() == [0, 1, 2]
    assert seen[:, 8].tolist() == [1, 1, 1]
    packed, block = int(seen[0, 2]), int(seen[0, 3])
    assert device.read(packed, 24) == bytes.fromhex("0000c03f000000000700000000000000") + b"template"
    assert block == 0x1020_0000
    assert device.read(block + 0x80000, 8) == b"template"


def test_console(device: RefSi) -> None:
    text = device.array(np.frombuffer(b"hello\n\0", np.uint8))
    assert device.launch("hello", 3, [text]).console == b"hello\n" * 3


def test_max_harts(device: RefSi) -> None:
    data = device.zeros(64, np.int64)
    device.launch("vector_add", 4, [data, data, data, 16], max_harts=1)
    before = [device.counters(hart)[Counter.RETIRED_INSN] for hart in range(2)]
    assert before[0] > 0
    assert before[1] == 0


def test_caches_are_synchronized() -> None:
    device = RefSi.open(engine="reference", coherence="strict")
    device.load_elf(demo_kernels())
    data = device.array(np.arange(64, dtype=np.int32))
    for _ in range(2):
        device.launch("vector_add", 4, [data, data, data, 16])
    assert data.array.tolist() == list(range(0, 256, 4))


def test_other_shapes_of_devices() -> None:
    device = RefSi.open(engine="reference", cores=2, harts=3)
    program = device.load_elf(demo_kernels())
    assert program.hart_share == 0x55000
    data = np.ones(60, np.int32)
    device.launch("vector_add", 6, [data, data, data, 10])
    assert (data == 2).all()


# ---- faults --------------------------------------------------------------------------------------------------------


def test_a_fault_says_where(device: RefSi) -> None:
    with pytest.raises(AccessFault) as caught:
        device.launch("broken", 8, [device.zeros(8, np.int32), 5])
    error = caught.value
    assert error.address == 0x2_0000_0014
    assert [(place.kind, place.where, place.what) for place in error.path] == [
        ("pc", "0x102f2", "broken+0xe: c.sw a0,0(a1), a1 = 0x200000014"),
        ("hart", "1", ""),
        ("instance", "5", ""),
        ("command", "4", "RUN_INSTANCES"),
        ("byte", "0x38", ""),
        ("buffer", "2", ""),
        ("kernel", "broken", ""),
    ]


def test_a_kernel_that_gives_up(device: RefSi) -> None:
    with pytest.raises(
        GuestFault, match=r"exited with code 0x7, at pc 0x10\w+ \(gives_up\+0x[48]\), .* kernel gives_up"
    ):
        device.launch("gives_up", 1, [7])


def test_a_kernel_that_never_ends() -> None:
    device = RefSi.open(engine="reference", step_limit=1000)
    device.load_elf(demo_kernels())
    with pytest.raises(SoftcardError, match=r"1.?000 .*kernel crc32"):
        device.launch("crc32", 1, [np.zeros(1000, np.uint8), np.zeros(1, np.uint32), 1000])


def test_a_spec_device_works_on_after_a_fault() -> None:
    device = RefSi.open(engine="reference")
    device.load_elf(demo_kernels())
    with pytest.raises(AccessFault):
        device.launch("broken", 1, [0, 0])
    data = np.ones(4, np.int32)
    device.launch("vector_add", 4, [data, data, data, 1])
    assert (data == 2).all()


# ---- tiers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["spec", "refsidrv"])
@pytest.mark.parametrize(("tier", "kinds"), [("first", {llvm.QUICK}), ("optimised", {llvm.OPTIMISED})])
def test_a_tier_is_kept_to(monkeypatch: pytest.MonkeyPatch, profile: str, tier: str, kinds: set[int]) -> None:
    """All machine code that runs is of that kind, from the first instruction on."""
    if not llvm.is_x86():
        pytest.skip("the JIT of harts is for x86")
    used: set[int] = set()
    compiled = JitEngine._compile
    monkeypatch.setattr(
        JitEngine, "_compile", lambda engine, part, native, kind: used.add(kind) or compiled(engine, part, native, kind)
    )
    with RefSi.open(profile=profile, tier=tier) as device:
        device.load_elf(demo_kernels())
        x, y = device.array(np.arange(64, dtype=np.int32)), device.array(np.full(64, 7, np.int32))
        out = device.zeros(64, np.int32)
        for _ in range(3):
            device.launch("vector_add", 4, [x, y, out, 16])
        assert np.array_equal(out.array, np.arange(64) + 7)
    assert used == kinds


def test_windows_may_be_encoded_as_the_driver_reads_them() -> None:
    for encoding in ("document", "driver"):
        with RefSi.open(window_scale=encoding, check="memory,init,races") as device:
            device.load_elf(demo_kernels())
            a, c = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
            device.launch("vector_add", 4, [a, a, c, 16])
            assert (c == 2 * a).all()
            assert device.findings == []
    with pytest.raises(WireError, match="window_scale='document' cannot be used with profile refsidrv"):
        RefSi.open(profile="refsidrv", window_scale="document")
