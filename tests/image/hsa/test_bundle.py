"""Offload bundles: which entry is read, and what is said where none is."""

import random

import pytest

from tests.image.hsa.elves import one_kernel
from understudy.core.errors import BeyondModel, UnderstudyError, WireError
from understudy.image.hsa.bundle import MAGIC, entries, is_bundle, pick
from understudy.image.hsa.code_object import read_code_object

V2 = b"\2\0\0\0\1\0\0\0"
HOST = "host-x86_64-unknown-linux--"


def word(number):
    return number.to_bytes(8, "little")


def code(flags):
    return one_kernel(version=V2, flags=flags).build()


OBJECTS = {
    "host-x86_64-unknown-linux--": b"",
    "hipv4-amdgcn-amd-amdhsa--gfx803": code(0x2A),
    "hipv4-amdgcn-amd-amdhsa--gfx900:xnack-": code(0x2C),
    "hipv4-amdgcn-amd-amdhsa--gfx90a": code(0x3F),
}


def bundle(objects):
    table = MAGIC + word(len(objects))
    at = -(-(len(table) + sum(24 + len(name) for name in objects)) // 256) * 256
    body = b""
    for name, data in objects.items():
        table += word(at + len(body)) + word(len(data)) + word(len(name)) + name.encode()
        body += data.ljust(-(-len(data) // 256) * 256, b"\0")
    return table.ljust(at, b"\0") + body


def test_the_entry_for_a_processor_is_read():
    data = bundle(OBJECTS)
    assert [(each.name, each.size) for each in entries(data)] == [(name, len(OBJECTS[name])) for name in OBJECTS]
    assert [each.target for each in entries(data)] == ["", "gfx803", "gfx900", "gfx90a"]
    for processor in ("gfx803", "gfx900", "gfx90a"):
        assert read_code_object(data, processor).target == processor
    assert read_code_object(data, "gfx804").target == "gfx803"
    assert read_code_object(data, "gfx901").target == "gfx900"


def test_the_only_entry_needs_no_name():
    data = bundle({HOST: b"", "hip-amdgcn-amd-amdhsa-gfx803": code(0x2A)})
    assert read_code_object(data).target == "gfx803"
    assert read_code_object(data, "gfx900").target == "gfx803"  # what runs it says that it does not fit


def test_generic_entries_come_after_exact_ones():
    data = bundle({"hipv4-amdgcn-amd-amdhsa--gfx9-generic": b"1", "hipv4-amdgcn-amd-amdhsa--gfx900": b"2"})
    assert pick(data, "gfx900").target == "gfx900"
    assert pick(data, "gfx906").target == "gfx9-generic"


@pytest.mark.parametrize(("processor", "text"), [("gfx700", "none is for gfx700"), ("", "name the processor of one")])
def test_entries_are_listed_where_none_fits(processor, text):
    with pytest.raises(WireError) as caught:
        read_code_object(bundle(OBJECTS), processor)
    assert str(caught.value) == f"an offload bundle with the entries {', '.join(OBJECTS)}: {text}, at byte 0x0"


def test_errors_name_the_entry():
    with pytest.raises(WireError) as caught:
        read_code_object(bundle({"hip-amdgcn-amd-amdhsa--gfx803": b"\x7fELG"}))
    assert str(caught.value).endswith("at byte 0x0, at bundle entry hip-amdgcn-amd-amdhsa--gfx803")


def test_compressed_bundles_are_beyond_the_model():
    with pytest.raises(BeyondModel, match="compressed offload bundles"):
        read_code_object(b"CCOB" + bytes(28))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (MAGIC, "number of bundle entries at 0x18..0x20 runs over the file's 0x18 bytes, at byte 0x18"),
        (MAGIC + word(1 << 60), "table of bundle entries at 0x20.."),
        (MAGIC + word(1) + word(0) + word(0) + word(1 << 40), "a bundle entry's name has 1099511627776 bytes"),
        (MAGIC + word(1) + word(0) + word(0) + word(9), "name of a bundle entry at 0x38..0x41 runs over the file's"),
        (MAGIC + word(1) + word(99) + word(1) + word(0), "object of a bundle entry at 0x63..0x64 runs over the file's"),
    ],
)
def test_tables_that_cannot_be(data, text):
    assert is_bundle(data)
    with pytest.raises(WireError) as caught:
        entries(data)
    assert str(caught.value).startswith(text)


def test_damaged_bundles_are_read_or_refused():
    rng, whole, read = random.Random(3), bundle(OBJECTS), 0
    for _ in range(300):
        data = bytearray(whole)
        data[rng.randrange(24, 400)] = rng.randrange(256)
        try:
            read += read_code_object(bytes(data), "gfx803").target == "gfx803"
        except UnderstudyError:
            continue
    assert 50 < read < 300
