"""Containers of all generations: what they hold, what is made of their oddities, what is refused."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from softcard.core.errors import WireError
from softcard.image.amdcl2.build import Described, build_metadata, pointer, setup_arguments
from softcard.image.amdcl2.container import READ_ONLY, STT_HSA_KERNEL, Container, read_container
from softcard.image.amdcl2.elf import read_elf
from softcard.image.amdcl2.generations import ISA_VERSIONS, Generation, device_codes, generation_of, target_of
from softcard.image.amdcl2.load import load
from softcard.image.amdcl2.metadata import parse_metadata
from softcard.image.amdcl2.records import SamplerInit
from softcard.image.amdcl2.writer import CodeRelocation, ProgramSource, source_of, write_container
from softcard.isa.gcn.asm.listing import listing
from tests.host.amdcl2.rig import kernel, parts, vector, vectors, with_tables

TEXT = "s_mov_b32 s12, 0x12345678\n s_mov_b32 s13, 0x12345678\n s_endpgm"


@pytest.mark.parametrize("name", vectors())
def test_every_vector_is_read(name: str) -> None:
    named, device, bits, driver = parts(name)
    found = read_container(vector(name))
    assert (found.bits, found.generation, found.device) == (bits, generation_of(driver), device)
    assert found.target is target_of(ISA_VERSIONS[device])
    assert found.driver <= driver
    assert found.version.startswith("AMD-COMP-LIB-v0.8")
    assert found.warnings == ()
    one = found.kernel({"argtypes": "argt", "generic": "gener"}.get(named, named))
    assert one.header.amd_kernel_code_version_minor == int(driver > 180005)
    assert len(one.stub) == (0xA60 if driver == 180005 else 0)


@pytest.mark.parametrize("name", vectors())
def test_every_vector_is_code_to_its_end(name: str) -> None:
    found = read_container(vector(name))
    for each in found.kernels.values():
        lines = list(listing(found.target, each.code, 0))
        assert all(line.refusal is None for line in lines)
        assert "s_endpgm" in lines[-1].shown


# ---- string and symbol tables --------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", ["bare", "zero", "shared"])
@pytest.mark.parametrize("name", [each for each in vectors() if parts(each)[3] > 180005])
def test_symbols_are_found_wherever_tables_have_them(name: str, names: str) -> None:
    before = read_container(vector(name))
    assert before.inner is not None
    count, fixed = len(before.inner.symbols), int(before.generation is Generation.CRIMSON_16_4)
    kernels = [n for n, each in enumerate(before.inner.symbols) if each.kind == STT_HSA_KERNEL]
    for first in kernels:  # each kernel once where it is overlooked most easily
        rest = [n for n in reversed(range(fixed, count)) if n != first]
        found = read_container(with_tables(vector(name), [*range(fixed), first, *rest], names))
        assert (list(found.kernels), found.generation) == (list(before.kernels), before.generation)
        assert (found.driver, found.device, found.target) == (before.driver, before.device, before.target)
        assert found.inner is not None
        assert sorted(each.name for each in found.inner.symbols) == sorted(each.name for each in before.inner.symbols)
        assert {each: found.kernels[each].code for each in found.kernels} == {
            each: before.kernels[each].code for each in before.kernels
        }


@pytest.mark.parametrize("name", vectors())
def test_outer_names_need_no_0_before_them_either(name: str) -> None:
    before = read_container(vector(name))
    data, elf = bytearray(vector(name)), before.elf
    table = elf.section(".strtab")
    assert table is not None
    start, size = elf.extent(table)
    assert data[start] == 0
    data[start : start + size] = data[start + 1 : start + size] + b"\0"
    for symbol in elf.symbols[1:]:  # the null symbol still says 0, where now a name stands
        offset = int.from_bytes(data[symbol.place : symbol.place + 4], "little") - 1
        data[symbol.place : symbol.place + 4] = offset.to_bytes(4, "little")
    found = read_container(bytes(data))
    assert found.elf.symbols[0].name == ""
    assert [each.name for each in found.elf.symbols] == [each.name for each in before.elf.symbols]
    assert (list(found.kernels), found.version) == (list(before.kernels), before.version)
    assert write_container(source_of(found)) == data


@pytest.mark.parametrize("name", [each for each in vectors() if parts(each)[3] == 191205])
def test_names_of_driver_1912_begin_without_a_0(name: str) -> None:
    inner = read_container(write_container(replace(source_of(read_container(vector(name))), origin=None))).inner
    assert inner is not None
    strings = inner.contents(inner.section(".strtab"))
    assert strings.startswith(inner.symbols[0].name.encode() + b"\0")
    assert inner.symbols[0].name[:1] == "&"


@pytest.mark.parametrize("driver", [191205, 252700])
def test_programs_without_kernels_and_symbols_have_a_generation(driver: int) -> None:
    found = read_container(write_container(ProgramSource("tonga", driver, 64, ())))
    assert found.inner is not None
    assert found.generation is generation_of(driver)


def test_the_isa_note_counts_not_e_flags() -> None:
    data = bytearray(vector("vadd-tonga-64-252700"))
    data[48] = 6  # bonaire
    found = read_container(bytes(data))
    assert found.target.level == 8
    assert found.device == ""


def test_unknown_steppings_run_as_their_generation() -> None:
    assert target_of((8, 0, 7)).level == 8
    assert target_of((9, 0, 5)).level == 9
    with pytest.raises(WireError, match=r"ISA version 10\.1\.0 is not supported: the first number must be 7, 8 or 9"):
        target_of((10, 1, 0))


def test_device_codes_by_driver() -> None:
    fiji = {180005: 16, 191205: 17, 200406: 16, 203603: 14, 223600: 13, 226400: 14, 234800: 15, 244200: 13, 252700: 13}
    assert {driver: device_codes(driver)["fiji"] for driver in fiji} == fiji
    gfx900 = {223600: 17, 226400: 19, 234800: 20, 244200: 17, 248200: 19, 252700: 20, 258000: 20}
    assert {driver: device_codes(driver)["gfx900"] for driver in gfx900} == gfx900
    assert "gfx900" not in device_codes(203603)
    assert all(device in ISA_VERSIONS for device in device_codes(258000))


@pytest.mark.parametrize("driver", [191205, 200406, 203603, 223600, 252700])
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("device", ["hawaii", "fiji"])
def test_drivers_are_distinguished_as_far_as_files_show_it(driver: int, bits: int, device: str) -> None:
    source = kernel(device, "k", TEXT, [pointer("p", "int*")], driver=driver, bits=bits)
    found = read_container(write_container(ProgramSource(device, driver, bits, (source,))))
    shown = 223600 if driver > 223600 else driver
    # 64-bit files of driver 2036.03 have notes of 200 bytes, by which they are known; 32-bit files have them too.
    assert found.driver == shown
    assert found.device == device
    assert found.target is target_of(ISA_VERSIONS[device])
    assert found.generation is generation_of(driver)


# ---- relocations, data, samplers -----------------------------------------------------------------------------------


def with_data(driver: int = 252700, **changes: object) -> Container:
    source = kernel(
        "tonga", "k", TEXT, [], driver=driver,
        relocations=(CodeRelocation(4, READ_ONLY, 8), CodeRelocation(12, READ_ONLY, 8, high=True)),
    )  # fmt: skip
    values: dict[str, object] = {
        "read_only": bytes(range(32)), "global_data": b"rw", "bss_bytes": 64, "bss_alignment": 16,
        "samplers": (SamplerInit(coordinate=1, filter=0, addressing=4),), "sampler_offsets": (16,),
    }  # fmt: skip
    program = ProgramSource("tonga", driver, 64, (source,), **(values | changes))  # type: ignore[arg-type]
    return read_container(write_container(program))


@pytest.mark.parametrize("driver", [191205, 200406, 252700])
def test_data_is_loaded_and_relocated(driver: int) -> None:
    base = 0x7_0000_1000
    found = load(with_data(driver), base)
    place = {part.name: part.place for part in found.parts}
    target = base + place[READ_ONLY] + 8
    code = found.kernels["k"] - base + 256
    assert struct.unpack_from("<I", found.data, code + 4)[0] == target & 0xFFFF_FFFF
    assert struct.unpack_from("<I", found.data, code + 12)[0] == target >> 32
    assert found.data[place[READ_ONLY] : place[READ_ONLY] + 16] == bytes(range(16))
    assert struct.unpack_from("<Q", found.data, place[READ_ONLY] + 16)[0] == found.samplers[0]
    assert {name: found.symbols[f"__hsa_section{name}"] for name in place} == {n: base + p for n, p in place.items()}


def test_a_base_must_be_a_page() -> None:
    with pytest.raises(WireError, match="base is 0x100, expected a multiple of 4 KiB"):
        load(read_container(vector("vadd-tonga-64-252700")), 0x100)


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (8, 9, "the relocation type is 9, expected 1, 2, 3 or 4"),
        (0, 0x10000, "bytes at 0x10000 does not lie in the bytes of section .hsatext"),
        (12, 0, "refers to symbol '' in no section, expected a section that is loaded"),
        (12, 0x999, "a relocation refers to symbol 2457, but the table has"),
        (8, 4, "the relocation refers to '__hsa_section.hsadata_readonly_agent', expected one of the 1 samplers"),
    ],
)
def test_relocations_that_cannot_be(at: int, value: int, message: str) -> None:
    container = with_data()
    inner = container.inner
    assert inner is not None
    table = inner.section(".rela.hsatext")
    assert table is not None
    data = bytearray(container.elf.data)
    start = inner.base + table.header.offset + at
    data[start : start + 4] = value.to_bytes(4, "little")
    with pytest.raises(WireError) as caught:
        load(read_container(bytes(data)), 0)
    assert message in str(caught.value)


# ---- refusals ------------------------------------------------------------------------------------------------------


def changed(name: str, at: int, data: bytes) -> bytes:
    whole = bytearray(vector(name))
    whole[at : at + len(data)] = data
    return bytes(whole)


OLD, NEW = "vadd-tonga-64-180005", "vadd-tonga-64-200406"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "file starts with nothing, expected 7f 45 4c 46 (ELF), at byte 0x0"),
        (b"MZ\0\0", "file starts with 4d 5a 00 00, expected 7f 45 4c 46 (ELF), at byte 0x0"),
        (b"\x7fELF", "EI_CLASS is missing, expected 1 (32-bit) or 2 (64-bit), at byte 0x4"),
        (vector(NEW)[:40], "FileHeader needs 64 bytes, but the data has 40 left"),
        (changed(NEW, 5, b"\2"), "EI_DATA is 0x2, expected 1 (little-endian), at byte 0x5"),
        (changed(NEW, 18, b"\x3e\0"), "e_machine is 0x3e, expected 0xaf5a or 0xaf5b (AMD OpenCL 2.0 program)"),
        (changed(NEW, 18, b"\x5a\xaf"), "e_machine is that of 32-bit programs, but the ELF file has 64 bits"),
        (changed(NEW, 40, b"\xff\xff\xff"), "section header table at 0xffffff..0x10001bf exceeds the file's 0xe18"),
        (changed(NEW, 58, b"\x10\0"), "entries of the section header table have 16 bytes, expected 64"),
    ],
)
def test_files_that_are_no_container(data: bytes, message: str) -> None:
    with pytest.raises(WireError) as caught:
        read_container(data)
    assert message in str(caught.value)


def place_of(name: str, what: str, part: str = "") -> int:
    """The byte of an inner or outer symbol's entry, or of a section's contents."""
    found = read_container(vector(name))
    elf = found.inner if part == "inner" and found.inner is not None else found.elf
    symbol = next((each for each in elf.symbols if each.name == what), None)
    if symbol is not None:
        return elf.base + symbol.place
    section = elf.section(what)
    assert section is not None
    return elf.base + section.header.offset


KERNEL, BINARY = "&__OpenCL_vadd_kernel", "__ISA_&__OpenCL_vadd_kernel_binary"


@pytest.mark.parametrize(
    ("name", "at", "data", "message"),
    [
        (
            NEW,
            place_of(NEW, KERNEL, "inner") + 16,
            b"\xff\xff",
            "kernel vadd at 0x0..0xffff exceeds .hsatext of 0x198",
        ),
        (NEW, place_of(NEW, KERNEL, "inner") + 6, b"\x63\0", "kernel vadd lies in section 99, but the file has 6"),
        (NEW, place_of(NEW, KERNEL, "inner") + 6, b"\3\0", "kernel vadd lies in .note, expected .hsatext"),
        (NEW, place_of(NEW, KERNEL, "inner") + 16, b"\x40\0", "kernel vadd: KernelCode needs 256 bytes, but the data"),
        (
            NEW,
            place_of(NEW, ".hsatext", "inner") + 16,
            b"\1\0",
            "its code begins at 0x1 of 0x198 bytes, expected a multiple of 4, 0x100",
        ),
        (
            NEW,
            place_of(NEW, ".text") + 18,
            b"\x3e",
            "the inner ELF file has 64 bits and machine 62, expected 64 bits and 224",
        ),
        (OLD, place_of(OLD, BINARY) + 6, b"\5\0", "kernel vadd lies in .rodata, expected .text"),
        (OLD, place_of(OLD, ".text"), b"\xff\xff", "its header at 0xffff lies outside its 0xbf8 bytes"),
        (
            OLD,
            place_of(OLD, BINARY) + 16,
            b"\x10\0",
            "kernel vadd has 16 bytes, expected 260 or more for stub and header",
        ),
    ],
)
def test_kernels_that_cannot_be(name: str, at: int, data: bytes, message: str) -> None:
    with pytest.raises(WireError) as caught:
        read_container(changed(name, at, data))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("at", "data", "message"),
    [
        (0, b"\x08\0", "the size in the metadata header is 8 bytes, expected 216 to "),
        (0, b"\xff\xff", "the size in the metadata header is 65535 bytes, expected 216 to "),
        (0xA0, b"\xff\xff", "65535 arguments do not fit the metadata's 1497 bytes"),
        (0x60, b"\x14", "a text of 20 bytes does not end with a 0 within the metadata"),
        (0x12F + 88, b"\x57", "an argument entry has 87 bytes, expected 88"),
        (0x12F + 52, b"\x63", "argument _.global_offset_0: the combination of type 99 and kind 4 is unknown"),
        (0x12F + 40, b"\x05", "argument _.global_offset_0: the vector has 5 elements, expected 1, 2, 3, 4, 8 or 16"),
        (0x12F + 6 * 88 + 64, b"\x09", "argument a: the address space is 9, expected 3, 4 or 5"),
    ],
)
def test_metadata_that_cannot_be(at: int, data: bytes, message: str) -> None:
    found = read_container(changed(NEW, place_of(NEW, ".rodata") + at, data))
    with pytest.raises(WireError) as caught:
        _ = found.metadata("vadd").arguments
    assert message in str(caught.value)


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize(("said", "read"), [((4, 0, 0), (4, 1, 1)), ((4, 2, 0), (4, 2, 1)), ((0, 2, 1), None)])
def test_directions_that_are_not_said_are_1(said: tuple[int, ...], read: tuple[int, ...] | None, bits: int) -> None:
    described = Described(required_work_group_size=said, work_group_size_hint=said)  # type: ignore[arg-type]
    found = build_metadata("tonga", 252700, bits, [], described)
    assert (found.required_work_group_size, found.work_group_size_hint) == (read, read)
    assert parse_metadata(found.pack(), bits, Generation.CRIMSON_16_4).pack() == found.pack()


@pytest.mark.parametrize("bits", [32, 64])
def test_an_empty_hint_before_the_first_argument(bits: int) -> None:
    found = build_metadata("tonga", 191205, bits, setup_arguments(bits), Described())
    data = found.pack()
    first = data.index(found.entries[0][0].pack())
    longer = data[:first] + b"\0" + data[first:]
    again = parse_metadata(longer, bits, Generation.CRIMSON)
    assert again.arguments == found.arguments
    assert (again.vector_type_hint, again.pack()) == ("", longer)


def test_metadata_that_cannot_be_read_hides_its_own_kernel_only() -> None:
    sources = tuple(kernel("tonga", name, TEXT, []) for name in ("bad", "good"))
    data = bytearray(write_container(ProgramSource("tonga", 252700, 64, sources)))
    place = read_container(bytes(data)).metadata_bytes("bad")[1]
    data[place : place + 2] = b"\x08\0"
    found = read_container(bytes(data))
    assert (found.target.name, found.driver, found.metadata("good").architecture) == ("gfx800", 223600, 8)
    with pytest.raises(WireError, match="the size in the metadata header is 8 bytes"):
        found.metadata("bad")


def test_kernels_without_a_size_end_where_the_next_begins() -> None:
    sources = tuple(kernel("tonga", name, TEXT, []) for name in ("first", "second"))
    data = bytearray(write_container(ProgramSource("tonga", 252700, 64, sources)))
    inner = read_container(bytes(data)).inner
    assert inner is not None
    for symbol in inner.symbols[1:3]:
        at = inner.base + symbol.place + 16
        data[at : at + 8] = bytes(8)
    found = read_container(bytes(data))
    assert [kernel.size for kernel in found.kernels.values()] == [512, 256 + len(sources[1].code)]


def test_kernels_that_claim_each_others_code() -> None:
    for driver in (180005, 252700):
        sources = tuple(kernel("tonga", f"k{n}", TEXT, [], driver=driver) for n in range(40))
        data = bytearray(write_container(ProgramSource("tonga", driver, 64, sources)))
        found = read_container(bytes(data))
        elf = found.inner or found.elf
        marks = "_kernel" if found.inner else "_kernel_binary"
        kernels = [symbol for symbol in elf.symbols if symbol.name.endswith(marks)]
        size = kernels[-1].value + kernels[-1].size
        for symbol in kernels:
            at = elf.base + symbol.place + 8
            data[at : at + 16] = struct.pack("<QQ", 0, size)
        with pytest.raises(WireError, match=r"kernels up to here claim 0x[0-9a-f]+ bytes, but the file has"):
            read_container(bytes(data))


def test_programs_without_kernels() -> None:
    for driver in (180005, 252700):
        found = read_container(write_container(ProgramSource("tonga", driver, 64, ())))
        assert found.kernels == {}
        assert len(load(found, 0).data) == 1


def test_a_kernel_without_metadata_has_unknown_arguments() -> None:
    data = vector(NEW).replace(b"__OpenCL_&__OpenCL_vadd", b"__OpenCL_&__OpenCL_vaxx")
    found = read_container(data)
    with pytest.raises(WireError, match="kernel vadd has no metadata: its arguments are unknown"):
        found.metadata("vadd")


def test_a_file_that_names_no_processor() -> None:
    data = bytearray(vector(OLD))
    data[48] = 99
    with pytest.raises(
        WireError, match=r"e_flags 0x63 name no device of driver 180005, and there is no note with the ISA"
    ):
        _ = read_container(bytes(data)).target


def test_symbols_of_both_word_sizes() -> None:
    for bits in (32, 64):
        elf = read_elf(vector(f"vadd-tonga-{bits}-200406"))
        assert [symbol.name for symbol in elf.symbols][1:] == [
            "__OpenCL_&__OpenCL_vadd_kernel_metadata", "acl_version_string",
        ]  # fmt: skip
        assert elf.bits == bits
        assert Generation.CRIMSON_16_4.has_inner_elf
