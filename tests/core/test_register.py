"""Registers and maps: round trips, access kinds, and one refusal per contradiction."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softcard.core.errors import ModelBug, Place, WireError
from softcard.core.register import Access, Field, Register, RegisterMap

MODE = Register(
    "MODE",
    24,
    (
        Field("ACTIVE", 0),
        Field("MODE", 1, 2, values={0: "SHARED", 1: "PER_HART", 2: "PER_CORE"}),
        Field("HOLE", 3, 5, Access.RSVD),
        Field("SIZE", 32, 32, reset=0x10),
    ),
    count=8,
)
MAP = RegisterMap(
    "CMP",
    (
        Register("SCRATCH", 0, (Field("SCRATCH", 0, 64),)),
        MODE,
        Register("FREE", 40, (Field("FREE", 0, 8),), side="r"),
        Register("FEED", 40, (Field("WORD", 0, 64),), side="w", count=3, stride=2),
    ),
    reserved=(range(7, 8), range(32, 36)),
    unit_bytes=8,
)
KINDS = Register("KINDS", 0, tuple(Field(kind.name, 4 * n, 4, kind) for n, kind in enumerate(Access)), width=32)


def test_encode_puts_numbers_in_place():
    assert MODE.encode(ACTIVE=1, MODE="PER_HART", SIZE=0x1000) == 0x1000_0000_0003
    assert MODE.encode() == MODE.reset_value == 0x10_0000_0000


def test_decode_gives_all_declared_fields_in_order():
    assert list(MODE.decode(0x5_0000_00FB).items()) == [("ACTIVE", 1), ("MODE", 1), ("HOLE", 31), ("SIZE", 5)]
    assert MODE.get(0x5_0000_00FB, "SIZE") == 5


@st.composite
def registers(draw):
    width = draw(st.sampled_from([8, 16, 32, 64, 128]))
    edges = sorted(draw(st.sets(st.integers(0, width), min_size=2, max_size=8)))
    fields = []
    for n, (low, high) in enumerate(itertools.pairwise(edges)):
        if draw(st.booleans()):
            reset = draw(st.integers(0, (1 << high - low) - 1))
            fields.append(Field(f"F{n}", low, high - low, draw(st.sampled_from([Access.RW, Access.RSVD])), reset))
    return Register("R", 0, tuple(draw(st.permutations(fields))), width)


@given(registers(), st.data())
def test_registers_round_trip(register, data):
    value = data.draw(st.integers(0, register.max))
    decoded = register.decode(value)
    declared = sum(part.mask for part in register.fields)
    assert register.encode(**decoded) == value & declared
    assert register.decode(register.encode(**decoded)) == decoded
    assert register.reserved_bits(value) | value & ~register.reserved_mask == value
    assert all(register.get(value, name) == number for name, number in decoded.items())


def test_explain_names_values_and_keeps_quiet_about_empty_reserved_fields():
    assert MODE.explain(0x10_0000_0003, 0) == "MODE0 = 0x1000000003: ACTIVE=1 MODE=1 (PER_HART) SIZE=0x10"
    assert MODE.explain(0x106) == "MODE = 0x106: ACTIVE=0 MODE=3 SIZE=0 undeclared bits 0x100"
    assert MODE.explain(0x10) == "MODE = 0x10: ACTIVE=0 MODE=0 (SHARED) HOLE=2 SIZE=0"
    assert Register("EMPTY", 0, ()).explain(0) == "EMPTY = 0x0"


def test_reserved_bits_are_those_that_no_meaning_was_given():
    assert MODE.reserved_mask == 0xFFFF_FFF8
    assert MODE.reserved_bits(0xFFFF_FFFF_FFFF_FFFF) == 0xFFFF_FFF8


def test_a_write_acts_by_access_kind():
    # From the low nibble up: RW, RO, WO, W1C, STROBE, RSVD; nothing declares the top byte.
    assert KINDS.after_write(0xAAAA_AAAA, 0xFFF3_3F3F) == 0xAAA0_8FAF
    assert KINDS.as_read(0xFFFF_FFFF) == 0xFFF0_F0FF


def test_one_sided_registers_narrow_the_access_of_their_fields():
    assert MAP.by_name("FREE").access("FREE") is Access.RO
    assert MAP.by_name("FEED").access("WORD") is Access.WO
    assert MAP.by_name("SCRATCH").access("SCRATCH") is Access.RW
    assert KINDS.access("W1C") is Access.W1C


def test_bits_are_written_as_in_documents():
    assert [part.bits for part in MODE.fields] == ["0", "2-1", "7-3", "63-32"]


def test_find_gives_register_and_index_by_side():
    assert MAP.find(0, "r") == (MAP.by_name("SCRATCH"), 0)
    assert MAP.find(31, "w") == (MODE, 7)
    assert MAP.find(40, "r")[0].name == "FREE"
    assert MAP.find(44, "w") == (MAP.by_name("FEED"), 2)


def test_names_of_elements_find_their_array():
    assert MAP.by_name("MODE") is MAP.by_name("MODE5") is MODE
    assert (MAP.offset_of("MODE"), MAP.offset_of("MODE5"), MAP.offset_of("FEED2")) == (24, 29, 44)
    assert MODE.element(5) == "MODE5"
    assert MAP.by_name("FREE").element(0) == "FREE"


def test_iteration_and_elements_follow_the_declaration():
    assert [register.name for register in MAP] == ["SCRATCH", "MODE", "FREE", "FEED"]
    offsets = [offset for _, _, offset in MAP.elements()]
    assert offsets == [0, *range(24, 32), 40, 40, 42, 44]


def test_maps_can_be_compared_and_hashed():
    again = RegisterMap(MAP.name, MAP.registers, MAP.doc, MAP.reserved, MAP.unit_bytes)
    assert again == MAP
    assert hash(again) == hash(MAP)


@pytest.mark.parametrize(
    ("offset", "side", "message"),
    [
        (7, "r", "read in the reserved range 0x7..0x7 of CMP, at offset 0x7 (of CMP)"),
        (33, "w", "write in the reserved range 0x20..0x23 of CMP, at offset 0x21 (of CMP)"),
        (42, "r", "read of FEED1, which is write-only, at offset 0x2a (of CMP)"),
        (99, "w", "write where CMP has no register, at offset 0x63 (of CMP)"),
        (-1, "w", "write where CMP has no register, at offset -0x1 (of CMP)"),
    ],
)
def test_offsets_without_a_register_say_what_is_there(offset, side, message):
    with pytest.raises(WireError) as caught:
        MAP.find(offset, side)
    assert str(caught.value) == message
    assert caught.value.path == (Place("offset", f"{offset:#x}", "of CMP"),)


def test_offsets_inside_a_register_name_it():
    small = RegisterMap("M", (Register("A", 4, (), width=32), Register("B", 8, (), width=32, side="r")))
    for offset, side, message in [
        (6, "r", "read inside A, which starts at 0x4, at offset 0x6 (of M)"),
        (8, "w", "write of B, which is read-only, at offset 0x8 (of M)"),
    ]:
        with pytest.raises(WireError) as caught:
            small.find(offset, side)
        assert str(caught.value) == message


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: MODE.encode(MODE=4), "field MODE of register MODE holds 2 bits (0..0x3), not 0x4"),
        (lambda: MODE.encode(MODE=-1), "field MODE of register MODE holds 2 bits (0..0x3), not -0x1"),
        (lambda: MODE.encode(FOO=1), "register MODE has no field FOO (it has: ACTIVE MODE HOLE SIZE)"),
        (lambda: MODE.get(0, "FOO"), "register MODE has no field FOO (it has: ACTIVE MODE HOLE SIZE)"),
        (
            lambda: MODE.encode(MODE="ODD"),
            "field MODE of register MODE has no value named ODD (it has: SHARED PER_HART PER_CORE)",
        ),
        (lambda: MODE.encode(SIZE="ODD"), "field SIZE of register MODE has no value named ODD (it has: none)"),
        (lambda: MODE.decode(1 << 64), "value 0x10000000000000000 does not fit the 64 bits of register MODE"),
        (lambda: MODE.explain(-1), "value -0x1 does not fit the 64 bits of register MODE"),
        (lambda: MODE.reserved_bits(-1), "value -0x1 does not fit the 64 bits of register MODE"),
        (lambda: MODE.after_write(0, -1), "value -0x1 does not fit the 64 bits of register MODE"),
        (lambda: MAP.by_name("FOO"), "map CMP has no register FOO"),
        (lambda: MAP.offset_of("MODE8"), "map CMP has no register MODE8"),
    ],
)
def test_values_from_outside_that_do_not_fit_are_refused(act, message):
    with pytest.raises(WireError) as caught:
        act()
    assert str(caught.value) == message


def reg(name="R", offset=0, fields=(), **rest):
    return Register(name, offset, fields, **rest)


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: Field("a b", 0), "a field's name must be an identifier, not 'a b'"),
        (lambda: Field("F", -1), "field F: lsb must be 0 or more, not -1"),
        (lambda: Field("F", 0, 0), "field F: width must be 1 or more, not 0"),
        (lambda: Field("F", 0, 2, reset=4), "field F: reset must fit 2 bits (0..0x3), not 0x4"),
        (lambda: Field("F", 0, access=Access.STROBE, reset=1), "field F: reset of a strobe must be 0, not 0x1"),
        (lambda: Field("F", 0, values={2: "TWO"}), "field F: named values must fit 1 bits (0..0x1), not 0x2"),
        (lambda: Field("F", 0, values={0: "A", 1: "A"}), "field F: names of values must be unique, not A twice"),
        (lambda: reg(name=""), "a register's name must be an identifier, not ''"),
        (lambda: reg(offset=-1), "register R: offset must be 0 or more, not -1"),
        (lambda: reg(width=12), "register R: width must be a positive multiple of 8 bits, not 12"),
        (lambda: reg(count=0), "register R: count must be 1 or more, not 0"),
        (lambda: reg(stride=-8), "register R: stride must be 0 or more, not -8"),
        (lambda: reg(side="x"), 'register R: side must be one of "r", "w", "rw", not \'x\''),
        (lambda: reg(fields=(Field("F", 0), Field("F", 1))), "register R: names of fields must be unique, not F twice"),
        (lambda: reg(fields=(Field("F", 60, 8),)), "register R: field F must lie within bits 63-0, not at 67-60"),
        (
            lambda: reg(fields=(Field("HIGH", 3, 4), Field("LOW", 0, 4))),
            "register R: fields LOW at 3-0 and HIGH at 6-3 overlap, expected disjoint fields",
        ),
        (
            lambda: reg(fields=(Field("F", 0, access=Access.W1C),), side="r"),
            "register R: access of field F must be possible on side r, not w1c",
        ),
        (
            lambda: reg(fields=(Field("F", 0, access=Access.RO),), side="w"),
            "register R: access of field F must be possible on side w, not ro",
        ),
        (lambda: RegisterMap("M", (), unit_bytes=0), "map M: unit_bytes must be 1 or more, not 0"),
        (
            lambda: RegisterMap("M", (), reserved=(range(4, 4),)),
            "map M: a reserved range must hold offsets in steps of 1, not range(4, 4)",
        ),
        (
            lambda: RegisterMap("M", (), reserved=(range(0, 8, 4),)),
            "map M: a reserved range must hold offsets in steps of 1, not range(0, 8, 4)",
        ),
        (lambda: RegisterMap("M", (reg(), reg(offset=8))), "map M: names of registers must be unique, not R twice"),
        (
            lambda: RegisterMap("M", (reg("R1"), reg("R", 8, count=2))),
            "map M: names of registers must be unique, not R1 twice",
        ),
        (
            lambda: RegisterMap("M", (reg(count=2, stride=4),)),
            "map M: stride of array R must be 8 or more, not 4",
        ),
        (
            lambda: RegisterMap("M", (reg("A"), reg("B", 4))),
            "map M: A at 0x0..0x8 and B at 0x4..0xc overlap, expected disjoint registers and reserved ranges",
        ),
        (
            lambda: RegisterMap("M", (reg("A", count=4), reg("B", 16, side="w"))),
            "map M: A2 at 0x10..0x18 and B at 0x10..0x18 overlap, expected disjoint registers and reserved ranges",
        ),
        (
            lambda: RegisterMap("M", (reg("A", 8),), reserved=(range(9),)),
            "map M: a reserved range at 0x0..0x9 and A at 0x8..0x10 overlap, "
            "expected disjoint registers and reserved ranges",
        ),
    ],
)
def test_a_declaration_that_contradicts_itself_is_refused(declare, message):
    with pytest.raises(ModelBug) as caught:
        declare()
    assert str(caught.value) == message
