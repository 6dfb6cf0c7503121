"""AMD OpenCL 2.0 programs run: all vectors on both engines, arguments of every kind, data, samplers, mistakes."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from softcard.core.errors import AccessFault, RuleError, SoftcardError, WireError
from softcard.device.amdcl2.launch import pack_arguments
from softcard.engine.gcn.strict.coherence import StrictEngine
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.host.amdcl2.program import (
    Addressing,
    ChannelOrder,
    ChannelType,
    DeviceQueue,
    Filter,
    Image,
    ImageKind,
    Local,
    Sampler,
    load,
)
from softcard.image.amdcl2.arguments import Argument, Kind, Space
from softcard.image.amdcl2.build import Described, Features, KernelNeeds, pointer
from softcard.image.amdcl2.build import vector as value
from softcard.image.amdcl2.container import BSS, GLOBAL, READ_ONLY, read_container
from softcard.image.amdcl2.generations import generation_of
from softcard.image.amdcl2.metadata import parse_metadata
from softcard.image.amdcl2.records import SamplerInit
from softcard.image.amdcl2.writer import CodeRelocation, KernelSource, source_of, write_container
from softcard.image.hsa.records import KernelCode
from softcard.image.printf_format import PrintfFormat
from tests.engine.gcn.jit.leaving import exits
from tests.host.amdcl2.rig import DEVICES, FOLDER, NEWEST, SETUP, kernel, parts, program, vector, vectors

every_device = pytest.mark.parametrize("device", DEVICES)
every_engine = pytest.mark.parametrize("engine", ["reference", "jit"])
ARGT = [
    -1, -2, 3, 4_000_000_000, (1, 2, 255), 1 << 63, (-1, 2), (1.5, 2.5, -3.5), range(16), 2.25, bytes(range(20)),
    np.zeros(16, np.float32), Local(64), np.zeros(4, np.int32),
]  # fmt: skip


@every_engine
@pytest.mark.parametrize("name", vectors("vadd"))
def test_vadd(name: str, engine: str) -> None:
    n, total = 300, 320
    a = np.arange(total, dtype=np.uint32)
    b, c = a * 7, np.zeros(total, np.uint32)
    vadd = load(FOLDER / f"{name}.clo", engine).kernel("vadd")
    vadd.run(total, 64, [a, b, c, n])
    assert (c[:n] == a[:n] * 8).all()
    assert not c[n:].any()


def test_arrays_are_reached_without_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where they fill no page."""
    vadd = load(FOLDER / f"{vectors('vadd')[0]}.clo", "jit").kernel("vadd")
    room = np.arange(2000, dtype=np.uint32)
    for part in (room[:320], room[3:323], room[-320:]):
        c = np.zeros(320, np.uint32)
        with exits(monkeypatch) as found:
            vadd.run(320, 64, [part, part, c, 320])
        assert (c == 2 * part).all()
        assert found == []


@every_engine
@pytest.mark.parametrize("name", vectors("vadd"))
def test_vadd_with_longer_code(name: str, engine: str) -> None:
    source = source_of(read_container(vector(name)))
    (vadd,) = source.kernels
    longer = replace(vadd, code=bytes.fromhex("000080bf") * 300 + vadd.code)
    found = load(write_container(replace(source, kernels=(longer,), brig=b"")), engine)
    a, c = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    result = found.kernel("vadd").run(64, 64, [a, a * 3, c, 64])
    assert (c == a * 4).all()
    assert result.statistics.instructions > 300


@every_engine
@pytest.mark.parametrize("name", vectors("scratch"))
def test_scratch_descriptor(name: str, engine: str) -> None:
    out = np.zeros(256, np.uint32)
    load(vector(name), engine).kernel("scratch").run(256, 128, [out])
    assert (out == np.arange(256) % 128 * 128 + 28).all()


@every_engine
@pytest.mark.parametrize("name", vectors("generic"))
def test_flat_generic(name: str, engine: str) -> None:
    out = np.zeros((64, 2), np.uint32)
    load(vector(name), engine).kernel("gener").run(64, 64, [out])
    # Each lane stores to LDS at 16 + 4 * lane and reads 16 | 4 * lane back: the same but for some lanes' neighbours.
    assert (out[:, 0] == 0x51).all()
    assert (out[:, 1] == 0xA7).all()


@every_engine
@pytest.mark.parametrize("name", vectors("gdata"))
def test_gdata(name: str, engine: str) -> None:
    found = load(vector(name), engine)
    result = found.kernel("gdata").run(64, 64, [np.zeros(4, np.uint32)])
    assert result.statistics.groups == 1
    (sampler,) = found.code.samplers
    data = {part.name: part for part in found.code.parts}
    constants, variables, zeros = (found.code.symbols[f"__hsa_section{name}"] for name in (READ_ONLY, GLOBAL, BSS))
    assert found.symbol(f"__hsa_section{READ_ONLY}", 16).view(np.uint32).tolist() == [11, 22, 33, 44]
    assert found.symbol("&input_bc::&_.Samp0", 8).view(np.uint64).tolist() == [sampler]
    assert found.symbol(f"__hsa_section{GLOBAL}", 4).view(np.uint32).tolist() == [5]
    assert data[BSS].size == 64
    code = found.code.kernels["gdata"] - found.code.base + 256
    words = np.frombuffer(bytes(found.code.data[code : code + 48]), np.uint32)[1::2].tolist()
    addresses = [constants + 4, variables, zeros]
    assert words == [half for each in addresses for half in (each & 0xFFFF_FFFF, each >> 32)]


@every_engine
@pytest.mark.parametrize("name", vectors("argtypes"))
def test_user_arguments(name: str, engine: str) -> None:
    rgba = ChannelOrder.CL_RGBA
    images = [
        Image(np.zeros((4, 4, 4), np.uint8), rgba, ChannelType.CL_UNORM_INT8),
        Image(np.zeros((64, 4), np.float32), rgba, ChannelType.CL_FLOAT, ImageKind.BUFFER_1D),
    ]
    arguments = [*ARGT, *images, Sampler(), DeviceQueue(), (1.0, 2.0, 3.0), -7]
    result = load(vector(name), engine).kernel("argt").run((8, 4, 2), None, arguments)
    assert result.statistics.groups == 2 * 2 * 2


# ---- what kernels see in the argument buffer ---------------------------------------------------------------------


DUMP = """
    v_lshlrev_b32 v1, 2, v0
    v_mov_b32 v3, s7
    {add} v2, vcc, s6, v1
    {addc} v3, vcc, 0, v3, vcc
    LOAD
    flat_load_dword v4, v[2:3]
    s_waitcnt vmcnt(0) lgkmcnt(0)
    v_mov_b32 v3, s17
    {add} v2, vcc, s16, v1
    {addc} v3, vcc, 0, v3, vcc
    flat_store_dword v[2:3], v4
    s_endpgm
"""
LOADS = {64: "s_load_dwordx2 s[16:17], s[6:7], {o:12}", 32: "s_load_dword s16, s[6:7], {o:6}\n s_mov_b32 s17, 0"}


def dumped(device: str, bits: int, driver: int, arguments: list[Argument], given: list[Any], **options: Any) -> bytes:
    """The argument buffer as a kernel reads it; the first argument is where it writes that."""
    text = DUMP.replace("LOAD", LOADS[bits])
    everything = [pointer("out", "uint*"), *arguments]
    source = kernel(device, "dump", text, everything, bits=bits, driver=driver)
    found = program(device, source, bits=bits, driver=driver)
    size = found.kernel("dump").metadata.layout.size // 4
    out = np.zeros(size, np.uint32)
    found.kernel("dump").run(size, 64, [out, *given], **options)
    return out.tobytes()


@pytest.mark.parametrize(("bits", "driver"), [(64, 180005), (32, 180005), (64, 191205), (32, 252700)])
def test_global_offsets(bits: int, driver: int) -> None:
    data = dumped("tonga", bits, driver, [], [], global_offset=(5, 6, 7))
    size = bits // 8
    assert [int.from_bytes(data[n * size : (n + 1) * size], "little") for n in range(3)] == [5, 6, 7]


def test_values_of_all_sizes() -> None:
    arguments = [value("a", "char"), value("b", "short"), value("c", "uchar3"), value("d", "double"), value("e", "int")]
    data = dumped("bonaire", 64, 252700, arguments, [-1, -2, (1, 2, 255), 2.25, -5])
    again = dumped("bonaire", 64, 252700, arguments, [255, 65534, (1, 2, 255, 99), 2.25, 0xFFFF_FFFB])
    assert again == data[:63] + bytes([99]) + data[64:]
    assert data[56:57] == b"\xff"
    assert data[58:60] == b"\xfe\xff"
    assert data[60:64] == b"\1\2\xff\0"
    assert data[64:72] == np.float64(2.25).tobytes()
    assert data[72:76] == b"\xfb\xff\xff\xff"


@pytest.mark.parametrize("bits", [32, 64])
def test_structures_go_by_reference(bits: int) -> None:
    given = bytes(range(1, 21))
    structure = Argument("s", "S", Kind.STRUCTURE, structure_bytes=20)
    found = program(
        "tonga", kernel("tonga", "k", COPY[bits], [pointer("out", "uint*"), structure], bits=bits), bits=bits
    )
    out = np.zeros(5, np.uint32)
    found.kernel("k").run(5, 64, [out, given])
    assert out.tobytes() == given


def _copy(bits: int) -> str:
    """Copies dwords from where the second argument points to where the first does."""
    load_both = {
        64: "s_load_dwordx4 s[12:15], s[6:7], {o:12}",
        32: "s_load_dwordx2 s[16:17], s[6:7], {o:6}\n s_waitcnt lgkmcnt(0)\n s_mov_b32 s12, s16\n s_mov_b32 s13, 0\n"
        "s_mov_b32 s14, s17\n s_mov_b32 s15, 0",
    }[bits]
    return f"""
    {load_both}
    s_waitcnt lgkmcnt(0)
    v_lshlrev_b32 v1, 2, v0
    v_mov_b32 v3, s15
    {{add}} v2, vcc, s14, v1
    {{addc}} v3, vcc, 0, v3, vcc
    flat_load_dword v4, v[2:3]
    v_mov_b32 v3, s13
    {{add}} v2, vcc, s12, v1
    {{addc}} v3, vcc, 0, v3, vcc
    s_waitcnt vmcnt(0) lgkmcnt(0)
    flat_store_dword v[2:3], v4
    s_endpgm
    """


COPY = {bits: _copy(bits) for bits in (32, 64)}


@every_device
def test_local_pointers_are_offsets_behind_static_lds(device: str) -> None:
    locals_ = [Argument(name, f"{name}*", Kind.POINTER, space=Space.LOCAL) for name in ("int", "double4", "double16")]
    source = kernel(
        device,
        "dump",
        DUMP.replace("LOAD", LOADS[64]),
        [pointer("out", "uint*"), *locals_],
        needs=KernelNeeds(lds_bytes=1156, sgprs=64, vgprs=16),
    )
    found = program(device, source)
    out = np.zeros(found.kernel("dump").metadata.layout.size // 4, np.uint32)
    found.kernel("dump").run(len(out), 64, [out, Local(8), 64, Local(256)])
    assert out.view(np.uint64)[7:10].tolist() == [1156, 1184, 1280]  # aligned like what they point to


@every_device
@every_engine
def test_local_memory_can_be_used_to_its_end(device: str, engine: str) -> None:
    source = kernel(device, "k", LDS, [pointer("out", "uint*"), Argument("l", "int*", Kind.POINTER, space=Space.LOCAL)])
    out = np.zeros(64, np.uint32)
    program(device, source, engine=engine).kernel("k").run(64, 64, [out, 64 * 4])
    assert (out == np.arange(64) * 3).all()


LDS = """
    s_load_dwordx4 s[12:15], s[6:7], {o:12}
    s_mov_b32 m0, -1
    s_waitcnt lgkmcnt(0)
    v_lshlrev_b32 v1, 2, v0
    {add} v5, vcc, s14, v1
    v_mul_u32_u24 v6, 3, v0
    ds_write_b32 v5, v6
    s_waitcnt lgkmcnt(0)
    ds_read_b32 v4, v5
    v_mov_b32 v3, s13
    {add} v2, vcc, s12, v1
    {addc} v3, vcc, 0, v3, vcc
    s_waitcnt lgkmcnt(0)
    flat_store_dword v[2:3], v4
    s_endpgm
"""


# ---- data and samplers of the program ----------------------------------------------------------------------------


RELOCATED = """
    s_mov_b32 s14, 0x12345678
    s_mov_b32 s15, 0x12345678
    s_load_dwordx2 s[12:13], s[6:7], {o:12}
    v_lshlrev_b32 v1, 2, v0
    v_mov_b32 v3, s15
    {add} v2, vcc, s14, v1
    {addc} v3, vcc, 0, v3, vcc
    flat_load_dword v4, v[2:3]
    s_waitcnt vmcnt(0) lgkmcnt(0)
    v_mov_b32 v3, s13
    {add} v2, vcc, s12, v1
    {addc} v3, vcc, 0, v3, vcc
    flat_store_dword v[2:3], v4
    s_endpgm
"""


@every_device
@pytest.mark.parametrize("section", [READ_ONLY, GLOBAL])
@pytest.mark.parametrize("driver", [191205, 252700])
def test_global_data_through_relocations(device: str, section: str, driver: int) -> None:
    if device == "gfx900":
        driver = 252700
    relocations = (CodeRelocation(4, section, 4), CodeRelocation(12, section, 4, high=True))
    source = kernel(device, "k", RELOCATED, [pointer("out", "uint*")], relocations=relocations, driver=driver)
    data = np.array([11, 22, 33, 44], np.uint32).tobytes()
    options: dict[str, Any] = {"read_only": data} if section == READ_ONLY else {"global_data": data}
    found = program(device, source, driver=driver, bss_bytes=64, bss_alignment=16, **options)
    out = np.zeros(3, np.uint32)
    found.kernel("k").run(3, 64, [out])
    assert out.tolist() == [22, 33, 44]
    shared = found.symbol(f"__hsa_section{section}", 16)
    shared.view(np.uint32)[1] = 99
    found.kernel("k").run(3, 64, [out])
    assert out.tolist() == [99, 33, 44]
    with pytest.raises(WireError, match="has fewer than 100000 bytes: the program's memory ends before the last"):
        found.symbol(f"__hsa_section{section}", 100000)


@every_device
def test_samplers_of_the_program_stand_where_relocations_say(device: str) -> None:
    inits = (
        SamplerInit(coordinate=1, filter=0, addressing=3),
        SamplerInit(coordinate=0, filter=1, addressing=2),
    )
    source = kernel(device, "k", RELOCATED, [pointer("out", "uint*")])
    found = program(device, source, read_only=bytes(32), samplers=inits, sampler_offsets=(16, 24))
    base = found.code.base + next(part.place for part in found.code.parts if part.name == READ_ONLY)
    for number, init in enumerate(inits):
        address = int.from_bytes(found.device.memory.read(base + 16 + 8 * number, 8), "little")
        expected = Sampler(bool(init.coordinate), Addressing(init.addressing), Filter(init.filter)).pack()
        assert found.device.memory.read(address, 32) == expected
    assert found.container.samplers == inits


# ---- sizes, engines, mistakes ------------------------------------------------------------------------------------


@every_engine
def test_partial_groups_and_repeated_runs(engine: str) -> None:
    a = np.arange(1000, dtype=np.uint32)
    c = np.zeros(1000, np.uint32)
    vadd = load(vector("vadd-tonga-64-200406"), engine).kernel("vadd")
    for _ in range(3):
        c[:] = 0
        result = vadd.run(1000, 192, [a, a, c, 1000])
        assert (c == 2 * a).all()
        assert result.statistics.groups == 6


def test_engines_may_be_given() -> None:
    engine = JitEngine(threads=1)
    a = np.ones(64, np.uint32)
    load(vector("vadd-gfx900-64-252700"), engine).kernel("vadd").run(64, 64, [a, a, a, 64])
    assert (a == 2).all()
    engine.close()


@pytest.mark.parametrize("engine", ["reference", "jit", StrictEngine()], ids=["reference", "jit", "strict"])
def test_on_hint_hears_the_same_from_every_engine(engine: Any) -> None:
    text = "s_nop 0\ns_setprio 1\ns_sleep 1\ns_sendmsg 1\ns_sethalt 0\ns_icache_inv\ns_sendmsghalt 3\ns_endpgm"
    heard: list[tuple[int, str, int]] = []
    found = program("gfx900", kernel("gfx900", "k", text, []), engine=engine)
    found.kernel("k").run(128, 128, on_hint=lambda wave, what, n: heard.append((wave.index, what, n)))
    wanted = [("sendmsg", 1), ("sethalt", 0), ("icache_inv", 0), ("sendmsg", 3), ("halt", 0)]
    assert [[(what, n) for index, what, n in heard if index == wave] for wave in (0, 1)] == [wanted] * 2


def test_required_size() -> None:
    argt = load(vector("argtypes-tonga-64-200406"), "reference").kernel("argt")
    with pytest.raises(
        RuleError, match=r"kernel argt was compiled for work-groups of \(4, 2, 1\), not \(8, 1, 1\)"
    ) as e:
        argt.run((8, 1, 1), (8, 1, 1), [])
    assert "amdcl2/required-size" in str(e.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            [],
            "the kernel takes 4 arguments (global const uint* a, global const uint* b, global uint* c, uint n), not 0",
        ),
        ([1.5, 0, 0, 0], "pointer uint* takes ndarray, not float, at argument 0 (a)"),
        ([np.zeros((4, 4), np.uint32)[:, ::2], 0, 0, 0], "the array for a must be C-contiguous"),
        ([np.zeros(0, np.uint32), 0, 0, 0], "array for a must not be empty"),
        ([0, 0, 0, 1.5], "expected an integer for uint, not 1.5, at argument 3 (n)"),
        ([0, 0, 0, 1 << 32], "4294967296 does not fit uint, at argument 3 (n)"),
        ([0, 0, 0, (1, 2)], "expected 1 values of type uint, not an array of shape (2,), at argument 3 (n)"),
    ],
)
def test_arguments_that_do_not_fit(arguments: list[Any], message: str) -> None:
    vadd = load(vector("vadd-tonga-64-200406"), "reference").kernel("vadd")
    with pytest.raises(WireError) as caught:
        vadd.run(64, 64, arguments)
    assert message in str(caught.value)
    assert str(caught.value).endswith("at kernel vadd")


def test_arguments_of_other_kinds_that_do_not_fit() -> None:
    argt = load(vector("argtypes-tonga-64-200406"), "reference").kernel("argt")
    good = [*ARGT, 0, 0, 0, 0, (1.0, 2.0, 3.0), 0]
    for index, wrong, message in (
        (10, bytes(19), "structure S takes 20 bytes, not 19, at argument 10 (a10)"),
        (12, 0, "a local pointer needs LDS of 1 byte or more, not 0, at argument 12 (a12)"),
        (12, "x", "a local pointer takes Local(size_bytes) or a number of bytes, not str, at argument 12 (a12)"),
        (14, np.zeros(4), "image image2d_t takes Image, not ndarray, at argument 14 (a14)"),
        (16, "x", "sampler sampler_t takes Sampler, not str, at argument 16 (a16)"),
        (17, "x", "queue queue_t takes DeviceQueue, not str, at argument 17 (a17)"),
    ):
        with pytest.raises(WireError) as caught:
            argt.run((4, 2, 1), None, [*good[:index], wrong, *good[index + 1 :]])
        assert message in str(caught.value)


@pytest.mark.parametrize(
    ("grid", "group", "message"),
    [
        (0, 64, r"expected global sizes from 1 to 2\^32 - 1 and local sizes from 1 to 65535"),
        ((1, 1, 1, 1), (1, 1, 1, 1), r"global size is \(1, 1, 1, 1\), expected 1 to 3 integers, at kernel vadd"),
        ((64, 64), 64, "must have the same number of dimensions, 1 to 3"),
        ((), None, "must have the same number of dimensions, 1 to 3"),
        ("8", 64, "global size is '8', expected 1 to 3 integers"),
        (["8"], 64, r"global size is \['8'\], expected 1 to 3 integers"),
        ([1.5], 64, r"global size is \[1.5\], expected 1 to 3 integers"),
        ([float("inf")], 64, r"global size is \[inf\], expected 1 to 3 integers"),
        (64, True, "local size is True, expected 1 to 3 integers"),
        ([[64]], None, r"global size is \[\[64\]\], expected 1 to 3 integers"),
        (4096, 2048, "the work-group has 2048 work-items, expected at most 1024"),
    ],
)
def test_sizes_that_cannot_be(grid: Any, group: Any, message: str) -> None:
    a = np.ones(64, np.uint32)
    with pytest.raises(SoftcardError, match=message):
        load(vector("vadd-tonga-64-200406"), "reference").kernel("vadd").run(grid, group, [a, a, a, 1])


@every_engine
@pytest.mark.parametrize("bits", [32, 64])
def test_overruns_name_lane_and_buffer(engine: str, bits: int) -> None:
    a = np.ones(1024, np.uint32)
    vadd = load(vector(f"vadd-tonga-{bits}-200406"), engine).kernel("vadd")
    with pytest.raises(AccessFault, match="no memory there, c ends at") as caught:
        vadd.run(1024, 64, [a, a.copy(), np.zeros(1000, np.uint32), 1024])
    assert "at lane 40" in str(caught.value)
    assert "at kernel vadd" in str(caught.value)


def test_unknown_kernels_and_engines() -> None:
    found = load(vector("vadd-tonga-64-200406"), "reference")
    with pytest.raises(WireError, match="program has no kernel 'vad'; did you mean 'vadd'"):
        found.kernel("vad")
    with pytest.raises(WireError, match="engine is 'fast', expected 'jit' or 'reference'"):
        load(vector("vadd-tonga-64-200406"), "fast")
    with pytest.raises(WireError, match="No such file"):
        load("nowhere.clo")
    with pytest.raises(WireError, match="program has no symbol 'x'"):
        found.symbol("x", 4)


def test_all_vectors_are_run() -> None:
    img = {"img"}  # in test_amdcl2_img.py
    assert {parts(name)[0] for name in vectors()} == {"vadd", "scratch", "generic", "argtypes", "gdata"} | img


def with_formats(source: KernelSource, bits: int, driver: int) -> KernelSource:
    """The kernel with one format to print by."""
    metadata = parse_metadata(source.metadata, bits, generation_of(driver))
    return replace(source, metadata=replace(metadata, queue=replace(metadata.queue, printf_count=1)).pack())


def test_printf_buffer_is_passed_through_raw() -> None:
    source = kernel("tonga", "k", PRINTF, [value("n", "uint")])
    result = program("tonga", with_formats(source, 64, NEWEST)).kernel("k").run(1, 1, [77])
    assert result.printf == (77).to_bytes(4, "little")


@pytest.mark.parametrize("bits", [32, 64])
def test_printf_is_formatted(bits: int) -> None:
    """Formats follow the arguments: entries, one of zeros, then the sizes and the text of each."""
    source = kernel("tonga", "k", PRINTF, [value("n", "uint")])
    metadata = parse_metadata(with_formats(source, 64, NEWEST).metadata, 64, generation_of(NEWEST))
    texts = [(77, (), rb"seven\n"), (78, (4, 8), b"%d")]
    word, tail = {32: "<I", 64: "<Q"}[bits], b""
    for number, sizes, text in texts:
        fields = [48 * bits // 64, number, len(sizes), len(text), 0, 0]
        tail += b"".join(struct.pack(word, each) for each in fields)
    tail += bytes(48 * bits // 64)
    tail += b"".join(struct.pack(f"<{len(sizes)}I", *sizes) + text + b"\0" for _, sizes, text in texts)
    metadata = replace(metadata, bits=bits, queue=replace(metadata.queue, printf_count=2), tail=tail)
    assert metadata.formats == {77: PrintfFormat((), "seven\n"), 78: PrintfFormat((4, 8), "%d")}
    assert list(replace(metadata, tail=tail[:-3]).formats) == [77]
    if bits == 64:
        printing = program("tonga", replace(source, metadata=metadata.pack())).kernel("k")
        assert printing.run(1, 1, [77]).text == "seven\n\n"
        assert printing.run(1, 1, [9]).text == "<printf: no format 9>\n"
        fault = "v_mov_b32 v2, 0\nv_mov_b32 v3, 0\nflat_store_dword v[2:3], v2\n"
        faulting = kernel("tonga", "k", PRINTF.replace("s_endpgm", fault + "s_endpgm"), [value("n", "uint")])
        faulting = replace(faulting, metadata=metadata.pack())
        with pytest.raises(AccessFault) as caught:
            program("tonga", faulting).kernel("k").run(1, 1, [77])
        assert caught.value.console == b"seven\n\n"


@pytest.mark.parametrize("driver", [180005, 191205, 252700])
@pytest.mark.parametrize("bits", [32, 64])
def test_kernels_without_formats_get_no_printf_buffer(bits: int, driver: int) -> None:
    at = 3 * bits // 8
    for has_formats in (False, True):
        source = kernel("tonga", "k", "s_endpgm", [], bits=bits, driver=driver)
        source = with_formats(source, bits, driver) if has_formats else source
        found = program("tonga", source, bits=bits, driver=driver).kernel("k")
        assert found.metadata.has_printf == has_formats
        data = pack_arguments(found.metadata.layout, {}, found._hidden((0, 0, 0)))
        address = int.from_bytes(data[at : at + bits // 8], "little")
        assert address == (found.program.printf_address if has_formats else 0)


PRINTF = """
    s_load_dwordx2 s[12:13], s[6:7], {o:6}
    s_load_dword s14, s[6:7], {o:12}
    s_waitcnt lgkmcnt(0)
    v_mov_b32 v2, s12
    v_mov_b32 v3, s13
    v_mov_b32 v4, 4
    flat_store_dword v[2:3], v4
    {add} v2, vcc, 8, v2
    v_mov_b32 v4, s14
    flat_store_dword v[2:3], v4
    s_endpgm
"""
"""A kernel that stores 4 bytes after the header and their number in its first dword."""


def test_features_are_those_of_the_kernel() -> None:
    features = Features(useargs=True)
    text = "s_load_dwordx2 s[12:13], s[4:5], {o:12}\n s_waitcnt lgkmcnt(0)\n v_mov_b32 v2, s12\n v_mov_b32 v3, s13\n"
    text += "flat_store_dword v[2:3], v0\n s_endpgm"
    for device in DEVICES:
        source = kernel(device, "k", text, [pointer("out", "uint*")], features=features, described=Described())
        out = np.full(1, 9, np.uint32)
        program(device, source).kernel("k").run(1, 1, [out])
        assert out[0] == 0
    assert features != SETUP


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("workitem_private_segment_byte_size", 1 << 30, "1073741824 bytes of private memory"),
        ("kernarg_segment_byte_size", 1 << 62, "the argument buffer has 4611686018427387904 bytes, expected at most"),
        ("workgroup_group_segment_byte_size", 65537, "65537 bytes of LDS, expected at most 65536"),
    ],
)
def test_headers_that_ask_for_too_much(field: str, value: int, message: str) -> None:
    data = bytearray(vector("vadd-tonga-64-200406"))
    at = read_container(bytes(data)).kernel("vadd").place + KernelCode.offset_of(field)
    size = KernelCode.slot(field).size_bytes
    data[at : at + size] = value.to_bytes(size, "little")
    with pytest.raises(SoftcardError) as caught:
        load(bytes(data), "reference").kernel("vadd").run(64, 64, [0, 0, 0, 0])
    assert message in str(caught.value)
