"""Offload bundles: which entry is read, and what is said where none is."""

import random
import struct
import zlib

import pytest

from softcard.cli.file_kinds import FileKind, kind_of
from softcard.core.errors import BeyondModel, SoftcardError, WireError
from softcard.image.hsa.bundle import MAGIC, entries, holds_bundles, is_bundle, pick
from softcard.image.hsa.code_object import read_code_object
from tests.image.hsa.elves import one_kernel

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
    assert read_code_object(data, "gfx900", or_only=True).target == "gfx803"  # the loader reports that it does not fit
    for each in (data, host([(".hip_fatbin", data)])):
        with pytest.raises(
            WireError, match=r"with the entries host-.*-gfx803: expected an entry for gfx900, at byte 0x0"
        ):
            read_code_object(each, "gfx900")


def test_generic_entries_come_after_exact_ones():
    data = bundle({"hipv4-amdgcn-amd-amdhsa--gfx9-generic": b"1", "hipv4-amdgcn-amd-amdhsa--gfx900": b"2"})
    assert pick(data, "gfx900").target == "gfx900"
    assert pick(data, "gfx906").target == "gfx9-generic"


PREFIX = "hipv4-amdgcn-amd-amdhsa--"
FEATURES = bundle({f"{PREFIX}gfx90a:xnack-": b"off", f"{PREFIX}gfx90a:xnack+": b"on", f"{PREFIX}gfx906": b"any"})


@pytest.mark.parametrize(
    ("processor", "settings", "content"),
    [
        ("gfx90a", {"xnack": "off", "sramecc": "on"}, b"off"),
        ("gfx90a", {"xnack": "on"}, b"on"),
        ("gfx90a:xnack+", {}, b"on"),
        ("gfx90a:sramecc+:xnack-", {}, b"off"),
        ("gfx90a:xnack+", {"xnack": "off"}, b"on"),  # a target ID takes precedence
        ("gfx90a", {}, b"off"),  # the first one
        ("gfx906", {"xnack": "on"}, b"any"),  # an entry without a feature fits either setting
        ("gfx906:sramecc-:xnack+", {}, b"any"),
    ],
)
def test_an_entry_fits_the_settings_of_features(processor, settings, content):
    assert pick(FEATURES, processor, settings=settings).content == content


def test_entries_with_other_settings_do_not_fit():
    name = f"{PREFIX}gfx942:sramecc-"
    data = bundle({name: b"1", f"{PREFIX}gfx90a": b"2"})
    with pytest.raises(WireError) as caught:
        pick(data, "gfx942", settings={"sramecc": "on", "xnack": "off"}, or_only=True)
    assert f"with the entries {name}, {PREFIX}gfx90a: expected an entry for gfx942:sramecc+:xnack-" in str(caught.value)
    alone = bundle({name: b"1"})
    assert pick(alone, "gfx942", settings={"sramecc": "on"}, or_only=True).content == b"1"
    with pytest.raises(WireError, match="expected an entry for gfx942:sramecc"):
        pick(alone, "gfx942", settings={"sramecc": "on"})


def test_a_generic_entry_with_a_setting_comes_after_an_exact_one_that_fits():
    data = bundle({f"{PREFIX}gfx942:xnack+": b"1", f"{PREFIX}gfx9-4-generic:xnack-": b"2"})
    assert pick(data, "gfx942:xnack-").content == b"2"
    assert pick(data, "gfx942").content == b"1"
    assert [each.features for each in entries(data)] == [{"xnack": "on"}, {"xnack": "off"}]


@pytest.mark.parametrize(
    ("processor", "text"), [("gfx700", "expected an entry for gfx700"), ("", "name the processor of the wanted entry")]
)
def test_entries_are_listed_where_none_fits(processor, text):
    with pytest.raises(WireError) as caught:
        read_code_object(bundle(OBJECTS), processor)
    assert (
        str(caught.value) == f"the file is an offload bundle with the entries {', '.join(OBJECTS)}: {text}, at byte 0x0"
    )


def test_errors_name_the_entry():
    with pytest.raises(WireError) as caught:
        read_code_object(bundle({"hip-amdgcn-amd-amdhsa--gfx803": b"\x7fELG"}))
    assert str(caught.value).endswith("at byte 0x0, at bundle entry hip-amdgcn-amd-amdhsa--gfx803")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (MAGIC, "number of bundle entries at 0x18..0x20 exceeds the file's 0x18 bytes, at byte 0x18"),
        (MAGIC + word(1 << 60), "table of bundle entries at 0x20.."),
        (MAGIC + word(1) + word(0) + word(0) + word(1 << 40), "a bundle entry's name has 1099511627776 bytes"),
        (MAGIC + word(1) + word(0) + word(0) + word(9), "name of a bundle entry at 0x38..0x41 exceeds the file's"),
        (MAGIC + word(1) + word(99) + word(1) + word(0), "object of a bundle entry at 0x63..0x64 exceeds the file's"),
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
        except SoftcardError:
            continue
    assert 50 < read < 300


def host(sections, machine=62):
    """An ELF file of a host with these sections."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name, _ in sections) + b".shstrtab\0"
    body, headers, at = b"", [bytes(64)], 64
    for number, (name, data) in enumerate([*sections, (".shstrtab", names)]):
        at += -at % 64
        body = body.ljust(at - 64, b"\0") + data
        offset = names.index(b"\0" + name.encode() + b"\0") + 1
        kind = 3 if number == len(sections) else 1
        headers.append(struct.pack("<IIQQQQIIQQ", offset, kind, 0, 0, at, len(data), 0, 0, 1, 0))
        at += len(data)
    header = b"\x7fELF\2\1\1" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 0, at, 0, 64, 0, 0, 64, len(headers), len(headers) - 1)
    return header + body + b"".join(headers)


def compressed(data, version=2, method=0):
    packed, width = zlib.compress(data), 8 if version == 3 else 4
    size = 8 + width * (1 if version == 1 else 2) + 8 + len(packed)
    sizes = [len(data)] if version == 1 else [size, len(data)]
    head = b"CCOB" + version.to_bytes(2, "little") + method.to_bytes(2, "little")
    return head + b"".join(each.to_bytes(width, "little") for each in sizes) + bytes(8) + packed


@pytest.mark.parametrize("packed", [lambda data: data, compressed, lambda data: compressed(data, 1)])
def test_host_files_of_hip_are_read(packed):
    data = host([(".text", b"code"), (".hip_fatbin", packed(bundle(OBJECTS)) + bytes(64))])
    assert [each.name for each in entries(data)] == list(OBJECTS)
    assert read_code_object(data, "gfx803").target == "gfx803"
    assert kind_of(data) is FileKind.HSA
    with pytest.raises(
        WireError, match=r"a host file with the entries host-.*: name the processor of the wanted entry"
    ):
        read_code_object(data)
    assert not holds_bundles(host([(".text", b"code")]))


def test_bundles_of_several_source_files():
    """The linker puts them one after another; those without kernels for a processor are equal, or left out."""
    first, other = bundle({HOST: b"", "hip-amdgcn-amd-amdhsa--gfx803": code(0x2A)}), bundle(OBJECTS)
    data = host([(".hip_fatbin", first.ljust(4096, b"\0") + compressed(other).ljust(4096, b"\0") + first)])
    assert len(entries(data)) == len(OBJECTS) + 4
    assert read_code_object(data, "gfx803").target == "gfx803"
    data = host([(".hip_fatbin", bundle({"hip-amdgcn-amd-amdhsa--gfx803": b"other"}) + first)])
    with pytest.raises(WireError, match="a host file with 2 code objects for gfx803, one for each source file"):
        read_code_object(data)


def test_bitcode_is_no_code_yet():
    name = "hip-amdgcn-amd-amdhsa-gfx900"
    data = host([(MAGIC.decode() + name, b"BC\xc0\xde....")])
    with pytest.raises(WireError, match=f"{name} is LLVM bitcode, as -fgpu-rdc leaves in objects, expected machine"):
        read_code_object(data)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_compressed_bundles(version):
    assert read_code_object(compressed(bundle(OBJECTS), version), "gfx803").target == "gfx803"


def changed(at, new):
    data = compressed(bundle(OBJECTS))
    return data[:at] + new + data[at + len(new) :]


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        (b"CCOB", WireError, "header of a compressed bundle at 0x0..0x8 exceeds the file's 0x4 bytes"),
        (compressed(b"")[:12], WireError, "header of a compressed bundle at 0x0..0x18 exceeds"),
        (changed(4, b"\7"), BeyondModel, "compressed offload bundles of version 7 are not supported, only 1 to 3"),
        (changed(6, b"\1"), BeyondModel, "the offload bundle is compressed with zstd, but only zlib is supported"),
        (changed(8, b"\xff\xff\xff"), WireError, "compressed bundle at 0x0.."),
        (
            changed(12, b"\xff\xff\xff\xff"),
            WireError,
            "the bundle has 0xffffffff unpacked bytes, expected at most 0x1000",
        ),
        (changed(12, b"\x09\0\0\0"), WireError, "a compressed bundle unpacks to 0xa bytes or more, expected 0x9"),
        (changed(26, b"\xff\xff\xff"), WireError, "zlib cannot unpack the compressed bundle: "),
        (
            compressed(b"something"),
            WireError,
            "a compressed bundle unpacks to bytes that start with 73 6f 6d",
        ),
    ],
)
def test_compressed_bundles_that_cannot_be(data, kind, text):
    with pytest.raises(kind) as caught:
        entries(data)
    assert str(caught.value).startswith(text)


def test_damaged_host_files_are_read_or_refused():
    """Also those cut off, and those whose tables claim more than there is."""
    rng, whole = random.Random(5), host([(".hip_fatbin", bundle(OBJECTS) + compressed(bundle(OBJECTS)))])
    places = [*range(16, 64), *range(len(whole) - 200, len(whole)), *range(64, 400)]
    for number in range(400):
        data = bytearray(whole[: rng.randrange(len(whole))] if number % 4 == 0 else whole)
        for _ in range(rng.randrange(1, 4)):
            at = min(rng.choice(places), len(data) - 1)
            if at >= 0:
                data[at] = rng.choice((0, 1, 0x7F, 0xFF))
        try:
            holds_bundles(bytes(data))
            read_code_object(bytes(data), "gfx803")
        except SoftcardError:
            continue
