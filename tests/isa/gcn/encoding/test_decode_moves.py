"""Decoding is a short way: how often it goes from one file of the package to another."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import pytest

from softcard.isa.gcn.encoding import operands
from softcard.isa.gcn.encoding.decode import decode
from softcard.isa.gcn.target import TARGETS

MOVES = 6
"""`decode`, the operation, the fields, the operands (and what flags make of them), the instruction."""


@pytest.mark.parametrize(
    ("name", "form", "words"),
    [
        ("gfx900", "VOP2", [0x0202_0702]),
        ("gfx900", "VOP3B", [0xD119_0201, 0x0002_0B04]),
        ("gfx900", "VOP1_DPP", [0x7E02_02FA, 0xFF01_1102]),
        ("gfx900", "FLAT", [0xDC50_8000, 0x0102_0002]),
        ("gfx900", "SMEM", [0xC006_4001, 0x0800_0010]),
        ("gfx803", "MUBUF", [0xE050_1004, 0x8001_0102]),
        ("gfx700", "MIMG", [0xF080_0F00, 0x0002_0004]),
    ],
)
def test_decoding_goes_from_file_to_file_six_times(name: str, form: str, words: list[int]) -> None:
    target = TARGETS[name]
    assert decode(target, words).form == form  # and the tables are made
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
