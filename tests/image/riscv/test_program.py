"""The ELF reader: rules of the loader, one refusal per mistake, an ELF library as oracle, and mutations."""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given, settings
from hypothesis import strategies as st

from softcard.core.errors import WireError
from softcard.image.riscv.program import MAX_SEGMENT_BYTES, read_elf

KERNELS = Path(__file__).parents[2] / "vectors" / "refsi" / "kernels.elf"
DATA = KERNELS.read_bytes()


def elf64(
    segments: list[tuple[int, int, int, int, int, int]],
    *,
    machine: int = 243,
    sections: bytes = b"",
    shnum: int = 0,
    body: bytes = b"",
    phentsize: int = 56,
) -> bytes:
    """A small ELF64: (type, flags, offset, vaddr, filesz, memsz) per segment, then section headers, then `body`."""
    shoff = 64 + 56 * len(segments)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    head = struct.pack(
        "<HHIQQQIHHHHHH",
        2,
        machine,
        1,
        0x10000,
        64,
        shoff if shnum else 0,
        0,
        64,
        phentsize,
        len(segments),
        64,
        shnum,
        0,
    )
    table = b"".join(struct.pack("<IIQQQQQQ", t, f, o, v, 0xBAD0000, fs, ms, 1) for t, f, o, v, fs, ms in segments)
    return ident + head + table + sections + body


def section(kind: int, offset: int, size: int, link: int = 0, entsize: int = 0) -> bytes:
    return struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, offset, size, link, 0, 1, entsize)


def patched(offset: int, form: str, value: int) -> bytes:
    data = bytearray(DATA)
    struct.pack_into(form, data, offset, value)
    return bytes(data)


SHOFF = struct.unpack_from("<Q", DATA, 40)[0]
SYMTAB_HEADER = SHOFF + 5 * 64
LOAD_HEADER = 64 + 56


def refuse(data: bytes, *texts: str) -> None:
    with pytest.raises(WireError) as caught:
        read_elf(data)
    for text in texts:
        assert text in str(caught.value)
    assert caught.value.path[0].kind == "byte"


def test_kernels_elf_agrees_with_an_elf_library() -> None:
    image = read_elf(DATA)
    oracle = ELFFile(io.BytesIO(DATA))
    loads = [s for s in oracle.iter_segments() if s["p_type"] == "PT_LOAD" and s["p_memsz"]]
    assert [(s.address, s.data, s.memory_size, s.flags) for s in image.segments] == [
        (s["p_vaddr"], s.data(), s["p_memsz"], s["p_flags"]) for s in loads
    ]
    assert (image.machine, image.bits, image.entry) == (243, 64, oracle["e_entry"])
    assert image.symbols is not None
    table = oracle.get_section_by_name(".symtab")
    globals_ = {s.name: s["st_value"] for s in table.iter_symbols() if s.name and s["st_info"]["bind"] == "STB_GLOBAL"}
    assert {name: s.address for name, s in image.symbols.items() if s.is_global} == globals_


def test_kernels_by_name() -> None:
    image = read_elf(DATA)
    assert image.symbol("k_vecadd").address == 0x10002
    assert image.symbol("k_vecadd").size == 46
    with pytest.raises(WireError, match=r"no symbol 'k_vecad' among its \d+; did you mean 'k_vecadd'"):
        image.symbol("k_vecad")


def test_addresses_by_name() -> None:
    image = read_elf(DATA)
    assert image.name_at(0x10002) == "k_vecadd"
    assert image.name_at(0x10010) == "k_vecadd+0xe"
    assert image.name_at(0x2000_0000) == ""
    assert image.name_at(0) == ""


def test_segments_follow_the_loader() -> None:
    body = b"abcdefgh"
    start = 64 + 56 * 3
    image = read_elf(elf64([(1, 5, start, 0x10000, 8, 0x1000), (1, 6, 0, 0x9000, 0, 0), (7, 0, 0, 0, 0, 0)], body=body))
    (segment,) = image.segments
    assert (segment.address, segment.data, segment.memory_size, segment.end) == (0x10000, body, 0x1000, 0x11000)


def test_elf32() -> None:
    ident = b"\x7fELF\x01\x01\x01" + bytes(9)
    head = struct.pack("<HHIIIIIHHHHHH", 2, 243, 1, 0x80, 52, 0, 0, 52, 32, 1, 40, 0, 0)
    program = struct.pack("<8I", 1, 84, 0x80, 0xBAD, 4, 8, 5, 1)
    image = read_elf(ident + head + program + b"\x01\x02\x03\x04")
    assert (image.bits, image.entry) == (32, 0x80)
    assert [(s.address, s.data, s.memory_size) for s in image.segments] == [(0x80, b"\x01\x02\x03\x04", 8)]


def test_stripped_file_loads_but_has_no_names() -> None:
    start = 64 + 56
    image = read_elf(elf64([(1, 5, start, 0x10000, 4, 4)], body=b"code"))
    assert image.symbols is None
    assert image.name_at(0x10000) == ""
    with pytest.raises(WireError, match=r"no symbol table \(stripped\), expected \.symtab and \.strtab to look up 'k'"):
        image.symbol("k")


def names(*entries: tuple[int, int, int], strings: bytes = b"\0twice\0") -> bytes:
    """An ELF with these (name, info, value) symbols in section 1 and `strings`."""
    at = 64 + 2 * 64
    table = b"".join(struct.pack("<IBBHQQ", n, info, 0, 1, value, 0) for n, info, value in entries)
    sections = section(2, at, len(table), 1, 24) + section(3, at + len(table), len(strings))
    return elf64([], sections=sections, shnum=2, body=table + strings)


def test_global_symbols_beat_local_ones_and_the_first_wins() -> None:
    image = read_elf(names((1, 0x00, 1), (1, 0x10, 2), (1, 0x10, 3), (1, 0x00, 4)))
    assert image.symbol("twice").address == 2


def test_name_that_is_no_utf8() -> None:
    assert read_elf(names((1, 0x10, 2), strings=b"\0\xff\xfe\0")).symbol("\\xff\\xfe").address == 2


REFUSALS: dict[str, tuple[Callable[[], bytes], tuple[str, ...]]] = {
    "empty": (lambda: b"", ("file starts with nothing", "at byte 0x0")),
    "magic": (lambda: b"MZ" + DATA[2:], ("file starts with 4d 5a 4c 46, expected 7f 45 4c 46 (ELF)",)),
    "ident cut": (lambda: DATA[:10], ("ends inside e_ident, after 10 of 16 bytes",)),
    "class": (lambda: patched(4, "B", 3), ("EI_CLASS is 0x3", "at byte 0x4")),
    "endian": (lambda: patched(5, "B", 2), ("EI_DATA is 0x2, expected 1 (little-endian)", "at byte 0x5")),
    "header cut": (lambda: DATA[:40], ("ends inside the ELF header, after 40 of 64 bytes",)),
    "machine": (lambda: patched(18, "<H", 62), ("e_machine is 62, expected 243 (RISC-V)", "at byte 0x12")),
    "phentsize": (lambda: patched(54, "<H", 8), ("entries of the program header table have 8 bytes, expected 56",)),
    "phoff": (lambda: patched(32, "<Q", 1 << 63), ("program header table at 0x8000000000000000..", "exceeds")),
    "phnum": (lambda: patched(56, "<H", 0xFFFF), ("e_phnum is 0xffff",)),
    "filesz > memsz": (
        lambda: patched(LOAD_HEADER + 40, "<Q", 1),
        ("p_filesz 0x590 above its p_memsz 0x1", f"at byte {LOAD_HEADER:#x}"),
    ),
    "memsz lie": (
        lambda: patched(LOAD_HEADER + 40, "<Q", MAX_SEGMENT_BYTES + 1),
        ("p_memsz 0x100000001, expected at most 0x100000000",),
    ),
    "address space": (lambda: patched(LOAD_HEADER + 16, "<Q", (1 << 64) - 1), ("exceeds the address space",)),
    "segment outside": (lambda: patched(LOAD_HEADER + 8, "<Q", len(DATA)), ("segment at", "exceeds the file")),
    "segments overlap": (
        lambda: elf64([(1, 5, 0, 0x10000, 64 + 56 * 9, 0x1000)] * 9),
        ("segments up to here claim",),
    ),
    "shentsize": (lambda: patched(58, "<H", 63), ("entries of the section header table have 63 bytes, expected 64",)),
    "shoff": (lambda: patched(40, "<Q", len(DATA)), ("section header table at", "exceeds")),
    "symtab link": (lambda: patched(SYMTAB_HEADER + 40, "<I", 99), ("sh_link of .symtab is 99",)),
    "symtab link kind": (lambda: patched(SYMTAB_HEADER + 40, "<I", 1), ("sh_link of .symtab is 1",)),
    "symtab entsize": (lambda: patched(SYMTAB_HEADER + 56, "<Q", 0), ("sh_entsize of .symtab is 0x0, expected 0x18",)),
    "symtab size": (lambda: patched(SYMTAB_HEADER + 32, "<Q", 1 << 60), (".symtab at", "exceeds")),
    "strtab size": (lambda: patched(SYMTAB_HEADER + 64 + 32, "<Q", 1 << 60), (".strtab at", "exceeds")),
    "name outside": (
        lambda: names((99, 0x10, 0)),
        ("st_name is 0x63, expected an offset below the 0x7 bytes of .strtab",),
    ),
    "name open": (lambda: names((1, 0x10, 0), strings=b"\0open"), ("symbol name does not end within .strtab",)),
    "name long": (lambda: names((1, 0x10, 0), strings=b"\0" + b"x" * 5000 + b"\0"), ("does not end", "4096 bytes")),
    "names overlap": (
        lambda: names(*[(1, 0x10, 0)] * 200, strings=b"\0" + b"x" * 4000 + b"\0"),
        ("symbol names up to here claim",),
    ),
}


@pytest.mark.parametrize("mistake", REFUSALS)
def test_refusals(mistake: str) -> None:
    make, texts = REFUSALS[mistake]
    refuse(make(), *texts)


def survive(data: bytes) -> None:
    """Either an image or a `WireError` with its byte: any other exception fails the test."""
    error = None
    try:
        image = read_elf(data)
        image.name_at(image.entry)
    except WireError as refusal:
        error = refusal
    assert error is None or error.path[0].kind == "byte"


def test_every_truncation_is_survived() -> None:
    for size in range(0, len(DATA), 7):
        survive(DATA[:size])


@pytest.mark.slow
def test_mutations_are_survived() -> None:
    random_ = random.Random(1)
    hot = [*range(64 + 2 * 56), *range(SHOFF, len(DATA))]
    for _ in range(5000):
        data = bytearray(DATA)
        for _ in range(random_.randint(1, 8)):
            place = random_.choice(hot) if random_.random() < 0.8 else random_.randrange(len(data))
            data[place] = random_.choice((0, 1, 0x7F, 0x80, 0xFF, random_.randrange(256)))
        survive(bytes(data))


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300), st.sampled_from((b"", b"\x7fELF", b"\x7fELF\x02\x01", DATA[:20], DATA[:64])))
def test_any_bytes_are_survived(tail: bytes, head: bytes) -> None:
    survive(head + tail)
