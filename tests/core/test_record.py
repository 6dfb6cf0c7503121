"""Records: round trips of random layouts, places in errors, and one refusal per contradiction."""

import copy
import dataclasses
import itertools
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softcard.core import record
from softcard.core.errors import ModelBug, Place, WireError
from softcard.core.record import Record


class Run(Record, size=24):
    kind: int = record.bits(3, 0)
    context: int = record.bits(31, 4)
    table: int = record.u64()
    delta: int = record.i32(default=0)
    flag: int = record.bits(0, 0, of=16)
    hole: int = record.reserved_bits(15, 1, of=16)
    grid: tuple[int, ...] = record.words(16, 2, default=(1, 1))
    pad: bytes = record.reserved(2)


class Pair(Record, byte_order="big"):
    magic: int = record.u16()
    run: Run = record.nested(Run)
    runs: tuple[Run, ...] = record.records(Run, 2)
    tail: bytes = record.raw(3)


RUN = Run(kind=1, context=0xABC, table=0x1122334455667788, delta=-2, flag=1)
RUN_BYTES = bytes.fromhex("c1ab0000 8877665544332211 feffffff 0100 0100 0100 0000")


def test_fields_stand_in_the_order_of_their_bytes():
    assert RUN.pack() == RUN_BYTES
    assert Run.parse(RUN_BYTES) == RUN
    assert [(slot.name, slot.offset) for slot in Run.slots] == [
        ("kind", 0), ("context", 0), ("table", 4), ("delta", 12), ("flag", 16), ("hole", 16), ("grid", 18), ("pad", 22)
    ]  # fmt: skip
    assert (Run.size_bytes, Run.offset_of("delta")) == (24, 12)


def test_places_are_written_for_people():
    assert [Run.slot(name).where for name in ("table", "context", "flag")] == [
        "byte 0x4",
        "byte 0x0 bits 31-4",
        "byte 0x10 bit 0",
    ]


def test_nested_records_keep_their_own_byte_order():
    pair = Pair(magic=0x1234, run=RUN, runs=(RUN, RUN), tail=b"abc")
    assert pair.pack() == b"\x12\x34" + RUN_BYTES * 3 + b"abc"
    assert Pair.parse(memoryview(b"..." + pair.pack()), 3) == pair


def test_big_endian_words_arrays_and_bit_fields():
    class Big(Record, byte_order="big"):
        word: int = record.u32()
        pair: tuple[int, ...] = record.words(16, 2)
        low: int = record.bits(3, 0, of=16)
        high: int = record.bits(15, 4, of=16)
        minus: int = record.i64()

    big = Big(word=1, pair=(2, 3), low=4, high=5, minus=-6)
    assert big.pack() == bytes.fromhex("00000001 0002 0003 0054 fffffffffffffffa")
    assert Big.parse(big.pack()) == big


def test_a_record_may_extend_another():
    class Header(Record):
        kind: int = record.u16()

    class Packet(Header, size=6):
        body: int = record.u32()

    assert Packet(kind=1, body=2).pack() == bytes.fromhex("0100 02000000")


SPECIFIERS = {
    "u8": (record.u8, st.integers(0, 0xFF)),
    "u16": (record.u16, st.integers(0, 0xFFFF)),
    "u32": (record.u32, st.integers(0, 0xFFFF_FFFF)),
    "u64": (record.u64, st.integers(0, (1 << 64) - 1)),
    "i32": (record.i32, st.integers(-(1 << 31), (1 << 31) - 1)),
    "i64": (record.i64, st.integers(-(1 << 63), (1 << 63) - 1)),
    "raw": (lambda: record.raw(5), st.binary(min_size=5, max_size=5)),
    "words": (lambda: record.words(32, 3), st.tuples(*[st.integers(0, 0xFFFF_FFFF)] * 3)),
    "nested": (lambda: record.nested(Run), st.binary(min_size=24, max_size=24).map(Run.parse)),
}


@st.composite
def instances(draw):
    """An instance of a random record class: plain fields and words cut into bit fields."""
    body, values = {}, {}
    for n, kind in enumerate(draw(st.lists(st.sampled_from([*SPECIFIERS, "bits"]), min_size=1, max_size=6))):
        if kind != "bits":
            body[f"f{n}"], values[f"f{n}"] = SPECIFIERS[kind][0](), draw(SPECIFIERS[kind][1])
            continue
        of = draw(st.sampled_from([8, 16, 32, 64]))
        edges = sorted({0, of, *draw(st.sets(st.integers(1, of - 1), max_size=4))})
        for low, end in itertools.pairwise(edges):
            body[f"f{n}_{low}"] = record.bits(end - 1, low, of=of)
            values[f"f{n}_{low}"] = draw(st.integers(0, (1 << end - low) - 1))
    namespace = {"__annotations__": dict.fromkeys(body, object), **body}
    order = draw(st.sampled_from(["little", "big"]))
    return type(Record)("Random", (Record,), namespace, byte_order=order)(**values)


@given(instances(), st.binary(max_size=8))
def test_records_round_trip(instance, before):
    data = instance.pack()
    assert len(data) == type(instance).size_bytes
    assert type(instance).parse(before + data + b"rest", len(before)) == instance


@given(st.binary(min_size=24, max_size=24))
def test_every_byte_survives_the_trip(data):
    assert Run.parse(data).pack() == data


def test_records_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        RUN.kind = 2


def test_reserved_fields_that_are_set_are_reported():
    assert RUN.reserved_set() == ()
    dirty = dataclasses.replace(RUN, hole=1, pad=b"\0\1")
    assert dirty.reserved_set() == (Run.slot("hole"), Run.slot("pad"))


def test_explain_gives_a_line_per_field():
    pair = Pair(magic=1, run=RUN, runs=(RUN, dataclasses.replace(RUN, pad=b"\0\1")), tail=b"abc")
    lines = pair.explain(0x100)
    assert lines[:5] == [
        "0x0100 magic = 0x1",
        "0x0102 run = Run",
        "  0x0102 [3:0] kind = 0x1",
        "  0x0102 [31:4] context = 0xabc",
        "  0x0106 table = 0x1122334455667788",
    ]
    assert "  0x010e delta = -0x2" in lines
    assert "  0x012c grid = (0x1, 0x1)" in lines
    assert "  0x0148 pad = 00 01" in lines
    assert [line for line in lines if "hole" in line] == []
    assert lines[-1] == "0x014a tail = 61 62 63"


@pytest.mark.parametrize(
    ("size", "offset", "message"),
    [
        (19, 0, "Run needs 24 bytes, but the data has 19 left: it ends before field grid is complete, at byte 0x0"),
        (
            0x18,
            0x10,
            "Run needs 24 bytes, but the data has 8 left: it ends before field table is complete, at byte 0x10",
        ),
        (0, 0x10, "Run needs 24 bytes, but the data has 0 left: it ends before field kind is complete, at byte 0x10"),
        (64, -4, "Run cannot start before the data, at byte -0x4"),
    ],
)
def test_data_too_short_for_a_record_is_refused(size, offset, message):
    with pytest.raises(WireError) as caught:
        Run.parse(bytes(size), offset)
    assert str(caught.value) == message
    assert caught.value.path == (Place("byte", f"{offset:#x}"),)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": 16}, "Run.kind holds 4 bits (0x0..0xf), not 0x10, at byte 0x0 (bits 3-0)"),
        ({"flag": 2}, "Run.flag holds 1 bits (0x0..0x1), not 0x2, at byte 0x10 (bit 0)"),
        ({"table": -1}, "Run.table holds 64 bits (0x0..0xffffffffffffffff), not -0x1, at byte 0x4"),
        (
            {"delta": 1 << 31},
            "Run.delta holds 32 signed bits (-0x80000000..0x7fffffff), not 0x80000000, at byte 0xc",
        ),
        ({"grid": (0, 1 << 16)}, "Run.grid[1] holds 16 bits (0x0..0xffff), not 0x10000, at byte 0x14"),
        ({"grid": (0, 0, 0)}, "Run.grid holds 2 elements, not 3, at byte 0x12"),
        ({"pad": b"abc"}, "Run.pad holds 2 bytes, not 3, at byte 0x16"),
    ],
)
def test_a_value_that_does_not_fit_its_field_is_refused(change, message):
    with pytest.raises(WireError) as caught:
        dataclasses.replace(RUN, **change).pack()
    assert str(caught.value) == message


def declare(size=None, **body):
    namespace = {"__annotations__": dict.fromkeys(body, int), **body}
    return type(Record)("R", (Record,), namespace, size=size)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: declare(8, a=record.u32()), "record R: the fields must have 8 bytes in all, not 4"),
        (
            lambda: declare(a=0),
            "record R: field a must be declared with a specifier, such as u32() or bits()",
        ),
        (
            lambda: declare(pack=record.u32()),
            "record R: field pack must have another name: pack is an attribute of all records",
        ),
        (lambda: declare(a=record.bits(7, 4)), "record R: field a must begin a word at bit 0, not 4"),
        (lambda: declare(a=record.bits(8, 0, of=8)), "record R: field a must end within bits 7-0, not at 8"),
        (
            lambda: declare(a=record.bits(7, 0), b=record.bits(31, 9)),
            "record R: field b must continue at bit 8 of the 32-bit word that the field before it has not completed",
        ),
        (
            lambda: declare(a=record.bits(7, 0), b=record.bits(15, 8, of=16)),
            "record R: field b must continue at bit 8 of the 32-bit word that the field before it has not completed",
        ),
        (
            lambda: declare(a=record.bits(7, 0), b=record.u8()),
            "record R: field b must continue at bit 8 of the 32-bit word that the field before it has not completed",
        ),
        (
            lambda: declare(a=record.bits(7, 0)),
            "record R: bits up to 31 of the last word must be declared, not only up to 7",
        ),
        (lambda: record.bits(1, 0, of=24), "bits must lie in a word of 8, 16, 32 or 64 bits, not 24"),
        (lambda: record.words(12, 1), "words must be 8, 16, 32 or 64 bits wide, not 12"),
        (lambda: record.words(16, 0), "an array must have 1 element or more, not 0"),
        (lambda: record.records(Run, 0), "an array must have 1 element or more, not 0"),
        (lambda: record.raw(0), "raw must hold 1 byte or more, not 0"),
        (lambda: Run.slot("foo"), "record Run has no field foo"),
    ],
)
def test_a_layout_that_contradicts_itself_is_refused(act, message):
    with pytest.raises(ModelBug) as caught:
        act()
    assert str(caught.value) == message


def test_the_mask_of_reserved_bits() -> None:
    class Odd(Record, size=8):
        low: int = record.bits(4, 0, of=16)
        gap: int = record.reserved_bits(10, 5, of=16)
        high: int = record.bits(15, 11, of=16)
        between: bytes = record.reserved(2)
        last: int = record.u32()

    assert Odd.reserved_mask() == 0xFFFF_07E0
    for bit in range(64):
        assert bool(Odd.parse((1 << bit).to_bytes(8, "little")).reserved_set()) == bool(Odd.reserved_mask() >> bit & 1)


def test_of_several_values_that_do_not_fit_the_first_is_named() -> None:
    bad = dataclasses.replace(RUN, kind=16)
    pair = Pair(magic=1 << 16, run=bad, runs=(RUN, bad), tail=b"ab")
    with pytest.raises(WireError, match=r"^Pair\.magic holds 16 bits"):
        pair.pack()
    with pytest.raises(WireError, match=r"^Run\.kind holds 4 bits"):
        dataclasses.replace(pair, magic=1).pack()


def test_the_layout_has_an_item_for_each_word() -> None:
    assert Run.layout.unpack(RUN_BYTES) == (0xABC1, 0x1122334455667788, -2, 1, 1, 1, b"\0\0")
    assert (Pair.layout.format, Pair.layout.size) == (">H24s24s24s3s", 77)


def test_a_narrowed_record_has_the_same_fields_in_words_of_32_bits() -> None:
    class Wide(Record, size=40):
        kind: int = record.u16(default=7)
        gap: bytes = record.reserved(6)
        at: int = record.u64()
        sizes: tuple[int, ...] = record.words(64, 2)
        delta: int = record.i64()

    narrow = record.narrowed(Wide, "Narrow", "kind", "sizes", "delta", "at", kind=record.u32())
    assert (narrow.__name__, narrow.size_bytes) == ("Narrow", 20)
    made = narrow(kind=1, at=2, sizes=(3, 4), delta=-1)
    assert made.pack() == bytes.fromhex("01000000 03000000 04000000 ffffffff 02000000")
    assert narrow.parse(made.pack()) == made
    with pytest.raises(WireError, match=r"^Narrow\.at holds 32 bits"):
        dataclasses.replace(made, at=1 << 32).pack()
    assert record.narrowed(Wide, "Same")(at=2, sizes=(3, 4), delta=-1).kind == 7


def test_a_record_has_a_value_for_every_field_and_no_other() -> None:
    with pytest.raises(TypeError, match=r"^record Run has no value for context, flag, table$"):
        Run(kind=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^record Run has no field contxt; did you mean 'context'\?$"):
        Run(kind=1, contxt=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^record Run has no field other \(it has: .*context.*\)$"):
        Run(kind=1, context=2, table=3, flag=0, other=4)  # type: ignore[call-arg]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del RUN.kind
    assert pickle.loads(pickle.dumps(RUN)) == copy.copy(RUN) == RUN
