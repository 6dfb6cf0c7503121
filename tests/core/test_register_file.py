"""Registers that act: access modes, hooks by name, and the store that a device shares with others."""

from __future__ import annotations

import ctypes

import pytest

from softcard.core.errors import WireError
from softcard.core.register import Access, Field, Register, RegisterFile, RegisterMap

MAP = RegisterMap(
    "MAP",
    (
        Register("PLAIN", 0, (Field("ALL", 0, 32, reset=7),), 32),
        Register("STATUS", 4, (Field("SET", 0, 8, Access.W1C), Field("GO", 8, 1, Access.STROBE)), 32),
        Register("COUNT", 8, (Field("N", 0, 32, Access.RO),), 32, side="r"),
        Register("WORDS", 8, (Field("WORD", 0, 32),), 32, count=3, side="w"),
        Register("SECRET", 20, (Field("KEY", 0, 32, Access.WO),), 32),
    ),
)


def test_fields_act_by_their_access_modes() -> None:
    file = RegisterFile(MAP, {}, {})
    assert (file["PLAIN"], file.reads[0][1]()) == (7, 7)
    file["STATUS"] = 0x1F
    file.writes[4][1](0x103)
    assert file["STATUS"] == file.reads[4][1]() == 0x1C
    file.writes[20][1](99)
    assert (file["SECRET"], file.reads[20][1]()) == (99, 0)
    with pytest.raises(WireError, match=r"^value 0x100000000 does not fit the 32 bits of register STATUS$"):
        file.writes[4][1](1 << 32)


def test_offsets_have_one_register_a_side() -> None:
    file = RegisterFile(MAP, {}, {})
    assert {offset: name for offset, (name, _) in file.reads.items()} == {
        0: "PLAIN",
        4: "STATUS",
        8: "COUNT",
        20: "SECRET",
    }
    assert [file.writes[offset][0] for offset in (8, 12, 16)] == ["WORDS0", "WORDS1", "WORDS2"]
    for offset, word in ((8, 1), (12, 2), (16, 3)):
        file.writes[offset][1](word)
    assert (file.array("WORDS"), file["COUNT"]) == ((1, 2, 3), 0)


def test_hooks_go_by_the_name_of_a_register_or_of_an_element() -> None:
    reported: list[tuple[str, int, int]] = []
    file = RegisterFile(
        MAP,
        {"COUNT": lambda held: held + 1000},
        {
            "STATUS": lambda written, before: reported.append(("STATUS", written, before)),
            "WORDS": lambda written, before: reported.append(("WORDS", written, before)),
            "WORDS2": lambda written, before: "last",
        },
    )
    file["COUNT"], file["STATUS"] = 5, 3
    assert file.reads[8][1]() == 1005
    assert file.writes[4][1](1) is None
    assert [file.writes[offset][1](9) for offset in (8, 16)] == [None, "last"]
    assert reported == [("STATUS", 1, 3), ("WORDS", 9, 0)]
    assert file["STATUS"] == 2, "the hook may do more, but the access mode acts"


def test_what_registers_hold_can_be_kept_and_shared() -> None:
    store = (ctypes.c_uint32 * 7)()
    file = RegisterFile(MAP, {}, {}, store)
    assert store[file.number("PLAIN")] == 7
    store[file.number("WORDS1")] = 12
    kept = file.snapshot()
    assert (file["WORDS1"], kept["WORDS1"]) == (12, 12)
    file.reset()
    assert (file["WORDS1"], file["PLAIN"]) == (0, 7)
    file.restore(kept | {"PLAIN": 8})
    assert (store[file.number("WORDS1")], file["PLAIN"]) == (12, 8)
