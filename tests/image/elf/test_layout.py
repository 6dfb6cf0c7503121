"""Layout and writer: both word sizes have the same fields, and what was written is read."""

from __future__ import annotations

import io

import pytest
from elftools.elf.elffile import ELFFile

from softcard.image.elf.layout import SHT_PROGBITS, SHT_STRTAB, SHT_SYMTAB, layout_of
from softcard.image.elf.reader import ElfFile
from softcard.image.elf.writer import SHSTRTAB, ElfPlan, SectionPart, SymbolWriter

SIZES = {32: (52, 32, 40, 16, 8, 12), 64: (64, 56, 64, 24, 16, 24)}


@pytest.mark.parametrize("bits", [32, 64])
def test_records_have_the_sizes_of_the_abi_and_the_same_fields(bits: int) -> None:
    layout, wide = layout_of(bits), layout_of(64)
    for name, size in zip(("header", "segment", "section", "symbol", "rel", "rela"), SIZES[bits], strict=True):
        record = getattr(layout, name)
        assert record.size_bytes == size
        assert {slot.name for slot in record.slots} == {slot.name for slot in getattr(wide, name).slots}


def test_32_bit_relocations_hold_symbol_and_type_in_one_word() -> None:
    entry = layout_of(32).rela.parse(bytes.fromhex("04000000 03070000 fcffffff"))
    assert (entry.offset, entry.type, entry.symbol, entry.addend) == (4, 3, 7, -4)


@pytest.mark.parametrize("bits", [32, 64])
def test_what_was_written_is_read(bits: int) -> None:
    symbols = SymbolWriter(bits)
    symbols.add("here", 1, 2, 3, 1, 1)
    entry_bytes = layout_of(bits).symbol.size_bytes
    sections = (
        SectionPart(".data", SHT_PROGBITS, b"abcdef"),
        SectionPart(".symtab", SHT_SYMTAB, bytes(symbols.table), 0, 8, entry_bytes, ".strtab", locals=1),
        SectionPart(".strtab", SHT_STRTAB, bytes(symbols.names)),
        SectionPart(SHSTRTAB, SHT_STRTAB),
    )
    data = ElfPlan(bits, 224, 1, 0, sections).pack()
    ours, theirs = ElfFile(data, bits), ELFFile(io.BytesIO(data))
    assert [each.name for each in ours.sections] == [each.name for each in theirs.iter_sections()]
    assert ours.contents(ours.section(".data")) == b"abcdef"
    (null, here) = ours.symbol_table(SHT_SYMTAB)
    assert null.is_null
    assert (here.name, here.value, here.size, here.section, here.is_global) == ("here", 2, 3, 1, True)
    assert theirs.get_section_by_name(".symtab").get_symbol(1)["st_value"] == 2
