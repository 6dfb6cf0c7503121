"""Machine words for the comparisons with LLVM: a sweep over every opcode, and random fillings of known operations."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from softcard.core.errors import SoftcardError
from softcard.isa.gcn.asm.assembler import assemble_one, forms
from softcard.isa.gcn.asm.printer import text
from softcard.isa.gcn.encoding.decode import decode
from softcard.isa.gcn.encoding.encode import encode, find_format
from softcard.isa.gcn.insn import Insn, Op
from softcard.isa.gcn.operations.table import OPS
from softcard.isa.gcn.target import Target

Slot = tuple[str, int]
"""Encoding and opcode."""
LITERAL = 0x1122_3344


def sweep(level: int) -> Iterator[tuple[Slot, bytes]]:
    """Every opcode of every encoding of GFX8 or GFX9, with a few operands that suit most operations."""
    newest = level == 9
    scalar = itertools.chain(_scalar(), _scalar_memory())
    vector = itertools.chain(_vector(), _vop3(newest), _extended())
    rows = itertools.chain(scalar, vector, _lds(), _flat(newest), _buffers(), _images())
    for name, opcode, *words in rows:
        yield (name, opcode), b"".join(word.to_bytes(4, "little") for word in words)


Row = tuple[str, int, *tuple[int, ...]]


def _scalar() -> Iterator[Row]:
    for op in range(0x60):
        yield "SOP2", op, 2 << 30 | op << 23 | 2 << 16 | 6 << 8 | 4
    for op, s in itertools.product(range(29), (1, 0x1801)):
        word = 0xB << 28 | op << 23 | 2 << 16 | s
        yield "SOPK", op, word
        yield "SOPK", op, word, LITERAL
    for op in range(256):
        yield "SOP1", op, 0x17D << 23 | 2 << 16 | op << 8 | 4
    for op in range(128):
        yield "SOPC", op, 0x17E << 23 | op << 16 | 6 << 8 | 4
        yield "SOPP", op, 0x17F << 23 | op << 16


def _scalar_memory() -> Iterator[Row]:
    for op, data in itertools.product(range(256), (16, 0)):
        for base, imm in itertools.product((8 >> 1, 0), (1, 0)):
            yield "SMEM", op, 0x30 << 26 | op << 18 | imm << 17 | data << 6 | base, 0


def _vector() -> Iterator[Row]:
    for op in range(62):
        yield "VOP2", op, op << 25 | 3 << 17 | 4 << 9 | 258
        yield "VOP2", op, op << 25 | 3 << 17 | 4 << 9 | 258, LITERAL
    for op, (dst, src) in itertools.product(range(256), ((4, 258), (0, 256), (0, 0), (4, 4))):
        yield "VOP1", op, 0x3F << 25 | dst << 17 | op << 9 | src
    for op in range(256):
        yield "VOPC", op, 0x3E << 25 | op << 17 | 4 << 9 | 258
    for op, src in itertools.product(range(4), (0, 5)):
        yield "VINTRP", op, 0x35 << 26 | 4 << 18 | op << 16 | src


def _vop3(newest: bool) -> Iterator[Row]:
    sources = (
        (258, 260, 262),
        (258, 4, 0),
        (258, 260, 0),
        (258, 0, 0),
        (0, 0, 0),
        (258, 260, 6),
        (4, 6, 0),
        (4, 258, 0),
    )
    for op, dst, (a, b, c) in itertools.product(range(0x380), (4, 0), sources):
        yield "VOP3A", op, 0x34 << 26 | op << 16 | dst, a | b << 9 | c << 18
    if newest:
        for op, c in itertools.product(range(128), (262, 0)):
            yield "VOP3P", op, 0x1A7 << 23 | op << 16 | 4, 258 | 260 << 9 | c << 18


def _extended() -> Iterator[Row]:
    select, lanes = 2 | 6 << 8 | 6 << 16, 2 | 0xE4 << 8 | 0xFF << 24
    for name, code, seconds in (("SDWA", 0xF9, (select, select | 6 << 24)), ("DPP", 0xFA, (lanes,))):
        for second in seconds:
            for op in range(62):
                yield f"VOP2_{name}", op, op << 25 | 3 << 17 | 4 << 9 | code, second
            for op in range(256):
                yield f"VOP1_{name}", op, 0x3F << 25 | 4 << 17 | op << 9 | code, second
                yield f"VOPC_{name}", op, 0x3E << 25 | op << 17 | 4 << 9 | code, second & ~0xFF00


def _lds() -> Iterator[Row]:
    for op, gds in itertools.product(range(256), (0, 1)):
        for dst, second, first, addr in itertools.product((4, 0), (8, 0), (6, 0), (2, 0)):
            yield "DS", op, 0x36 << 26 | op << 17 | gds << 16, dst << 24 | second << 16 | first << 8 | addr


def _flat(newest: bool) -> Iterator[Row]:
    for segment, name in enumerate(("FLAT", "SCRATCH", "GLOBAL") if newest else ("FLAT",)):
        for op, glc, saddr in itertools.product(range(128), (0, 1), (0, 0x7F) if newest else (0,)):
            for dst, data, addr in itertools.product((8, 0), (4, 0), (2, 0)):
                first = 0x37 << 26 | op << 18 | glc << 16 | segment << 14
                yield name, op, first, dst << 24 | saddr << 16 | data << 8 | addr


def _buffers() -> Iterator[Row]:
    for op, glc, lds in itertools.product(range(128), (0, 1), (0, 1)):
        for data, resource in ((4, 2), (0, 0)):
            first = 0x38 << 26 | op << 18 | lds << 16 | glc << 14
            yield "MUBUF", op, first, (128 if not resource else 3) << 24 | resource << 16 | data << 8
            yield "MUBUF", op, first, resource << 16 | data << 8
    for op in range(16):
        yield "MTBUF", op, 0x3A << 26 | 4 << 23 | 4 << 19 | op << 15, 3 << 24 | 2 << 16 | 4 << 8


def _images() -> Iterator[Row]:
    for op, mask, flags, sampler in itertools.product(range(128), (0, 1, 3, 15), (0, 1, 3, 4, 7), (3, 0)):
        yield "MIMG", op, 0x3C << 26 | op << 18 | flags << 12 | mask << 8, sampler << 21 | 2 << 16 | 8 << 8 | 4
    yield "EXP", 0, 0x31 << 26 | 15, 0x0403_0201


_SOURCES = (256, 258, 300, 509, 2, 4, 8, 16, 106, 126, 124, 128, 129, 193, 208, 240, 247)
_CHOICES: dict[str, tuple[int, ...]] = {
    "sdst": (2, 4, 8, 106, 126), "sbase": (0, 4, 8), "srsrc": (0, 4, 8), "ssamp": (0, 4, 8), "saddr": (2, 4, 127, 127),
    "dmask": (1, 1, 3, 15, 5), "simm16": (0, 1, 5, 0xFFFF, 0x7FFF, 0x8000),
}  # fmt: skip


def fillings(target: Target, chance: random.Random, count: int) -> Iterator[Insn]:
    """Instructions of every operation of `target` in every form, with operands and flags by chance.

    What an operation does not use is 0, as assemblers leave it. Up to `count` of each form; there may be fewer.
    """
    for op in OPS:
        if op.on(target):
            for form in forms(target, op):
                for _ in range(count):
                    insn = _filling(target, op, form, chance)
                    if insn is not None:
                        yield insn


def _filling(target: Target, op: Op, form: str, chance: random.Random) -> Insn | None:
    fields = {}
    for field in find_format(target, op, form).pattern.fields:
        width = sum(piece.width for piece in field.pieces)
        if field.name not in ("op", "seg", "s0", "s1", "sd"):
            fields[field.name] = _value(field.name, width, chance)
    if form in ("VOP2", "VOPC") or form.endswith(("_SDWA", "_DPP")):
        fields |= {name: 256 + chance.randrange(256) for name in ("src0", "src1") if name in fields and name != "src0"}
        if form.endswith(("_SDWA", "_DPP")):
            fields["src0"] = 256 + chance.randrange(256)
    if op.name in ("v_readlane_b32", "v_writelane_b32"):
        fields["src1"] = chance.choice((2, 124, 129))
    if "_interp_" in op.name and form == "VOP3A":
        fields |= {"src1": 256 + chance.randrange(256), "src2": 256 + chance.randrange(256), "omod": 0}
        fields |= {"src1": chance.randrange(3)} if "mov" in op.name else {}
    if form == "VOP3A" and op.family == "vopc":
        fields["sdst"] = fields.pop("vdst") & 0x3E
    try:
        code = encode(target, op, form, fields)
        shown = text(decode(target, code + LITERAL.to_bytes(4, "little")))
        return decode(target, assemble_one(target, shown))
    except SoftcardError:
        return None


def _value(name: str, width: int, chance: random.Random) -> int:
    if name in ("src0", "src1", "src2"):
        return chance.choice(_SOURCES)
    if name in ("ssrc0", "ssrc1"):
        return chance.choice([code for code in _SOURCES if code < 256] + [255])
    if name in _CHOICES:
        numbers = [*_CHOICES[name], *([chance.getrandbits(16)] if width == 16 else [])]
        return chance.choice(numbers)
    if name == "soffset" and width == 8:
        return chance.choice((2, 128, 193, 124))
    if width < 7:
        return chance.choice((0, 0, chance.getrandbits(width)))
    return chance.choice((0, 2, 4, 8, chance.getrandbits(width)))
