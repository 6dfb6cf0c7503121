"""Decoding is a short way: how often it goes from one file of the package to another."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import pytest

from understudy.isa.gcn.asm.assembler import assemble_one
from understudy.isa.gcn.encoding import operands
from understudy.isa.gcn.encoding.decode import decode
from understudy.isa.gcn.target import TARGETS

MOVES = 6
"""`decode`, the operation, the fields, the operands (and what flags make of them), the instruction."""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gfx900", "v_add_f32_e32 v1, v2, v3"),
        ("gfx900", "v_add_co_u32_e64 v1, s[2:3], v4, v5"),
        ("gfx900", "v_mov_b32_dpp v1, v2 row_shr:1 row_mask:0xf bank_mask:0xf"),
        ("gfx900", "global_load_dword v1, v2, s[2:3]"),
        ("gfx900", "s_load_dwordx2 s[0:1], s[2:3], s4 offset:0x10"),
        ("gfx803", "buffer_load_dword v1, v2, s[4:7], 0 offen offset:4"),
        ("gfx700", "image_sample v[0:3], v[4:5], s[8:15], s[0:3] dmask:0xf"),
    ],
)
def test_decoding_goes_from_file_to_file_six_times(name: str, text: str) -> None:
    target = TARGETS[name]
    code = assemble_one(target, text)
    words = [int.from_bytes(code[at : at + 4], "little") for at in range(0, len(code), 4)]
    decode(target, words)  # the tables are made
    moves: list[tuple[str, str]] = []

    def watch(frame: FrameType, event: str, argument: object) -> None:
        caller = frame.f_back
        if event == "call" and caller is not None and caller.f_code.co_filename != frame.f_code.co_filename:
            moves.append((frame.f_code.co_filename, frame.f_code.co_name))

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        decode(target, words)
    finally:
        sys.setprofile(before)
    assert len(moves) <= MOVES, moves
    assert not [file for file, _ in moves if "/asm/" in file]


def test_the_encoding_knows_no_assembly_text() -> None:
    for file in Path(operands.__file__).parent.glob("*.py"):
        assert "gcn.asm" not in file.read_text(), file.name
