"""Code objects: what is read from them, loading, relocations, refusals."""

import io
import random
from dataclasses import replace
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from softcard.core.errors import BeyondModel, SoftcardError, WireError
from softcard.image.elf import layout as elf
from softcard.image.hsa import msgpack
from softcard.image.hsa.code_object import read_code_object
from softcard.image.hsa.elf import STT_HSA_KERNEL, HsaElf
from softcard.image.hsa.records import CodeProperties, KernelCode, KernelDescriptor, Rsrc1
from softcard.image.hsa.writer import KernelSource, write_code_object
from tests.image.hsa.elves import Elf, Section, Symbol, descriptor, kernel_code, note, notes, one_kernel, record

VECTORS = Path(__file__).parents[2] / "vectors" / "gcn"
OBJECTS = sorted(VECTORS.glob("*.co"))
CODE = elf.SHF_ALLOC | elf.SHF_EXECINSTR
V1, V2 = b"\1\0\0\0\0\0\0\0", b"\2\0\0\0\1\0\0\0"


# -- committed objects


@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: path.stem)
def test_an_elf_library_reads_the_same(path):
    data = path.read_bytes()
    ours, theirs = read_code_object(data).elf, ELFFile(io.BytesIO(data))
    assert [(s.name, s.header.offset, s.header.addr, s.header.size) for s in ours.sections] == [
        (s.name, s["sh_offset"], s["sh_addr"], s["sh_size"]) for s in theirs.iter_sections()
    ]
    assert [(p.offset, p.vaddr, p.filesz, p.memsz) for p in ours.segments] == [
        (p["p_offset"], p["p_vaddr"], p["p_filesz"], p["p_memsz"]) for p in theirs.iter_segments()
    ]
    for name, table in ((".symtab", ours.symbols), (".dynsym", ours.dynamic_symbols)):
        expected = [(s.name, s["st_value"], s["st_size"]) for s in theirs.get_section_by_name(name).iter_symbols()]
        assert [(s.name, s.value, s.size) for s in table] == expected


@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: path.stem)
def test_kernels_of_committed_objects(path):
    code = read_code_object(path.read_bytes())
    assert sorted(code.kernels) == [
        "program_crc32", "program_fft", "program_histogram", "program_matmul", "program_nbody",
        "program_saxpy", "program_stencil",
    ]  # fmt: skip
    kernel = code.kernel("program_histogram")
    assert kernel.group_bytes == 4096
    assert kernel.metadata is not None
    assert kernel.metadata.required_workgroup_size == (64, 1, 1)
    explicit = [(a.offset, a.size, a.kind) for a in kernel.metadata.arguments if not a.is_hidden]
    assert explicit == [(0, 8, "global_buffer"), (8, 8, "global_buffer"), (16, 4, "by_value")]
    assert kernel.kernarg_bytes >= 20
    assert kernel.entry % 256 == 0


def test_kernel_name_that_is_not_there():
    code = read_code_object(OBJECTS[0].read_bytes())
    with pytest.raises(WireError, match="no kernel 'program_saxby'; did you mean 'program_saxpy'"):
        code.kernel("program_saxby")
    with pytest.raises(WireError, match=r"no kernel 'zzzz', it has program_"):
        code.kernel("zzzz")


def test_bases_are_pages():
    with pytest.raises(WireError, match="base is 0x1100, expected a multiple of 4 KiB"):
        read_code_object(OBJECTS[0].read_bytes()).load(0x1100)


# -- versions and targets


def test_v1_by_its_note_and_its_header():
    header = kernel_code(amd_machine_version_major=7, amd_machine_version_stepping=1)
    code = read_code_object(one_kernel(header, V1, flags=0).build())
    assert (code.version, code.target, code.warnings) == ("V1", "gfx701", ())
    assert code.kernel("k").entry == 256


@pytest.mark.parametrize(
    ("os_abi", "abi_version", "version"),
    [(64, 0, "V2"), (66, 0, "mesa3d"), (0, 0, "V2")],
    ids=["hsa", "mesa3d", "no system"],
)
def test_objects_with_amd_kernel_code(os_abi, abi_version, version):
    code = read_code_object(one_kernel(version=V2, os_abi=os_abi, abi_version=abi_version).build())
    assert (code.version, code.target, list(code.kernels)) == (version, "gfx803", ["k"])


def test_notes_win_over_wrong_flags():
    made = one_kernel(version=V2, flags=0x2C)
    made.sections.append(notes(note("AMD", 11, b"amdgcn-amd-amdhsa--gfx803")))
    code = read_code_object(made.build())
    assert code.target == "gfx803"
    assert code.warnings == ("e_flags 0x2c name gfx900, but the notes name gfx803",)
    assert code.flagged == "gfx900"
    assert read_code_object(one_kernel(version=V2, flags=0x2A).build()).flagged == ""


def test_v2_calls_xnack_a_processor():
    made = one_kernel(version=V2, flags=0x2C)
    made.sections.append(notes(note("AMD", 11, b"amdgcn-amd-amdhsa--gfx901")))
    code = read_code_object(made.build())
    assert (code.target, code.features, code.warnings) == ("gfx900", {"xnack": "on"}, ())


@pytest.mark.parametrize(
    ("more", "error", "text"),
    [
        ({"os_abi": 65}, BeyondModel, "code objects of PAL (EI_OSABI 65) are not modelled, at byte 0x7"),
        ({"os_abi": 3}, WireError, "EI_OSABI is 3, expected 64 (AMD HSA) or 66 (mesa3d), at byte 0x7"),
        ({"abi_version": 5}, BeyondModel, "EI_ABIVERSION 5 is not supported: it is later than V6, at byte 0x8"),
    ],
)
def test_systems_that_are_not_known(more, error, text):
    with pytest.raises(error) as caught:
        read_code_object(one_kernel(**more).build())
    assert str(caught.value) == text


# -- kernels


def test_symbols_of_kernels_may_be_unmarked_and_without_size():
    made = one_kernel(version=V2)
    made.symbols[0].kind = elf.STT_FUNC
    made.symbols.append(Symbol("helper", 1, 260, kind=elf.STT_FUNC))
    assert list(read_code_object(made.build()).kernels) == ["k"]


def test_hidden_kernels_are_found():
    made = one_kernel(version=V2)
    made.symbols[0].binding = 0
    assert list(read_code_object(made.build()).kernels) == ["k"]


def test_descriptors_by_their_symbols():
    kd = descriptor(kernel_code_entry_byte_offset=0x100, group_segment_fixed_size=64, private_segment_fixed_size=12)
    made = Elf(abi_version=2)
    made.sections.append(Section(".text", 1, CODE, kd.ljust(260, b"\0"), 256))
    made.symbols += [Symbol("k", 1, 256, kind=elf.STT_FUNC), Symbol("k.kd", 1), Symbol("data", 1, 4)]
    kernel = read_code_object(made.build()).kernel("k")
    assert (kernel.address, kernel.entry, kernel.group_bytes, kernel.private_bytes, kernel.kernarg_bytes) == (
        0,
        256,
        64,
        12,
        0,
    )
    assert not kernel.uses_dynamic_stack


def test_odd_headers_are_warnings():
    properties = record(CodeProperties, enable_sgpr_dispatch_ptr=1, is_dynamic_callstack=1)
    header = kernel_code(kernel_code_entry_byte_offset=-8, kernel_code_properties=properties)
    code = read_code_object(one_kernel(header, V2).build())
    assert code.warnings == (
        "kernel k: user_sgpr_count is 0, but the enabled registers are 2",
        "kernel k: its entry at -0x8 lies outside of the loaded bytes",
    )
    assert code.kernel("k").uses_dynamic_stack


def test_a_header_that_is_cut_off_is_no_kernel():
    made = one_kernel(version=V2)
    made.symbols[0].value = 64
    code = read_code_object(made.build())
    assert (dict(code.kernels), code.warnings) == (
        {},
        ("kernel k: its header at 0x40 lies outside of the loaded bytes",),
    )


def test_metadata_of_several_notes_is_put_together():
    parts = [msgpack.pack({"amdhsa.kernels": [{".name": n, ".symbol": f"{n}.kd"}]}) for n in ("a", "b")]
    made = Elf(abi_version=2)
    made.sections.append(Section(".text", 1, CODE, bytes(512), 256))
    made.sections.append(notes(*(note("AMDGPU", 32, part) for part in parts)))
    made.symbols += [Symbol("a.kd", 1), Symbol("b.kd", 1, 64), Symbol("c.kd", 1, 128)]
    code = read_code_object(made.build())
    names = {name: kernel.metadata.name if kernel.metadata else None for name, kernel in code.kernels.items()}
    assert names == {"a": "a", "b": "b", "c": None}


def test_malformed_metadata_is_a_warning_and_kernels_are_there():
    made = one_kernel(version=V2)
    made.sections.append(notes(note("AMD", 10, b"a: [")))
    code = read_code_object(made.build())
    assert list(code.kernels) == ["k"]
    assert len(code.warnings) == 1
    assert "unsupported YAML in metadata" in code.warnings[0]


GOOD = note("AMD", 5, b"\4\0-O2\0")


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (note("AMD", 10, b"x" * 20)[:-8], "a note of 4 and 20 bytes exceeds the end at"),
        ((0xFFFFFFF0).to_bytes(4, "little") + bytes(16), "a note of 4294967280 and 0 bytes exceeds the end at"),
        (b"\1\0\0\0\2", "the 5 bytes after the last note are not a note, at byte"),
    ],
)
def test_notes_that_cannot_be_read_end_with_a_warning(bad, text):
    made = one_kernel(version=V2)
    made.sections.append(notes(GOOD, bad))
    code = read_code_object(made.build())
    assert (code.version, list(code.kernels), code.notes.producer_options) == ("V2", ["k"], "-O2")
    (warning,) = code.warnings
    assert warning.startswith(text)


def test_a_note_section_that_runs_over_the_file_is_read_as_far_as_it_goes():
    made = one_kernel(version=V2)
    made.sections[-1].size = 1 << 40
    code = read_code_object(made.build())
    assert (code.version, list(code.kernels), code.notes.version) == ("V2", ["k"], (2, 1))
    assert code.warnings[0].startswith("notes at 0x")
    assert "exceed the file's" in code.warnings[0]


@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: path.stem)
def test_damaged_sizes_of_notes_leave_all_kernels(path):
    data = path.read_bytes()
    expected = read_code_object(data)
    for found in expected.elf.notes:
        for at, value in ((0, 0xFFFFFFF0), (4, 0xFFFF0000), (4, 0)):
            broken = bytearray(data)
            broken[found.place + at : found.place + at + 4] = value.to_bytes(4, "little")
            code = read_code_object(bytes(broken))
            assert list(code.kernels) == list(expected.kernels)
            assert code.warnings


# -- without section headers


def without_sections(data):
    """Return the output of ``llvm-objcopy --strip-sections``."""
    out = bytearray(data)
    out[40:48] = bytes(8)  # e_shoff
    out[60:64] = bytes(4)  # e_shnum, e_shstrndx
    return bytes(out)


@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: path.stem)
def test_stripped_of_section_headers(path):
    whole = read_code_object(path.read_bytes())
    code = read_code_object(without_sections(path.read_bytes()))
    assert (code.version, code.target, code.warnings) == (whole.version, whole.target, ())
    assert [each.name for each in code.elf.sections] == ["", ".dynstr", ".dynsym", ".rela.dyn", ".rel.dyn"]
    assert {each.name: each.value for each in code.elf.dynamic_symbols} == {
        each.name: each.value for each in whole.elf.dynamic_symbols
    }
    assert {name: (each.address, each.header, each.metadata) for name, each in code.kernels.items()} == {
        name: (each.address, each.header, each.metadata) for name, each in whole.kernels.items()
    }
    assert code.load(BASE).data[64:] == whole.load(BASE).data[64:]  # the ELF header is loaded, too


def dynamic(*tags, table=b""):
    """A file without section headers whose only segment is all of it, with these tags at 0x100, `table` at 0x200."""
    entries = b"".join(tag.to_bytes(8, "little") + value.to_bytes(8, "little") for tag, value in tags)
    size = 0x1000
    made = Elf(type=elf.ET_DYN, header={"shoff": 0, "shnum": 0, "shstrndx": 0})
    made.segments = [
        {"type": elf.PT_LOAD, "filesz": size, "memsz": size},
        {"type": elf.PT_DYNAMIC, "offset": 0x100, "vaddr": 0x100, "filesz": len(entries), "memsz": len(entries)},
    ]
    out = bytearray(made.build().ljust(size, b"\0"))
    out[0x100 : 0x100 + len(entries)] = entries
    out[0x200 : 0x200 + len(table)] = table
    return bytes(out)


SYSV = b"".join(n.to_bytes(4, "little") for n in (1, 2, 1, 0, 0))
GNU = b"".join(n.to_bytes(4, "little") for n in (1, 1, 1, 0, 0, 0, 1, 3))  # one bucket, one symbol, from number 1 on


@pytest.mark.parametrize(("tag", "table"), [(4, SYSV), (0x6FFFFEF5, GNU)], ids=["sysv", "gnu"])
def test_hash_tables_count_symbols(tag, table):
    symbol = bytes(24) + elf.SymbolEntry(name_offset=1, info=17, other=0, section=1, value=64, size=8).pack()
    data = dynamic((tag, 0x200), (6, 0x300), (5, 0x400), (10, 9), table=table.ljust(0x100, b"\0") + symbol)
    data = data[:0x400] + b"\0counter\0" + data[0x409:]
    (_, found) = HsaElf(data).dynamic_symbols
    assert (found.name, found.value, found.size) == ("counter", 64, 8)


@pytest.mark.parametrize(
    ("tags", "table", "text"),
    [
        (((4, 0x200), (6, 0x300)), SYSV[:4] + b"\xff\xff\xff\xff", "the dynamic symbol table at 0x300..0x1800000"),
        (
            ((4, 0x20000),),
            b"",
            "the dynamic hash table at 0x20000..0x20008 lies outside of all segments, at byte 0x100",
        ),
        (((0x6FFFFEF5, 0x200),), b"\xff" * 16, "the dynamic hash table at 0x80000"),
        (((0x6FFFFEF5, 0x200),), GNU[:-4], "the last chain of the dynamic hash table does not end, at byte 0x21c"),
        (
            ((7, 0xF00), (8, 0x1000)),
            b"",
            "the dynamic relocation table at 0xf00..0x1f00 lies outside of all segments, at byte 0x100",
        ),
    ],
)
def test_dynamic_tables_that_cannot_be(tags, table, text):
    with pytest.raises(WireError) as caught:
        HsaElf(dynamic(*tags, table=table))
    assert str(caught.value).startswith(text)


# -- loading

BASE = 0x7000_0000_1000


def with_relocation(kind, addend, symbol=Symbol("there", 2, 16)):  # noqa: B008
    made = Elf()
    made.sections.append(Section(".text", 1, CODE, bytes(512), 256))
    made.sections.append(Section(".data", 1, elf.SHF_ALLOC | elf.SHF_WRITE, bytes(32), 64))
    made.symbols.append(symbol)
    made.rela(1, (8, kind, 1, addend))
    return made


S, P, A = BASE + 512 + 16, BASE + 8, 4
GOT = BASE + 512 + 32


@pytest.mark.parametrize(
    ("kind", "value", "size"),
    [
        (1, S + A, 4), (2, (S + A) >> 32, 4), (3, S + A, 8), (4, S + A - P, 4), (5, S + A - P, 8), (6, S + A, 4),
        (7, GOT + A - P, 4), (8, GOT + A - P, 4), (9, (GOT + A - P) >> 32, 4), (10, S + A - P, 4),
        (11, (S + A - P) >> 32, 4),
        (13, BASE + A, 8), (14, (S + A - P - 4) >> 2, 2), (0, 0, 4),
    ],
)  # fmt: skip
def test_relocations(kind, value, size):
    data = read_code_object(with_relocation(kind, A).build()).load(BASE).data
    assert data[8 : 8 + size] == (value & (1 << 8 * size) - 1).to_bytes(size, "little")
    assert not any(data[:8])
    assert not any(data[8 + size : 512])
    if kind in (7, 8, 9):
        assert data[GOT - BASE : GOT - BASE + 8] == S.to_bytes(8, "little")


def test_negative_differences_have_a_high_half_of_ones():
    data = read_code_object(with_relocation(11, -4096).build()).load(BASE).data
    assert data[8:12] == b"\xff\xff\xff\xff"


def test_addends_may_stand_in_place():
    made = Elf()
    made.sections.append(Section(".text", 1, CODE, bytes(8) + b"\xfc\xff\xff\xff" + bytes(500), 256))
    made.symbols.append(Symbol("there", 1, 100))
    made.rel(1, (8, 4, 1))
    assert read_code_object(made.build()).load(BASE).data[8:12] == (100 - 4 - 8).to_bytes(4, "little")


def test_external_symbols():
    made = with_relocation(3, 0, Symbol("agent_global", 0, kind=0))
    code = read_code_object(made.build())
    assert code.missing == ("agent_global",)
    assert code.load(BASE, {"agent_global": 0x1234_5678_9ABC}).data[8:16] == (0x1234_5678_9ABC).to_bytes(8, "little")
    with pytest.raises(
        WireError, match="symbol 'agent_global' is undefined: pass its address in externals, at byte 0x"
    ):
        code.load(BASE)


def test_weak_symbols_may_stay_undefined():
    code = read_code_object(with_relocation(3, 5, Symbol("maybe", 0, kind=0, binding=2)).build())
    assert code.missing == ()
    assert code.load(BASE).data[8:16] == (5).to_bytes(8, "little")


def test_absolute_symbols_do_not_move():
    code = read_code_object(with_relocation(3, 1, Symbol("fixed", elf.SHN_ABS, 0x10)).build())
    assert code.load(BASE).data[8:16] == (0x11).to_bytes(8, "little")


def test_bss_and_commons_are_zeros_behind_the_rest():
    made = Elf()
    made.sections.append(Section(".text", 1, CODE, b"\1" * 256, 256))
    made.sections.append(Section(".bss", elf.SHT_NOBITS, elf.SHF_ALLOC | elf.SHF_WRITE, b"", 64, size=100))
    made.symbols += [Symbol("zeros", 2, 4), Symbol("common", elf.SHN_COMMON, 32, 40)]
    loaded = read_code_object(made.build()).load(BASE)
    assert loaded.symbols == {"zeros": BASE + 260, "common": BASE + 384}
    assert loaded.data[:256] == b"\1" * 256
    assert loaded.data[256:] == bytes(424 - 256)
    assert written(loaded) == loaded.data


def test_linked_objects_go_where_their_segments_say():
    made = Elf(type=elf.ET_DYN)
    code = kernel_code() + bytes(64)
    made.sections.append(Section(".text", 1, CODE, code, 256, addr=0x5100))
    made.segments.append({"type": 1, "flags": 5, "offset": 256, "vaddr": 0x5100, "filesz": len(code), "memsz": 0x1000})
    made.symbols.append(Symbol("k", 1, 0x5100, kind=STT_HSA_KERNEL))
    loaded = read_code_object(made.build()).load(BASE)
    assert loaded.kernels == {"k": BASE + 0x100}
    assert loaded.data[0x100 : 0x100 + len(code)] == code
    assert len(loaded.data) == 0x1100
    assert written(loaded) == loaded.data


def test_segments_that_overlap_are_written_in_their_order():
    made = Elf(type=elf.ET_DYN)
    code = bytes(range(1, 129))
    made.sections.append(Section(".text", 1, CODE, code, 256, addr=0x1000))
    for vaddr, filesz in ((0x1020, 128), (0x1010, 64), (0x1100, 16), (0x1030, 8)):
        made.segments.append(
            {"type": 1, "flags": 5, "offset": 512, "vaddr": vaddr, "filesz": filesz, "memsz": filesz + 32}
        )
    loaded = read_code_object(made.build()).load(BASE)
    assert loaded.data[0x10:0x20] == code[:16]
    assert loaded.data[0x30:0x38] == code[:8]
    assert written(loaded) == loaded.data


@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: path.name)
def test_what_is_written_piece_by_piece_is_the_whole_object(path):
    code = read_code_object(path.read_bytes())
    loaded = code.load(BASE, dict.fromkeys(code.missing, 0x1234_5678_9ABC))
    assert written(loaded) == loaded.data


def written(loaded):
    """Return the content of dirty memory after all pieces were written."""
    memory = bytearray(b"\xa5" * len(loaded.data))
    for address, data in loaded.pieces():
        memory[address - loaded.base : address - loaded.base + len(data)] = data
    return memory


def test_relocations_that_the_linker_kept_are_done():
    made = Elf(type=elf.ET_DYN)
    made.sections.append(Section(".text", 1, CODE, bytes(range(256)), 256, addr=0x1000))
    made.segments.append({"type": 1, "flags": 5, "offset": 256, "vaddr": 0x1000, "filesz": 256, "memsz": 256})
    made.symbols.append(Symbol("there", 1, 0x1010))
    made.rela(1, (0x1008, 8, 1, 4), (0x1010, 3, 1, 0))
    assert read_code_object(made.build()).load(BASE).data == bytes(range(256))


# -- refusals


def refusal(data):
    with pytest.raises(WireError) as caught:
        read_code_object(data)
    return str(caught.value)


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ({"magic": b"\x7fELG"}, "file starts with 7f 45 4c 47, expected 7f 45 4c 46 (ELF), at byte 0x0"),
        ({"file_class": 1}, "EI_CLASS is 0x1, expected 2 (64-bit), at byte 0x4"),
        ({"data_encoding": 2}, "EI_DATA is 0x2, expected 1 (little-endian), at byte 0x5"),
        ({"machine": 243}, "e_machine is 243, expected 224 (AMD GPU), at byte 0x12"),
        ({"type": 4}, "e_type is 4, expected 1 (relocatable), 2 (executable) or 3 (shared), at byte 0x10"),
        (
            {"phnum": 0xFFFF},
            "e_phnum is 0xffff (PN_XNUM), expected a number of program headers that fits e_phnum, at byte 0x38",
        ),
        ({"phnum": 1, "phentsize": 8}, "entries of the program header table have 8 bytes, expected 56, at byte 0x0"),
        ({"shentsize": 63}, "entries of the section header table have 63 bytes, expected 64, at byte 0x260"),
        ({"type": 3}, "the linked object has no segment to load, expected at least one PT_LOAD, at byte 0x0"),
    ],
)
def test_headers_that_cannot_be(header, text):
    assert refusal(one_kernel().build_with(header)) == text


def test_files_that_end_too_early():
    data = one_kernel().build()
    assert refusal(b"") == "file starts with nothing, expected 7f 45 4c 46 (ELF), at byte 0x0"
    assert refusal(data[:40]).startswith("FileHeader needs 64 bytes, but the data has 40 left")
    assert "section header table at 0x260.." in refusal(data[:-1])
    assert "exceeds the file's" in refusal(data[:-1])


@pytest.mark.parametrize(
    ("segment", "text"),
    [
        ({"offset": 1 << 40, "filesz": 1, "memsz": 1}, "segment at 0x10000000000..0x10000000001 exceeds the file's"),
        ({"filesz": 8, "memsz": 4}, "segment has p_filesz 0x8 above its p_memsz 0x4, at byte 0x40"),
        (
            {"memsz": 1 << 40},
            "the object needs 0x10000000000 bytes of memory, expected at most 0x10000000, at byte 0x40",
        ),
        ({"vaddr": 1 << 63, "memsz": 1 << 62}, "the object needs 0x4000000000000000 bytes of memory"),
    ],
)
def test_segments_that_cannot_be(segment, text):
    made = one_kernel(type=elf.ET_DYN)
    made.segments.append({"type": 1} | segment)
    assert refusal(made.build()).startswith(text)


def test_segments_that_claim_the_file_again_and_again():
    made = one_kernel(type=elf.ET_DYN)
    made.segments += [{"type": 1, "filesz": 400, "memsz": 400}] * 40
    assert "segments up to here claim" in refusal(made.build())


@pytest.mark.parametrize(
    ("section", "text"),
    [
        (Section(".big", elf.SHT_NOBITS, 2, size=1 << 60), "the object needs 0x10000000000001"),
        (Section(".odd", 1, 2, b"x", 3), "section .odd has alignment 0x3, expected a power of two up to 0x10000"),
        (Section(".far", 1, 2, b"x", 4, size=1 << 20), "section .far at 0x"),
    ],
)
def test_sections_that_cannot_be(section, text):
    made = one_kernel()
    made.sections.append(section)
    assert refusal(made.build()).startswith(text)


def test_objects_without_anything_to_load():
    assert refusal(Elf().build()).startswith("the object has no section to load, expected at least one")


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ((8, 99, 1, 0), "relocation type 99 is unknown for AMD GPUs"),
        ((8, 3, 7, 0), "a relocation refers to symbol 7, but the table has 2 symbols"),
        ((4096, 3, 1, 0), "relocation R_AMDGPU_ABS64 at 0x1000 lies outside of the loaded bytes"),
        ((257, 3, 1, 0), "relocation R_AMDGPU_ABS64 at 0x101 lies outside of the loaded bytes"),
        (
            (8, 8, 0, 0),
            "relocation R_AMDGPU_GOTPCREL32_LO refers to a symbol, but the linked object has no symbol table",
        ),
    ],
)
def test_relocations_that_cannot_be(entry, text):
    made = one_kernel()
    made.rela(1, entry)
    assert refusal(made.build()).startswith(text)


def test_symbol_names_that_lie_elsewhere():
    data = bytearray(one_kernel().build())
    parsed = HsaElf(bytes(data))
    place = parsed.symbols[1].place
    data[place : place + 4] = (5000).to_bytes(4, "little")
    assert refusal(bytes(data)).startswith("a name at 0x1388 does not lie in the string table of 0x3 bytes, at byte")


def damaged(data, rng):
    """Bytes with a few of them changed, or cut off."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        at = rng.choice(
            [rng.randrange(64), rng.randrange(len(data)), rng.randrange(max(len(data) - 1100, 0), len(data))]
        )
        data[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    return bytes(data[: rng.randrange(len(data))] if rng.random() < 0.1 else data)


@pytest.mark.slow
def test_damaged_objects_are_read_or_refused():
    rng = random.Random(7)
    sources = [path.read_bytes() for path in OBJECTS[::2]] + [
        with_relocation(9, 4).build(),
        one_kernel(version=V1).build(),
        without_sections(OBJECTS[0].read_bytes()),
        without_sections(OBJECTS[-1].read_bytes()),
    ]
    read = 0
    for _ in range(800):
        try:
            code = read_code_object(damaged(rng.choice(sources), rng))
            code.load(BASE)
            read += 1
        except SoftcardError:
            continue
    assert 100 < read < 790


def test_headers_of_other_processors_are_not_complained_of():
    """The bits that are reserved up to GFX9 have a meaning there."""
    odd = replace(KernelDescriptor.parse(bytes(64)), compute_pgm_rsrc1=Rsrc1.parse((0x1F << 27).to_bytes(4, "little")))
    for name, texts in (("gfx900", ("kernel k: Rsrc1 byte 0x0 bits 31-27 must be 0",)), ("gfx1030", ())):
        source = KernelSource("k", bytes(256), odd)
        assert read_code_object(write_code_object("V5", name, [source])).warnings == texts


@pytest.mark.parametrize(("version", "count"), [("V1", 0), ("V2", 1)])
def test_what_the_finalizer_writes_is_not_complained_of(version, count):
    header = KernelCode.parse(kernel_code(reserved_vgpr_first=4))
    made = write_code_object(version, "gfx803", [KernelSource("k", bytes(256), header)])
    assert len(read_code_object(made).warnings) == count
