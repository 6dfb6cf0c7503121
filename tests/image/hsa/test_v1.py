"""V1 objects as AMD's finalizer and early LLVM wrote them: segments of types of their own, symbols within sections."""

import itertools

import pytest

from softcard.core.errors import BeyondModel, WireError
from softcard.image.elf import layout as elf
from softcard.image.hsa.code_object import read_code_object
from softcard.image.hsa.elf import PT_HSA_LOAD_CODE_AGENT, SHF_HSA_AGENT, SHF_HSA_CODE, STT_HSA_KERNEL
from tests.image.hsa.elves import Elf, Section, Symbol, kernel_code, note, notes

BASE = 0x7000_0000_1000
END = (0xBF810000).to_bytes(4, "little")
TEXT, DATA = 0x1000, 0x2000
VERSION = note("AMD", 1, b"\1\0\0\0\0\0\0\0")
ISA = note("AMD", 3, b"\4\0\7\0" + b"".join(n.to_bytes(4, "little") for n in (8, 0, 3)) + b"AMD\0AMDGPU\0")
FLAGS = elf.SHF_ALLOC | elf.SHF_WRITE | elf.SHF_EXECINSTR | SHF_HSA_CODE | SHF_HSA_AGENT


def two_segments(text=TEXT, data=DATA, kind=PT_HSA_LOAD_CODE_AGENT, from_section=True, **more):
    """Code at `text`, 16 bytes of an agent's global data at `data`, a kernel and a variable in each."""
    made = Elf(**({"type": elf.ET_EXEC, "flags": 0} | more))
    code = kernel_code() + END
    made.sections.append(Section(".hsatext", 1, FLAGS, code, 256, addr=text))
    made.sections.append(Section(".hsadata", 1, elf.SHF_ALLOC | elf.SHF_WRITE, bytes(range(16)), 256, addr=data))
    made.sections.append(notes(VERSION, ISA))
    made.sections[-1].flags = 0
    other = elf.PT_LOAD if kind == elf.PT_LOAD else 0x6000_0001
    size = len(code)
    made.segments.append({"type": kind, "flags": 7, "offset": 256, "vaddr": text, "filesz": size, "memsz": size})
    made.segments.append({"type": other, "flags": 6, "offset": 768, "vaddr": data, "filesz": 16, "memsz": 64})
    made.symbols.append(Symbol("&k", 1, 0 if from_section else text, kind=STT_HSA_KERNEL))
    made.symbols.append(Symbol("&counter", 2, 8 if from_section else data + 8, 8))
    return made


@pytest.mark.parametrize(
    ("kind", "type", "from_section"),
    list(itertools.product((PT_HSA_LOAD_CODE_AGENT, elf.PT_LOAD), (elf.ET_EXEC, elf.ET_DYN), (True, False))),
)
def test_every_shape_that_is_unambiguous_is_read(kind, type, from_section):
    code = read_code_object(two_segments(kind=kind, type=type, from_section=from_section).build())
    assert (code.version, code.target, code.warnings, code.missing) == ("V1", "gfx803", (), ())
    loaded = code.load(BASE)
    assert loaded.kernels == {"&k": BASE}
    assert loaded.symbols == {"&k": BASE, "&counter": BASE + DATA - TEXT + 8}
    assert loaded.data[DATA - TEXT : DATA - TEXT + 16] == bytes(range(16))
    assert code.kernel("&k").entry == 256


def test_segments_may_begin_at_0():
    code = read_code_object(two_segments(0, 0x400).build())
    assert code.load(BASE).symbols == {"&k": BASE, "&counter": BASE + 0x408}


def test_a_value_that_can_be_both_counts_from_its_section_where_segments_are_amds():
    made = two_segments(0x100, 0x400)
    made.sections[0].data += bytes(0x200)
    made.segments[0] |= {"filesz": 0x304, "memsz": 0x304}
    made.segments[1]["offset"] = 1280
    made.symbols[:] = [Symbol("there", 1, 0x200)]
    assert read_code_object(made.build()).places == {"there": 0x300}
    for segment in made.segments:
        segment["type"] = elf.PT_LOAD
    assert read_code_object(made.build()).places == {"there": 0x200}


@pytest.mark.parametrize(("kind", "shift", "size"), [(1, 0, 4), (2, 32, 4), (3, 0, 8)])
def test_relocations_count_from_the_section_that_is_relocated(kind, shift, size):
    made = two_segments()
    made.rela(2, (4, kind, 2, 16))
    data = read_code_object(made.build()).load(BASE).data
    value = (BASE + DATA - TEXT + 8 + 16) >> shift
    at = DATA - TEXT + 4
    assert data[at : at + size] == (value & (1 << 8 * size) - 1).to_bytes(size, "little")
    assert data[:256] == kernel_code()


def test_relocations_of_what_is_not_loaded_are_left_out():
    made = two_segments()
    made.sections.append(Section(".debug", 1, 0, bytes(16), 1))
    made.rela(4, (0, 3, 2, 0))
    code = read_code_object(made.build())
    assert code.load(BASE).data == read_code_object(two_segments().build()).load(BASE).data


@pytest.mark.parametrize(("kind", "name"), [(4, "R_AMDGPU_INIT_SAMPLER"), (5, "R_AMDGPU_INIT_IMAGE")])
def test_images_and_samplers_of_a_loader_are_beyond_the_model(kind, name):
    made = two_segments()
    made.rela(2, (0, kind, 2, 0))
    with pytest.raises(BeyondModel) as caught:
        read_code_object(made.build())
    text = f"relocation {name} is not supported: it needs images or samplers that a loader creates, at byte 0x"
    assert str(caught.value).startswith(text)


def test_later_types_of_relocation_are_not_known():
    made = two_segments()
    made.rela(2, (0, 13, 0, 0))
    with pytest.raises(WireError, match="relocation type 13 is unknown for AMD GPUs, at byte 0x"):
        read_code_object(made.build())


def test_variables_of_others_are_external():
    made = two_segments()
    made.symbols.append(Symbol("&program_global", 0, kind=5))
    made.rela(2, (0, 3, 3, 0))
    code = read_code_object(made.build())
    assert code.missing == ("&program_global",)
    data = code.load(BASE, {"&program_global": 0x1234}).data
    assert data[DATA - TEXT : DATA - TEXT + 8] == (0x1234).to_bytes(8, "little")
