"""The small machine model: memory below 4 GiB, pointers of 32 bits, apertures of 64 KiB, signals of 32 bits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from softcard.core.errors import BeyondModel, ModelBug, WireError
from softcard.core.rule import Rule
from softcard.device.hsa.device import HsaDevice
from softcard.device.hsa.events import DoorbellRung, Lint
from softcard.device.hsa.exceptions import QueueError
from softcard.device.hsa.memory.segments import Segment, is_in, null, sh_mem_bases, swizzled, to_flat, to_segment
from softcard.device.hsa.queues.records import AmdSignal, QueueProperties
from softcard.device.hsa.queues.signals import legacy_value
from softcard.device.hsa.rules import IS_PTR64
from tests.device.hsa.rig import COUNT, FLAT_SCRATCH, KERNARG, WAVE_OFFSET, Bench, dispatch, flat_scratch

Make = Callable[..., Bench]
QUEUE = "enable_sgpr_queue_ptr"
LIMIT = 1 << 32
SUMS = {
    "gfx700": ("v_add_i32 {0}, vcc,", "v_sub_i32 {0}, vcc,"), "gfx803": ("v_add_u32 {0}, vcc,", "v_sub_u32 {0}, vcc,"),
    "gfx900": ("v_add_u32 {0},", "v_sub_u32 {0},"),
}  # fmt: skip
every_agent = pytest.mark.parametrize("agent", SUMS)


@pytest.fixture(params=["reference", "jit"])
def small(bench: Make, request: pytest.FixtureRequest) -> Make:
    """Makes benches in the small machine model, for either engine."""
    return lambda *arguments, **options: bench(*arguments, machine_model="small", engine=request.param, **options)


def of(agent: str, text: str) -> str:
    """Assembly of a generation: ``add v1,`` and ``sub v1,``, and ``@n``, a byte offset of a scalar load."""
    for register in range(20):
        add, sub = (each.format(f"v{register}") for each in SUMS[agent])
        text = text.replace(f"add v{register},", add).replace(f"sub v{register},", sub)
    for offset in range(0, 72, 4):
        text = text.replace(f"@{offset};", hex(offset // 4 if agent == "gfx700" else offset))
    return text


def run(
    rig: Bench, text: str, enable: Sequence[str] = (KERNARG,), rounds: int = 1, rsrc2: int = 0, **fields: int
) -> np.ndarray:
    """The 256 dwords at the kernarg address behind a kernel; s_endpgm is added."""
    kernel = rig.kernel(of(rig.device.agent.name, text + "\ns_endpgm"), enable, vgprs=20, rsrc2=rsrc2)
    address, words = rig.words(256)
    for _ in range(rounds):
        rig.queue.submit(dispatch(kernel, address, **fields))
    assert rig.errors == []
    return words


# ---- where things are ------------------------------------------------------------------------------------------------


@every_agent
def test_everything_lies_below_4_gib(small: Make, agent: str) -> None:
    rig = small(agent, 1024)
    device, shared = rig.device, np.zeros(5000, np.uint8)
    device.set_scratch(rig.queue, 64)
    record = rig.queue.record()
    places = [
        device.doorbell_base, rig.queue.address, rig.queue.ring_address, rig.queue.doorbell.address,
        rig.queue.inactive_signal.address, device.create_signal().address, device.allocate(1 << 20),
        device.map(shared), rig.kernel(), record.hsa_queue.base_address, record.scratch_backing_memory_byte_size,
        device.hidden_private_base + record.scratch_backing_memory_location, rig.queue.doorbell.record().value,
    ]  # fmt: skip
    assert max(places) < LIMIT
    ends = [mapped.end for mapped in device.memory]
    apertures = range(device.apertures.shared_base, device.apertures.private_base + 0x1_0000)
    assert max(ends) < LIMIT
    assert not any(mapped.base < apertures.stop and apertures.start < mapped.end for mapped in device.memory)
    with pytest.raises(ModelBug, match="must lie below 0x100000000"):
        device.memory.map(LIMIT, bytearray(4096))


def test_memory_comes_to_an_end() -> None:
    device = HsaDevice("gfx900", machine_model="small")
    for _ in range(2):
        device.allocate(0x7000_0000)
    with pytest.raises(BeyondModel, match="1879048192 bytes of device memory: no device addresses are left"):
        device.allocate(0x7000_0000)


@every_agent
def test_queue_fields(small: Make, agent: str) -> None:
    record = small(agent).queue.record()
    assert not record.queue_properties & QueueProperties.IS_PTR64
    assert record.group_segment_aperture_base_hi == 0x8000_0000
    assert record.private_segment_aperture_base_hi == 0x8001_0000
    large = Bench(agent)
    assert large.queue.properties & QueueProperties.IS_PTR64


def test_settings_name_the_models() -> None:
    with pytest.raises(WireError, match="machine_model is 'medium', expected one of large, small"):
        HsaDevice("gfx900", machine_model="medium")


# ---- kernels ---------------------------------------------------------------------------------------------------------


@every_agent
@pytest.mark.parametrize("rounds", [1, 4])
def test_pointers_of_32_bits(small: Make, agent: str, rounds: int) -> None:
    """Arguments are pointers of 4 bytes; the register behind each of them holds rubbish, as s1 does."""
    rig = small(agent)
    kernel = rig.kernel(
        of(
            agent,
            """
            s_load_dword s4, s[0:1], @0;
            s_mov_b32 s1, -1
            s_load_dword s5, s[0:1], @4;
            v_lshlrev_b32 v0, 2, v0
            v_mov_b32 v3, 0xdead
            v_mov_b32 v5, 0xdead
            s_waitcnt lgkmcnt(0)
            add v2, s4, v0
            add v4, s5, v0
            flat_load_dword v1, v[2:3]
            s_waitcnt vmcnt(0) lgkmcnt(0)
            add v1, v1, v1
            flat_store_dword v[4:5], v1
            s_endpgm
            """,
        )
    )
    (source, given), (target, got) = rig.words(), rig.words()
    kernarg, arguments = rig.words()
    arguments[:2] = source, target
    given[:] = np.arange(64)
    for _ in range(rounds):
        got[:] = 0
        rig.queue.submit(dispatch(kernel, kernarg, grid_size_x=64, workgroup_size_x=64))
        assert rig.errors == []
        assert got.tolist() == [2 * n for n in range(64)]


@every_agent
def test_first_registers_have_no_upper_halves(small: Make, agent: str) -> None:
    enable = ["enable_sgpr_dispatch_ptr", QUEUE, KERNARG]
    rig = small(agent)
    dump = "\n".join(
        f"v_mov_b32 v2, s{register}\nflat_store_dword v[0:1], v2\nadd v0, 4, v0" for register in (0, 1, 2, 3, 4, 5)
    )
    words = run(rig, f"v_mov_b32 v0, s4\n{dump}", enable)
    assert words[[1, 3, 5]].tolist() == [0, 0, 0]
    assert words[[0, 2]].tolist() == [rig.queue.packet_address(0), rig.queue.address]


ADDRESSES = (
    0,
    4,
    0xFFFC,
    0x1_0000,
    0x7FFF_FFFC,
    0x8000_0000,
    0x8000_FFFC,
    0x8001_0000,
    0x8001_0040,
    0x8002_0000,
    0xFFFF_FFFF,
)
CONVERSIONS = """
    ; s[0:1] queue, s[2:3] kernarg: an address for each lane, then a row of results for each conversion
    s_load_dword s4, s[0:1], @64;
    s_load_dword s5, s[0:1], @68;
    v_lshlrev_b32 v0, 2, v0
    add v0, s2, v0
    flat_load_dword v2, v[0:1]
    s_waitcnt vmcnt(0) lgkmcnt(0)
    {body}
"""


def conversions() -> Iterator[tuple[str, Callable[..., int], Segment]]:
    """What the document says, as instructions on v2 with the result in v3; the library's function; the segment."""
    for segment, base in ((Segment.GROUP, "s4"), (Segment.PRIVATE, "s5"), (Segment.KERNARG, "s2")):
        yield f"add v3, {base}, v2", to_flat, segment
        yield f"v_mov_b32 v4, {base}\nsub v3, v2, v4", to_segment, segment
        yield (
            f"add v3, {base}, v2\nv_cmp_ne_u32 vcc, -1, v2\nv_cndmask_b32 v3, 0, v3, vcc",
            lambda *given, **more: to_flat(*given, **more, null_check=True),
            segment,
        )
        yield (
            f"v_mov_b32 v4, {base}\nsub v3, v2, v4\nv_mov_b32 v5, -1\nv_cmp_ne_u32 vcc, 0, v2\n"
            "v_cndmask_b32 v3, v5, v3, vcc",
            lambda *given, **more: to_segment(*given, **more, null_check=True),
            segment,
        )
    for segment, base in ((Segment.GROUP, "s4"), (Segment.PRIVATE, "s5")):
        check = (
            f"v_and_b32 v4, 0xffff0000, v2\nv_cmp_eq_u32 vcc, {base}, v4\nv_mov_b32 v5, 1\nv_cndmask_b32 v3, 0, v5, vcc"
        )
        yield check, lambda *given, kernarg: is_in(*given), segment


@every_agent
def test_conversions_in_kernel_code(small: Make, agent: str) -> None:
    """stof, ftos and segmentp as the document spells them, with the aperture fields of amd_queue_t."""
    rig = small(agent)
    found = list(conversions())
    body = "\n".join(
        f"{text}\nadd v0, 0x80, v0\nflat_store_dword v[0:1], v3" for text, _, _ in found
    )  # fmt: skip
    kernel = rig.kernel(of(agent, CONVERSIONS.format(body=body) + "s_endpgm"), [QUEUE, KERNARG], vgprs=8)
    address, words = rig.words(32 * (len(found) + 1))
    words[: len(ADDRESSES)] = ADDRESSES
    rig.queue.submit(dispatch(kernel, address, grid_size_x=32, workgroup_size_x=32))
    assert rig.errors == []
    apertures = rig.device.apertures
    for row, (_, function, segment) in enumerate(found, 1):
        expected = [int(function(apertures, segment, each, kernarg=address)) for each in ADDRESSES]
        assert words[32 * row : 32 * row + len(ADDRESSES)].tolist() == expected
    assert null(Segment.GROUP) in ADDRESSES


@every_agent
@pytest.mark.parametrize("rounds", [1, 3])
def test_group_by_flat(small: Make, agent: str, rounds: int) -> None:
    """What flat instructions store to the group segment DS instructions read, and the other way round."""
    rig = small(agent)
    words = run(
        rig,
        """
        s_load_dword s4, s[0:1], @64;
        s_mov_b32 m0, -1
        v_lshlrev_b32 v0, 2, v0
        v_mov_b32 v3, -1
        s_waitcnt lgkmcnt(0)
        add v2, s4, v0
        flat_store_dword v[2:3], v0
        s_waitcnt vmcnt(0) lgkmcnt(0)
        ds_read_b32 v4, v0
        s_waitcnt lgkmcnt(0)
        add v4, 1, v4
        ds_write_b32 v0, v4 offset:256
        s_waitcnt lgkmcnt(0)
        add v2, 0x100, v2
        flat_load_dword v5, v[2:3]
        s_waitcnt vmcnt(0) lgkmcnt(0)
        add v2, s2, v0
        flat_store_dword v[2:3], v5
        """,
        [QUEUE, KERNARG],
        rounds,
        grid_size_x=64,
        workgroup_size_x=64,
        group_segment_size=512,
    )
    assert words[:64].tolist() == [4 * n + 1 for n in range(64)]


@every_agent
@pytest.mark.parametrize("rounds", [1, 3])
def test_private_by_flat(small: Make, agent: str, rounds: int) -> None:
    """Private memory through its aperture: every lane has its own, swizzled in the queue's."""
    rig = small(agent)
    words = run(
        rig,
        flat_scratch(agent, 4)
        + """
        s_load_dword s4, s[0:1], @68;
        v_lshlrev_b32 v0, 2, v0
        v_mov_b32 v3, -1
        s_waitcnt lgkmcnt(0)
        v_mov_b32 v2, s4
        add v2, 8, v2
        flat_store_dword v[2:3], v0
        s_waitcnt vmcnt(0) lgkmcnt(0)
        flat_load_dword v5, v[2:3]
        s_waitcnt vmcnt(0) lgkmcnt(0)
        add v2, s2, v0
        flat_store_dword v[2:3], v5
        """,
        [QUEUE, KERNARG, FLAT_SCRATCH],
        rounds,
        WAVE_OFFSET,
        grid_size_x=64,
        workgroup_size_x=64,
        private_segment_size=16,
    )
    assert words[:64].tolist() == [4 * n for n in range(64)]
    memory = rig.device.memory.read(rig.queue.scratch_block, 1024)
    assert [memory[swizzled(8, lane)] for lane in range(64)] == [4 * n for n in range(64)]


def test_hardware_registers_of_the_apertures(small: Make) -> None:
    """GFX9 has them as operands and in SH_MEM_BASES."""
    rig = small("gfx900")
    words = run(
        rig,
        """
        s_mov_b32 s4, src_shared_base
        s_mov_b64 s[6:7], src_private_base
        s_getreg_b32 s5, hwreg(HW_REG_SH_MEM_BASES)
        v_mov_b32 v0, s0
        v_mov_b32 v2, s4
        v_mov_b32 v3, s5
        v_mov_b32 v4, s6
        v_mov_b32 v5, s7
        flat_store_dwordx4 v[0:1], v[2:5]
        """,
    )
    apertures = rig.device.apertures
    assert words[:4].tolist() == [apertures.shared_base, sh_mem_bases(apertures, 9), apertures.private_base, 0]


@every_agent
def test_strict_memory_has_pointers_of_32_bits_too(bench: Make, agent: str) -> None:
    rig = bench(agent, machine_model="small", coherence="strict")
    words = run(
        rig,
        """
        v_lshlrev_b32 v2, 2, v0
        add v2, s0, v2
        v_mov_b32 v3, -1
        flat_store_dword v[2:3], v0
        s_waitcnt vmcnt(0) lgkmcnt(0)
        """,
        grid_size_x=64,
        workgroup_size_x=64,
    )
    assert words[:64].tolist() == list(range(64))


# ---- signals and doorbells -------------------------------------------------------------------------------------------


@every_agent
@pytest.mark.parametrize("machine_code", [True, False])
def test_completion_signals_count_in_32_bits(small: Make, agent: str, machine_code: bool) -> None:
    """The upper half of the field is not used, and stays what it is."""
    rig = small(agent, machine_code=machine_code)
    kernel, (address, words), done = rig.kernel(COUNT), rig.words(), rig.device.create_signal(2)
    upper = done.address + AmdSignal.offset_of("value") + 4
    rig.device.memory.write(upper, b"\x11\x22\x33\x44")
    for left in (1, 0, -1, -2, -3):
        rig.queue.submit(dispatch(kernel, address, done))
        assert done.load() == left
    assert rig.device.memory.read(upper, 4) == b"\x11\x22\x33\x44"
    assert words[0] == 5


@every_agent
def test_signals_from_kernels(small: Make, agent: str) -> None:
    """A kernel decrements a signal: an atomic of 32 bits on its value."""
    rig = small(agent)
    signal = rig.device.create_signal(60)
    kernel = rig.kernel(
        of(
            agent,
            """
            s_load_dword s4, s[0:1], @0;
            s_waitcnt lgkmcnt(0)
            s_add_u32 s4, s4, 8
            v_mov_b32 v0, s4
            v_mov_b32 v1, -1
            v_mov_b32 v2, 1
            flat_atomic_sub v[0:1], v2
            s_endpgm
            """,
        )
    )
    address, words = rig.words()
    words[0] = signal.address
    rig.queue.submit(dispatch(kernel, address, grid_size_x=64, workgroup_size_x=64))
    assert rig.errors == []
    assert signal.load() == -4
    assert signal.record().value == 0xFFFF_FFFC


@every_agent
def test_doorbells_from_kernels(small: Make, agent: str) -> None:
    """The legacy sequence of the small model, but for its lock: min(write_dispatch_id, read_dispatch_id + size)."""
    rig = small(agent, 16, listen=True)
    text = """
        ; s[0:1] queue, s[2:3] kernarg: the hardware doorbell
        s_load_dword s4, s[2:3], @0;
        s_load_dword s5, s[0:1], @56;           ; write_dispatch_id
        s_load_dword s6, s[0:1], {read}         ; read_dispatch_id
        s_load_dword s7, s[0:1], @24;           ; hsa_queue.size
        s_waitcnt lgkmcnt(0)
        s_add_u32 s6, s6, s7
        s_min_u32 s5, s5, s6
        {legacy}
        v_mov_b32 v0, s4
        v_mov_b32 v1, -1
        v_mov_b32 v2, s5
        v_mov_b32 v3, 0
        {store}
        s_endpgm
    """
    gfx7 = "s_lshl_b32 s7, s7, 1\ns_sub_u32 s7, s7, 1\ns_and_b32 s5, s5, s7\ns_lshl_b32 s5, s5, 4"
    legacy = {"gfx700": gfx7, "gfx803": "", "gfx900": "s_sub_u32 s5, s5, 1"}[agent]
    store = "flat_store_dwordx2 v[0:1], v[2:3]" if agent == "gfx900" else "flat_store_dword v[0:1], v2"
    read = "0x20" if agent == "gfx700" else "0x80"
    kernel = rig.kernel(of(agent, text.format(legacy=legacy, store=store, read=read)), [QUEUE, KERNARG])
    address, words = rig.words()
    words[0] = rig.queue.doorbell.record().value
    done = rig.device.create_signal(2)
    second = rig.kernel()
    first = rig.queue.add_write_index(2)
    rig.queue.write_packet(first + 1, dispatch(second, signal=done))
    rig.queue.write_packet(first, dispatch(kernel, address, done))
    hardware = legacy_value(1, 16, 7 if agent == "gfx700" else 8)
    size = 8 if agent == "gfx900" else 4
    value = 0 if agent == "gfx900" else hardware
    rig.device.memory.write(int(words[0]), value.to_bytes(size, "little"))
    assert rig.errors == []
    assert done.load() == 0
    assert [event.limit for event in rig.reported(DoorbellRung)] == [1, 2]


# ---- what is refused -------------------------------------------------------------------------------------------------


def refused(rig: Bench, kernel: int) -> Rule | None:
    """The rule of the queue error that a packet with this kernel makes."""
    queue = rig.new_queue()
    queue.submit(dispatch(kernel))
    code, error = rig.errors.pop()
    assert code == QueueError.INVALID_CODE
    rule: Rule | None = getattr(error, "rule", None)
    return rule


@every_agent
def test_is_ptr64(bench: Make, agent: str) -> None:
    """1 is refused in the small model; a kernel descriptor's code has pointers of 64 bits."""
    small, large = bench(agent, machine_model="small"), bench(agent)
    assert refused(small, small.kernel(ptr64=True)) is IS_PTR64
    descriptor = small.device.allocate(512)
    small.device.memory.write(descriptor + 16, (256).to_bytes(8, "little"))
    assert refused(small, descriptor) is IS_PTR64
    for rig, kernel in ((small, small.kernel(ptr64=False)), (large, large.kernel(ptr64=True))):
        rig.queue.submit(dispatch(kernel))
        assert rig.errors == []


@every_agent
def test_is_ptr64_of_hand_written_kernels_in_the_large_model(bench: Make, agent: str) -> None:
    """Assemblers leave it 0: the kernel runs with 64-bit pointers, and who listens hears of it."""
    rig = bench(agent, listen=True)
    kernel, (address, words) = rig.kernel(COUNT, ptr64=False), rig.words()
    assert address > 1 << 32
    rig.queue.submit(dispatch(kernel, address))
    assert (rig.errors, words[0]) == ([], 1)
    (lint,) = rig.reported(Lint)
    assert (lint.check, lint.rule) == ("is-ptr64", IS_PTR64)
    assert "packet 0: the kernel's is_ptr64 is 0, but pointers have 64 bits in the large machine model" in str(lint)


def test_is_ptr64_is_checked_again(bench: Make) -> None:
    """A header that changes between packets of a kept launch is seen."""
    rig = bench("gfx803", machine_model="small")
    kernel, (address, words) = rig.kernel(COUNT), rig.words()
    for _ in range(5):
        rig.queue.submit(dispatch(kernel, address))
    rig.device.memory.write(kernel + 0x3A, b"\x08")
    rig.queue.submit(dispatch(kernel, address))
    assert rig.errors[0][0] == QueueError.INVALID_CODE
    assert re.match(
        "the kernel's is_ptr64 is 1, but pointers have 32 bits in the small machine model: "
        r"SH_MEM_CONFIG = 0x\w+: ADDRESS_MODE=1 \(GPUVM32\)",
        str(rig.errors[0][1]),
    )
    assert words[0] == 5


@pytest.mark.parametrize("rounds", [0, 5])
def test_arguments_beyond_4_gib(small: Make, rounds: int) -> None:
    """No launch, kept or not, takes an address whose upper half instructions would not look at."""
    rig = small("gfx900")
    kernel, (address, words) = rig.kernel(COUNT), rig.words()
    for _ in range(rounds):
        rig.queue.submit(dispatch(kernel, address))
    rig.queue.submit(dispatch(kernel, address + LIMIT))
    ((code, error),) = rig.errors
    assert code == QueueError.INVALID_PACKET
    assert str(error).startswith(
        f"kernarg_address {address + LIMIT:#x} does not fit the 32 bits of the small machine model"
    )
    assert words[0] == rounds


def test_private_memory_that_does_not_fit(small: Make) -> None:
    """More than the address space has is a queue error, and the queue keeps none."""
    rig = small("gfx803")
    rig.queue.submit(dispatch(rig.kernel(), private_segment_size=0x1_F000))
    ((code, error),) = rig.errors
    assert code == QueueError.INSUFFICIENT_SCRATCH
    assert "the queue has room for 0" in str(error)
    assert rig.queue.record().scratch_backing_memory_byte_size == 0


@every_agent
def test_addresses_never_wrap(small: Make, agent: str) -> None:
    """The last dword of the address space is nobody's, and what would lie behind it is not at 0."""
    rig = small(agent)
    rig.queue.submit(
        dispatch(
            rig.kernel("v_mov_b32 v0, -2\nflat_load_dword v2, v[0:1]\ns_endpgm"), grid_size_x=64, workgroup_size_x=64
        )
    )
    ((code, error),) = rig.errors
    assert code == QueueError.MEMORY_APERTURE_VIOLATION
    assert str(error).startswith("read of 4 bytes at 0xfffffffe: no memory there")


@every_agent
def test_private_faults_name_the_pointer(small: Make, agent: str) -> None:
    rig = small(agent)
    text = flat_scratch(agent, 0) + "v_mov_b32 v0, 0x80010010\nflat_load_dword v2, v[0:1]\ns_endpgm"
    rig.queue.submit(dispatch(rig.kernel(text, [FLAT_SCRATCH], rsrc2=WAVE_OFFSET), private_segment_size=16))
    ((_, error),) = rig.errors
    assert "read of 4 bytes at 0x80010010 is out of bounds: a lane has 0x10 bytes of private memory" in str(error)
