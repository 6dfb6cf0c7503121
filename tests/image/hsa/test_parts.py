"""Header records, MessagePack, YAML, notes, metadata."""

import contextlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softcard.core.errors import WireError
from softcard.image.elf.reader import Note
from softcard.image.hsa import metadata, msgpack, targets, yaml_text
from softcard.image.hsa.notes import read_notes
from softcard.image.hsa.records import (
    CodeProperties,
    ControlDirectives,
    DescriptorProperties,
    KernelCode,
    KernelDescriptor,
    LaunchFacts,
    Rsrc1,
    Rsrc2,
    complaints,
)
from tests.image.hsa.elves import descriptor, kernel_code, record


@pytest.mark.parametrize(
    ("field", "offset"),
    [
        ("amd_machine_kind", 0x08), ("kernel_code_entry_byte_offset", 0x10),
        ("max_scratch_backing_memory_byte_size", 0x28),
        ("compute_pgm_rsrc1", 0x30), ("kernel_code_properties", 0x38), ("workitem_private_segment_byte_size", 0x3C),
        ("workgroup_group_segment_byte_size", 0x40), ("kernarg_segment_byte_size", 0x48),
        ("wavefront_sgpr_count", 0x54),
        ("debug_private_segment_buffer_sgpr", 0x62), ("kernarg_segment_alignment", 0x64), ("wavefront_size", 0x67),
        ("call_convention", 0x68), ("runtime_loader_kernel_symbol", 0x78), ("control_directives", 0x80),
    ],
)  # fmt: skip
def test_kernel_code_offsets(field, offset):
    assert KernelCode.offset_of(field) == offset


@pytest.mark.parametrize(
    ("field", "offset"),
    [
        ("private_segment_fixed_size", 4), ("kernarg_size", 8), ("kernel_code_entry_byte_offset", 0x10),
        ("compute_pgm_rsrc3", 0x2C), ("compute_pgm_rsrc1", 0x30), ("compute_pgm_rsrc2", 0x34),
        ("kernel_code_properties", 0x38),
    ],
)  # fmt: skip
def test_descriptor_offsets(field, offset):
    assert KernelDescriptor.offset_of(field) == offset


def test_both_headers_agree_on_what_a_launch_needs():
    rsrc1, rsrc2 = Rsrc1.parse(b"\x12\x34\xac\x00"), Rsrc2.parse(b"\x8d\x09\x00\x00")
    code = kernel_code(
        compute_pgm_rsrc1=rsrc1, compute_pgm_rsrc2=rsrc2, kernel_code_properties=CodeProperties.parse(b"\x2b\0\x0a\0")
    )
    kd = descriptor(
        compute_pgm_rsrc1=rsrc1,
        compute_pgm_rsrc2=rsrc2,
        kernel_code_entry_byte_offset=256,
        kernel_code_properties=DescriptorProperties.parse(b"\x2b\0"),
    )
    for data in (code, kd):
        facts = LaunchFacts.parse(data)
        assert (facts.compute_pgm_rsrc1, facts.compute_pgm_rsrc2, facts.kernel_code_entry_byte_offset) == (
            rsrc1,
            rsrc2,
            256,
        )
        assert facts.properties.enable_sgpr_flat_scratch_init
        assert not facts.properties.enable_sgpr_queue_ptr


@pytest.mark.parametrize("ptr64", [0, 1])
def test_a_header_says_how_wide_pointers_are(ptr64):
    code = LaunchFacts.parse(kernel_code(kernel_code_properties=record(CodeProperties, is_ptr64=ptr64)))
    assert (code.is_kernel_code, code.is_ptr64) == (True, bool(ptr64))
    kd = LaunchFacts.parse(descriptor(group_segment_fixed_size=1, private_segment_fixed_size=1, kernarg_size=1))
    assert (kd.is_kernel_code, kd.is_ptr64) == (False, True)


def test_registers_are_counted_in_granules():
    rsrc1 = record(Rsrc1, granulated_workitem_vgpr_count=3, granulated_wavefront_sgpr_count=2)
    assert (rsrc1.vgprs(), rsrc1.sgprs) == (16, 24)
    assert record(CodeProperties, private_element_size=1).private_element_bytes == 4


@given(st.binary(min_size=256, max_size=256))
def test_kernel_code_is_kept_bit_for_bit(data):
    assert KernelCode.parse(data).pack() == data
    assert ControlDirectives.parse(data).pack() == data[:128]


@given(st.binary(min_size=64, max_size=64))
def test_descriptors_are_kept_bit_for_bit(data):
    assert KernelDescriptor.parse(data).pack() == data


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"amd_machine_kind": 2}, "amd_machine_kind must be 1 (AMDGPU)"),
        ({"wavefront_size": 5}, "wavefront_size must be 6 (64 work-items)"),
        ({"kernarg_segment_alignment": 3}, "kernarg_segment_alignment must be 4 (16 bytes) or more"),
        ({"reserved_vgpr_first": 4}, "reserved_vgpr_first must be 0"),
        ({"workitem_vgpr_count": 9}, "workitem_vgpr_count must match compute_pgm_rsrc1"),
        ({"runtime_loader_kernel_symbol": 1}, "runtime_loader_kernel_symbol must be 0 in a file"),
        ({"reserved_6c": b"x" * 12}, "reserved_6c at byte 0x6c must be 0"),
        (
            {"compute_pgm_rsrc2": record(Rsrc2, user_sgpr_count=6)},
            "user_sgpr_count is 6, but the enabled registers are 0",
        ),
        ({"compute_pgm_rsrc1": record(Rsrc1, reserved_27=1)}, "Rsrc1 byte 0x0 bits 31-27 must be 0"),
    ],
)
def test_complaints_name_what_must_hold(fields, text):
    assert complaints(KernelCode.parse(kernel_code(**fields))) == [text]


def test_what_the_finalizer_writes_gives_no_complaint():
    header = KernelCode.parse(kernel_code(reserved_vgpr_first=4, reserved_sgpr_first=9))
    assert complaints(header, is_finalized=True) == []
    assert complaints(header) == ["reserved_vgpr_first must be 0", "reserved_sgpr_first must be 0"]


def test_a_usual_header_gives_no_complaint():
    assert complaints(KernelCode.parse(kernel_code())) == []


# -- MessagePack

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.text(max_size=300)
    | st.binary(max_size=300)
    | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=5), inner, max_size=20),
    max_leaves=30,
)


@given(VALUES)
def test_msgpack_gives_back_what_was_packed(value):
    data = msgpack.pack(value)
    assert msgpack.unpack(data + b"rest") == (value, len(data))


@given(st.binary(max_size=64))
def test_msgpack_of_any_bytes_is_a_value_or_a_refusal(data):
    try:
        _, size = msgpack.unpack(data)
    except WireError:
        return
    assert 0 < size <= len(data)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "MessagePack ends 1 bytes too early, at byte 0x0"),
        (b"\xa5abc", "MessagePack ends 2 bytes too early, at byte 0x1"),
        (b"\xdd\xff\xff\xff\xff", "MessagePack array of 4294967295 elements exceeds the end of the data, at byte 0x5"),
        (b"\x91" * 40, "MessagePack nests more than 16 deep, at byte 0x11"),
        (b"\xc1", "MessagePack code 0xc1 is not supported in metadata, at byte 0x0"),
        (b"\xc7\x01\x01\x01", "MessagePack code 0xc7 is not supported in metadata, at byte 0x0"),
        (b"\x81\x90\x01", "a MessagePack map has a list or map as key, at byte 0x1"),
    ],
)
def test_msgpack_refusals(data, text):
    with pytest.raises(WireError) as caught:
        msgpack.unpack(data)
    assert str(caught.value) == text


@pytest.mark.parametrize("value", [object(), 1 << 64, -(1 << 63) - 1])
def test_msgpack_refuses_to_pack(value):
    with pytest.raises(WireError, match="MessagePack"):
        msgpack.pack(value)


# -- YAML

V2 = """---
Version:         [ 1, 0 ]
Printf:
  - '1:1:4:it''s %d\\n'
Kernels:
  - Name:            k1
    SymbolName:      'k1@kd'
    Language:        OpenCL C
    Attrs:
      ReqdWorkGroupSize: [ 64, 1, 1 ]
    Args:
      - TypeName:        'int*'
        Size:            8
        Align:           8
        ValueKind:       GlobalBuffer
        AddrSpaceQual:   Global
      - Name: flag
        Size:            1
        Align:           1
        ValueKind:       ByValue
      - Size:            8
        Align:           8
        ValueKind:       HiddenGlobalOffsetX
    CodeProps:
      KernargSegmentSize: 24
      NumSGPRs:        0x10
      IsDynamicCallStack: true
...
"""


def test_yaml_of_v2_metadata():
    document = yaml_text.parse(V2)
    assert document["Version"] == [1, 0]
    assert document["Printf"] == ["1:1:4:it's %d\\n"]
    assert document["Kernels"][0]["CodeProps"] == {"KernargSegmentSize": 24, "NumSGPRs": 16, "IsDynamicCallStack": True}
    (kernel,), problems = metadata.from_yaml(document)
    assert problems == []
    assert (kernel.name, kernel.symbol, kernel.kernarg_size, kernel.sgprs) == ("k1", "k1@kd", 24, 16)
    assert kernel.required_workgroup_size == (64, 1, 1)
    shape = [(each.offset, each.size, each.kind, each.is_hidden) for each in kernel.arguments]
    assert shape == [(0, 8, "global_buffer", False), (8, 1, "by_value", False), (16, 8, "hidden_global_offset_x", True)]
    assert kernel.arguments[0].address_space == "global"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("a: 1", {"a": 1}),
        ("--- { a: [ 1, 'x, y' ], b: {} }", {"a": [1, "x, y"], "b": {}}),
        ("a:\n- 1\n- b: 2\n  c: 3\n-\n  - 4\n", {"a": [1, {"b": 2, "c": 3}, [4]]}),
        ('a: "x\\n\\x41\\""', {"a": 'x\nA"'}),
        ("a:\nb: ~", {"a": None, "b": None}),
        ("a: std::pair<int, int>", {"a": "std::pair<int, int>"}),
        (
            "a: [ 1,\n     2,\n\n     # none\n     { b: 3,\n       c: 4 } ]\nd: 5",
            {"a": [1, 2, {"b": 3, "c": 4}], "d": 5},
        ),
        ("a: [\n  1\n]\nb: 2", {"a": [1], "b": 2}),
        ("- [ 1,\n    2 ]\n- 3", [[1, 2], 3]),
        ("a: 1 # one\nb: 'x # y' # two\nc: d#e\nf: # g\n  - h", {"a": 1, "b": "x # y", "c": "d#e", "f": ["h"]}),
        ("a: |\n  one\n    # two\n\n  three\n\nb: 1", {"a": "one\n  # two\n\nthree\n", "b": 1}),
        ("- a: |-\n    x: y\n  b: >\n    fold\n    ed\n\n    more\n", [{"a": "x: y", "b": "fold ed\nmore\n"}]),
        ("a: |+\n  x\n\nb: |2\n    y\nc: |\nd: |-", {"a": "x\n\n", "b": "  y\n", "c": "", "d": ""}),
        ("--- |\n  x\n  ...\n...\nmore", "x\n...\n"),
    ],
)
def test_yaml_forms(text, value):
    assert yaml_text.parse(text) == value


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a: [ 1, 2", "expected , or ], at line 1"),
        ("a: [ 1,\nb: 2", "a list or map has no closing bracket, at line 1"),
        ("a: [ 1 ] 2", "text follows the end of a list or map, at line 1"),
        ("a: 1\n  b: 2", "a line has the wrong indentation, at line 2"),
        ("a: 1\nb", "expected a key and a colon, at line 2"),
        ("a: { b }", "expected a key and a colon, at line 1"),
        ("a: [ , ]", "expected a value before ,, at line 1"),
        ("\n".join(" " * n + "a:" for n in range(40)), "the text nests more than 16 levels, at line 18"),
    ],
)
def test_yaml_refusals(text, what):
    with pytest.raises(WireError) as caught:
        yaml_text.parse(text)
    assert str(caught.value) == f"unsupported YAML in metadata: {what}"


@given(st.text(alphabet="ab:-[]{},'\" \n1\\~|>#+", max_size=80))
def test_yaml_of_any_text_is_a_value_or_a_refusal(text):
    with contextlib.suppress(WireError):
        yaml_text.parse(text)


# -- metadata and notes


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (3, "a value is 3, expected a map"),
        ({".args": 3}, "a value is 3, expected a list"),
        ({".args": [{".size": -1}]}, ".size is -1, expected a number of 32 bits"),
        ({".args": [{".size": 4, ".align": 3}]}, "the alignment of an argument is 3, expected a power of two"),
        ({".kernarg_segment_size": "x"}, ".kernarg_segment_size is 'x', expected a number of 32 bits"),
        ({".args": [{}] * 5000}, "the kernel has 5000 arguments, expected at most 4096"),
    ],
)
def test_malformed_kernels_are_left_out_with_a_warning(kernel, text):
    good = {".name": "good"}
    kernels, warnings = metadata.from_msgpack({"amdhsa.kernels": [kernel, good]})
    assert [each.name for each in kernels] == ["good"]
    assert warnings == [f"metadata of kernel 0: {text}"]


def test_metadata_without_a_list_of_kernels():
    assert metadata.from_msgpack({"amdhsa.kernels": 4}) == ([], ["metadata: the kernels must be a list"])
    assert metadata.from_msgpack({}) == ([], [])


def amd(kind, data, owner="AMD"):
    return Note(owner, kind, data, 0x40)


def test_notes_of_v1():
    isa = b"".join(n.to_bytes(s, "little") for n, s in ((4, 2), (7, 2), (7, 4), (0, 4), (1, 4))) + b"AMD\0AMDGPU\0"
    producer = b"".join(n.to_bytes(s, "little") for n, s in ((8, 2), (0, 2), (1, 4), (6, 4))) + b"AMD HSA\0"
    hsail = (1).to_bytes(4, "little") + (0).to_bytes(4, "little") + bytes([1, 1, 1])
    facts = read_notes(
        [amd(1, b"\1\0\0\0\0\0\0\0"), amd(3, isa), amd(4, producer), amd(2, hsail), amd(5, b"\5\0-O2\0")]
    )
    assert (facts.version, facts.isa_version, facts.producer) == ((1, 0), (7, 0, 1), "AMD HSA 1.6")
    assert facts.hsail is not None
    assert (facts.hsail.machine_model, facts.producer_options, facts.warnings) == (1, "-O2", [])


@pytest.mark.parametrize(
    ("note", "text"),
    [
        (amd(1, b"\1\0"), "note 1 of AMD at byte 0x40: CodeObjectVersionNote needs 8 bytes"),
        (amd(10, b"a: ["), "note 10 of AMD at byte 0x40: unsupported YAML"),
        (amd(10, b"- 1"), "note 10 of AMD at byte 0x40: metadata is a list, expected a map"),
        (amd(32, b"\x93", "AMDGPU"), "note 32 of AMDGPU at byte 0x40: MessagePack array of 3 elements"),
        (amd(32, b"\x80zz", "AMDGPU"), "metadata at byte 0x40 has 2 bytes after its end"),
        (amd(99, b""), "note 99 of AMD at byte 0x40 is unknown"),
        (amd(33, b"", "AMDGPU"), "note 33 of AMDGPU at byte 0x40 is unknown"),
    ],
)
def test_malformed_notes_are_warnings(note, text):
    (warning,) = read_notes([note]).warnings
    assert warning.startswith(text)


def test_notes_of_others_are_none_of_our_business():
    assert read_notes([amd(1, b"", "GNU")]).warnings == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("amdgcn-amd-amdhsa--gfx803", ("gfx803", {})),
        ("amdgcn-amd-amdhsa--gfx906:sramecc+:xnack-", ("gfx906", {"sramecc": "on", "xnack": "off"})),
        ("amdgcn-amd-amdhsa--gfx900+xnack", ("gfx900", {"xnack": "on"})),
        ("amdgcn-amd-amdhsa--gfx9-generic:xnack-", ("gfx9-generic", {"xnack": "off"})),
        ("amdgcn-amd-amdhsa--gfx9-4-generic:sramecc+", ("gfx9-4-generic", {"sramecc": "on"})),
        ("x86_64", ("", {})),
    ],
)
def test_isa_names(name, expected):
    assert targets.of_name(name) == expected


@pytest.mark.parametrize(
    ("flags", "abi", "expected"),
    [
        (0x2A, 0, ("gfx803", {})),
        (0x12F, 1, ("gfx906", {"xnack": "on", "sramecc": "off"})),
        (0xD2F, 2, ("gfx906", {"xnack": "any", "sramecc": "on"})),
        (0x02, 2, ("", {})),
        (0x0100_0151, 4, ("gfx9-generic", {"xnack": "any"})),
        (0x0100_005F, 4, ("gfx9-4-generic", {})),
        (0xE30, 2, ("gfx908", {"xnack": "off", "sramecc": "on"})),
        (0x53F, 2, ("gfx90a", {"xnack": "any", "sramecc": "any"})),
        (0xB4C, 3, ("gfx942", {"xnack": "on", "sramecc": "off"})),
        (0x54F, 4, ("gfx950", {"xnack": "any", "sramecc": "any"})),
        (0x12E, 2, ("gfx904", {"xnack": "any"})),
        (0x43, 2, ("gfx1150", {})),
    ],
)
def test_flags(flags, abi, expected):
    assert targets.of_flags(flags, abi) == expected


def _reported(data, **how):
    try:
        value, size = msgpack.unpack(data, **how)
    except WireError as error:
        return str(error)
    return repr(_whole(value)), size


def _whole(value):
    if isinstance(value, msgpack.Elements):
        return [_whole(each) for each in value]
    return {key: _whole(each) for key, each in value.items()} if isinstance(value, dict) else value


def test_lists_on_demand_are_those_unpacked_at_once_however_broken():
    kernel = {".args": [{".size": 8, ".name": "x" * 40}, {}], ".symbol": "k.kd", ".f": 1.5, ".deep": [[[{"a": [1]}]]]}
    good = msgpack.pack({"amdhsa.kernels": [kernel] * 3, "amdhsa.version": [1, 2], "more": [{"a": 1}, 2, [3], b"b"]})
    assert isinstance(msgpack.unpack(good, on_demand=True)[0]["amdhsa.kernels"], msgpack.Elements)
    rng = random.Random(1)
    for _ in range(4000):
        data = bytearray(good)
        for _ in range(rng.randint(0, 3)):
            data[rng.randrange(len(data))] = rng.choice([rng.randrange(256), 0x81, 0x91, 0xC1, 0xD9, 0xDC, 0xDE])
        data = bytes(data[: rng.choice([len(data), rng.randrange(len(data))])])
        assert _reported(data, on_demand=True) == _reported(data)


@pytest.mark.parametrize("name", ["a", "a.kd", "b", "c", "twice", "7", "none"])
def test_metadata_of_one_kernel_is_that_of_all(name):
    kernels = [
        {".name": "a", ".symbol": "a.kd", ".sgpr_count": 1},
        {".name": "b", ".symbol": "twice", ".sgpr_count": 2},
        {".name": "twice", ".symbol": "c", ".sgpr_count": 3},
        {".name": "a", ".symbol": "twice", ".sgpr_count": 4},
        {".name": "a", ".symbol": "a.kd", ".sgpr_count": -1},
        {".name": 7, ".symbol": "b.kd", ".sgpr_count": 5},
    ]
    document = {"amdhsa.kernels": kernels}
    lazy, _ = msgpack.unpack(msgpack.pack(document), on_demand=True)
    assert metadata.Described([], [lazy]).get(name) == metadata.Described([], [document]).get(name)
    assert metadata.Described([], [lazy]).problems == [
        "metadata of kernel 4: .sgpr_count is -1, expected a number of 32 bits"
    ]
