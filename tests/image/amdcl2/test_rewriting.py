"""Programs that were read from a file: they come back byte for byte, and only what was changed is changed."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace

import pytest

from softcard.core.errors import WireError
from softcard.image.amdcl2.build import Described, pointer
from softcard.image.amdcl2.container import GLOBAL, READ_ONLY, TEXT, Container, read_container
from softcard.image.amdcl2.elf import Elf
from softcard.image.amdcl2.generations import Generation, device_codes
from softcard.image.amdcl2.records import SamplerInit
from softcard.image.amdcl2.resizing import resized
from softcard.image.amdcl2.source import CodeRelocation, ProgramSource, source_of
from softcard.image.amdcl2.writer import write_container
from softcard.image.elf.layout import RelaEntry, SectionHeader, SymbolEntry
from tests.host.amdcl2.rig import kernel, parts, vector, vectors, with_tables

CODE = "s_mov_b32 s12, 0x12345678\n s_endpgm"
OTHER = "s_mov_b32 s13, 0x9abcdef\n s_endpgm"
INITS = (SamplerInit(coordinate=1, filter=1, addressing=3), SamplerInit(coordinate=0, filter=0, addressing=1))


def written(driver: int = 252700, bits: int = 64, device: str = "tonga") -> bytes:
    """A program with a bit of everything that the driver has."""
    has_data = driver >= 191205
    relocations = (CodeRelocation(4, GLOBAL, 4),) if has_data else ()
    kernels = tuple(
        kernel(device, f"k{n}", CODE, [pointer("p", "int*")], driver=driver, bits=bits, described=Described(index=n),
               relocations=relocations if not n else ())
        for n in range(2)
    )  # fmt: skip
    source = ProgramSource(device, driver, bits, kernels, compile_options="-cl-std=CL2.0", brig=b"HSAIL")
    if has_data:
        source = replace(source, read_only=bytes(48), global_data=b"data" * 3, bss_bytes=128, bss_alignment=64,
                         samplers=INITS, sampler_offsets=(32, 40))  # fmt: skip
    return write_container(source)


# ---- files that no source can express ------------------------------------------------------------------------------


def inner_of(found: Container) -> Elf:
    assert found.inner is not None
    return found.inner


def patched(data: bytes, place: int, new: bytes) -> bytes:
    assert place > 0
    return data[:place] + new + data[place + len(new) :]


def symbol_place(inner: Elf, name: str) -> int:
    return inner.base + next(symbol.place for symbol in inner.symbols if symbol.name == name)


def code_outside_kernels(data: bytes) -> bytes:
    inner = inner_of(read_container(data))
    return patched(data, symbol_place(inner, "&__OpenCL_k1_kernel") + SymbolEntry.offset_of("info"), b"\2")


def two_slots_of_one_sampler(data: bytes) -> bytes:
    inner = inner_of(read_container(data))
    first, second = inner.relocations(f".rela{READ_ONLY}")
    info = inner.base + RelaEntry.offset_of("type")
    return patched(data, second.place + info, data[first.place + info : first.place + info + 8])


def a_sampler_without_a_slot(data: bytes) -> bytes:
    inner = inner_of(read_container(data))
    section = inner.section(f".rela{READ_ONLY}")
    assert section is not None
    return patched(data, inner.base + section.place + SectionHeader.offset_of("size"), (24).to_bytes(8, "little"))


def sampler_symbols_first(data: bytes) -> bytes:
    inner = inner_of(read_container(data))
    places = [symbol_place(inner, name) for name in ("&__OpenCL_k1_kernel", "&input_bc::&_.Samp0")]
    first, second = (data[place : place + SymbolEntry.size_bytes] for place in places)
    return patched(patched(data, places[0], second), places[1], first)


def a_whole_address(data: bytes) -> bytes:
    inner = inner_of(read_container(data))
    (entry,) = inner.relocations(".rela.hsatext")
    return patched(data, inner.base + entry.place + RelaEntry.offset_of("type"), b"\3")


BEYOND = [code_outside_kernels, two_slots_of_one_sampler, a_sampler_without_a_slot, sampler_symbols_first,
          a_whole_address]  # fmt: skip
beyond = pytest.mark.parametrize("variant", BEYOND, ids=[each.__name__ for each in BEYOND])


def again(data: bytes) -> bytes:
    return write_container(source_of(read_container(data)))


@pytest.mark.parametrize("name", vectors())
def test_files_come_back_byte_for_byte(name: str) -> None:
    data = vector(name)
    source = source_of(read_container(data))
    assert write_container(source) == data
    assert write_container(replace(source, origin=None)) == data  # nothing but the source, and the driver it names


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("driver", [191205, 200406, 252700])
@beyond
def test_what_a_source_cannot_hold_comes_back(variant: Callable[[bytes], bytes], driver: int, bits: int) -> None:
    data = variant(written(driver, bits))
    assert data != written(driver, bits)
    assert again(data) == data


@pytest.mark.parametrize("driver", [180005, 191205, 200406, 203603, 207903, 223600, 226400, 234800, 248200, 258000])
def test_every_device_of_every_driver_comes_back(driver: int) -> None:
    for device in device_codes(driver):
        data = written(driver, device=device)
        assert again(data) == data


def test_e_flags_count_for_the_driver() -> None:
    for driver, shown in ((223600, 223600), (226400, 226400), (234800, 234800), (252700, 234800)):
        found = read_container(written(driver, device="gfx900"))
        assert (found.device, found.driver) == ("gfx900", shown)


def test_unknown_devices_come_back() -> None:
    data = patched(written(), 48, (99).to_bytes(4, "little"))
    found = read_container(data)
    assert found.device == ""
    assert again(data) == data
    longer = replace(source_of(found), read_only=bytes(64))
    assert read_container(write_container(longer)).elf.header.flags == 99


@pytest.mark.parametrize("bits", [32, 64])
def test_what_early_drivers_leave_in_their_note_comes_back(bits: int) -> None:
    empty, data = bytes(bits // 8), written(191205, bits)
    place = data.index(struct.pack("<III4s", 4, len(empty), 4, b"AMD\0") + empty) + 16
    data = patched(data, place, bytes(range(1, len(empty) + 1)))
    assert again(data) == data
    longer = write_container(replace(source_of(read_container(data)), brig=b"longer than before"))
    assert longer[place : place + len(empty)] == bytes(range(1, len(empty) + 1))


def test_programs_without_kernels_come_back() -> None:
    source = ProgramSource("bonaire", 180005, 64, (), brig=b"HSAIL")
    data = write_container(source)
    found = read_container(data)
    names = [section.name for section in found.elf.sections]
    assert names == ["", ".shstrtab", ".strtab", ".symtab", ".comment", ".brig"]
    assert (found.brig, again(data)) == (b"HSAIL", data)
    for driver in (191205, 252700):
        data = write_container(replace(source, driver=driver, read_only=b"read"))
        assert again(data) == data


def test_files_without_metadata_come_back() -> None:
    data = written()
    data = data.replace(b"&__OpenCL_k1_kernel_metadata", b"&__OpenCL_k1_kernel_megadata")
    assert again(data) == data


# ---- changes -------------------------------------------------------------------------------------------------------


def changed(source: ProgramSource, text: str = OTHER) -> ProgramSource:
    other = kernel("tonga", "k0", text, [])
    return replace(source, kernels=(replace(source.kernels[0], code=other.code), *source.kernels[1:]))


@beyond
def test_changes_of_the_same_size_change_nothing_else(variant: Callable[[bytes], bytes]) -> None:
    data = variant(written())
    found = read_container(data)
    source = changed(replace(source_of(found), global_data=b"DATA" * 3, brig=b"brig!"))
    out = write_container(source)
    assert source_of(read_container(out)) == source
    code = found.kernels["k0"]
    start = code.place + code.header.kernel_code_entry_byte_offset
    allowed = {*range(start, start + len(code.code)), *range(data.index(b"data" * 3), data.index(b"data" * 3) + 12)}
    allowed |= {*range(data.index(b"HSAIL", 64), data.index(b"HSAIL", 64) + 5)}
    assert {n for n in range(len(data)) if data[n] != out[n]} <= allowed
    assert len(data) == len(out)


def meaning(found: Container) -> list[object]:
    """Return the content of a file without its source: symbols in order, relocations by their meaning, notes,
    sections."""
    said: list[object] = [found.outside, found.notes]
    for elf in (found.elf, *([found.inner] if found.inner is not None else [])):
        said += [(each.name, each.header.type, each.header.flags, each.header.addralign) for each in elf.sections]
        said += [(each.name, each.kind, each.binding, each.other, each.section) for each in elf.symbols]
        for section in elf.sections:
            said += [(each.type, each.symbol.name, each.addend) for each in elf.relocations(section.name)]
    return said


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("driver", [191205, 200406, 252700])
@beyond
def test_changes_of_size_keep_what_a_source_cannot_hold(
    variant: Callable[[bytes], bytes], driver: int, bits: int
) -> None:
    before = read_container(variant(written(driver, bits)))
    source = source_of(before)
    longer = changed(source, f"{CODE}\n s_nop 0\n s_nop 1")
    first = replace(longer.kernels[0], relocations=source.kernels[0].relocations)
    longer = replace(
        longer, kernels=(first, *longer.kernels[1:]), read_only=source.read_only + b"more", brig=b"longer than before",
        global_data=source.global_data + b"even more", bss_bytes=4096, compile_options="-cl-std=CL2.0 -O3", version="x",
    )  # fmt: skip
    after = read_container(write_container(longer))
    assert source_of(after) == longer
    assert meaning(after) == meaning(before)
    assert write_container(replace(source_of(after), **{
        name: getattr(source, name)
        for name in ("kernels", "read_only", "brig", "global_data", "bss_bytes", "compile_options", "version")
    })) == before.elf.data  # and back again  # fmt: skip


def test_code_that_is_called_does_not_move() -> None:
    source = source_of(read_container(code_outside_kernels(written())))
    data = write_container(changed(source, "s_nop 0\n" * 60))
    assert read_container(data).outside == read_container(code_outside_kernels(written())).outside
    with pytest.raises(WireError) as caught:
        write_container(changed(source, "s_nop 0\n" * 80))
    text = "code after 0x10c of .hsatext would move away from its callers"
    assert text in str(caught.value)
    assert "changes must keep all sizes, or drop the file with origin=None" in str(caught.value)


@beyond
def test_other_kernels_are_refused_where_something_would_be_lost(variant: Callable[[bytes], bytes]) -> None:
    source = source_of(read_container(variant(written())))
    renamed = replace(source, kernels=(replace(source.kernels[0], name="other"), *source.kernels[1:]))
    if variant is a_whole_address:
        assert "other" in read_container(write_container(renamed)).kernels
        return
    with pytest.raises(WireError) as caught:
        write_container(renamed)
    assert "the file " in str(caught.value)
    assert "the source has other kernels, samplers or targets than the file" in str(caught.value)


def test_symbols_within_code_that_changes_are_not_lost() -> None:
    data = written()
    inner = inner_of(read_container(data))
    place = symbol_place(inner, "&input_bc::&_.Samp0")
    text = inner.section(TEXT)
    assert text is not None
    data = patched(data, place + SymbolEntry.offset_of("section"), text.index.to_bytes(2, "little"))
    data = patched(data, place + SymbolEntry.offset_of("value"), (0x104).to_bytes(8, "little"))
    data = patched(data, place + SymbolEntry.offset_of("size"), bytes(8))
    source = source_of(read_container(data))
    assert read_container(write_container(changed(source))).kernels["k0"].code == changed(source).kernels[0].code
    with pytest.raises(WireError, match=r"offset 0x104 of \.hsatext lies in bytes whose replacement has another size"):
        write_container(changed(source, f"s_nop 0\n {CODE}"))


def test_variables_at_the_end_of_data_keep_their_size() -> None:
    data = written()
    place = symbol_place(inner_of(read_container(data)), "&input_bc::&_.Samp1")
    source = source_of(read_container(data))
    assert source.sampler_offsets == (32, 40)
    longer = read_container(write_container(replace(source, read_only=source.read_only + bytes(100))))
    assert [(each.value, each.size) for each in inner_of(longer).symbols if "Samp" in each.name] == [(32, 8), (40, 8)]
    data = patched(data, place + SymbolEntry.offset_of("size"), (6).to_bytes(8, "little"))
    with pytest.raises(WireError, match=r"bytes 0x28..0x2e of \.hsadata_readonly_agent contain bytes whose"):
        write_container(replace(source_of(read_container(data)), read_only=source.read_only[:44]))


def test_a_sampler_in_code_does_not_follow_other_code() -> None:
    data = written()
    inner = inner_of(read_container(data))
    (entry,) = inner.relocations(".rela.hsatext")
    data = patched(data, inner.base + entry.place + RelaEntry.offset_of("type"), b"\4")
    source = source_of(read_container(data))
    with pytest.raises(WireError, match="the relocation of type 4 at 0x104 cannot be moved with the code of kernel k0"):
        write_container(changed(source, f"s_nop 0\n {CODE}"))


@pytest.mark.parametrize("grown", [-4, 4, 8, 100, 252, 260, 1024])
@pytest.mark.parametrize("name", vectors())
def test_files_that_are_moved_are_those_that_are_built(name: str, grown: int) -> None:
    found = read_container(vector(name))
    source = source_of(found)
    nops = bytes.fromhex("000080bf") * (max(grown, 0) // 4)
    kernels = []
    for each in source.kernels:
        code = nops + each.code if grown > 0 or len(each.code) == 4 else each.code[4:]
        moved = len(code) - len(each.code)
        relocations = tuple(replace(one, offset=one.offset + moved) for one in each.relocations)
        kernels.append(replace(each, code=code, relocations=relocations))
    source = replace(source, kernels=tuple(kernels))
    assert resized(source, found) == write_container(replace(source, origin=None))


NEW = [each for each in vectors() if parts(each)[3] > 180005]


@pytest.mark.parametrize("names", ["bare", "zero", "shared"])
@pytest.mark.parametrize("name", NEW)
def test_files_in_any_order_take_other_sizes(name: str, names: str) -> None:
    """Sections out of order, and bytes between them that belong to none, are kept."""
    plain = read_container(vector(name))
    assert plain.inner is not None
    fixed = int(plain.generation is not Generation.CRIMSON)
    order = [*range(fixed), *reversed(range(fixed, len(plain.inner.symbols)))]
    data = with_tables(vector(name), order, names) if not plain.inner.relocations(".rela.hsatext") else vector(name)
    before = read_container(data)
    source = source_of(before)
    kernels = tuple(replace(each, code=each.code + bytes.fromhex("000080bf") * 70) for each in source.kernels)
    source = replace(source, kernels=kernels, compile_options=source.compile_options)
    after = read_container(write_container(source))
    assert source_of(after) == source
    assert meaning(after) == meaning(before)
    assert after.elf.data[64:200] == data[64:200]


@pytest.mark.parametrize("driver", [180005, 191205, 252700])
def test_changes_of_size_are_written_where_nothing_is_lost(driver: int) -> None:
    source = changed(source_of(read_container(written(driver))), f"s_nop 0\n {CODE}")
    out = write_container(source)
    assert source_of(read_container(out)) == source
    assert out == write_container(replace(source, origin=None))
    renamed = replace(source, kernels=(replace(source.kernels[0], name="other"), source.kernels[1]))
    assert list(read_container(write_container(renamed)).kernels) == ["other", "k1"]


def test_another_driver_or_device_is_built_anew() -> None:
    source = source_of(read_container(written()))
    assert write_container(replace(source, driver=200406)) == write_container(
        replace(source, driver=200406, origin=None)
    )
    for moved in (replace(source, device="fiji"), source_of(read_container(written()), device="fiji")):
        found = read_container(write_container(moved))
        assert (found.device, found.target.name) == ("fiji", "gfx803")
    with pytest.raises(WireError, match="device 'x'"):
        source_of(read_container(written()), device="x")


def test_alignments_of_hsail_are_kept() -> None:
    for n in range(8):
        source = ProgramSource(
            "tonga", 252700, 64, (kernel("tonga", "k0", CODE, []),), brig=b"HSAIL", compile_options="o" * n
        )
        data = write_container(source)
        section = read_container(data).elf.section(".brig")
        assert section is not None
        if not section.header.offset % 8:
            break
    data = patched(data, section.place + SectionHeader.offset_of("addralign"), b"\x08")
    assert again(data) == data
    for size in range(1, 9):
        source = replace(source_of(read_container(data)), compile_options="x" * size)
        section = read_container(write_container(source)).elf.section(".brig")
        assert section is not None
        assert (section.header.addralign, section.header.offset % 8) == (8, 0)


def test_alignments_that_nobody_asks_for() -> None:
    for alignment in (3, 1 << 40):
        source = ProgramSource("tonga", 252700, 64, (), bss_bytes=8, bss_alignment=alignment)
        with pytest.raises(WireError, match=f"bss_alignment is {alignment:#x}, expected a power of two up to 0x10000"):
            write_container(source)
