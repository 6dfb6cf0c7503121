"""Listings are made of templates: each line is what printing that one instruction gives."""

import random

import pytest

from softcard.core.errors import SoftcardError
from softcard.isa.gcn.asm.assembler import assemble_one
from softcard.isa.gcn.asm.listing import listing
from softcard.isa.gcn.asm.printer import branch_target, text
from softcard.isa.gcn.encoding.decode import decode
from softcard.isa.gcn.encoding.formats import FORMATS, LONGEST
from softcard.isa.gcn.target import target

LITERALS = (0, 1, 64, 65, 0x3F80_0000, 0xBF80_0000, 0x3E22_F983, 0x3C00, 0xFFFF, 0xFFFF_FFF0, 0xFFFF_FFEF, 0x7FC0_0001)


def likely_words(level: int, chance: random.Random, count: int) -> list[int]:
    """Words of all encodings: each a few times with other registers, constants and numbers, so that shapes recur."""
    found = []
    while len(found) < count:
        fmt = chance.choice(FORMATS[level])
        word = chance.getrandbits(64) & ~fmt.pattern.mask | fmt.pattern.match
        for _ in range(4):
            found += [word & 0xFFFF_FFFF, word >> 32][: fmt.size // 4]
            if fmt.size == 4:
                found.append(chance.choice(LITERALS) if chance.random() < 0.5 else chance.getrandbits(32))
            for field in fmt.pattern.fields:
                if field.name != "op" and field.is_plain and chance.random() < 0.4:
                    piece = field.pieces[0]
                    value = chance.choice((0, 2, 4, 106, 124, 128, 200, 242, 248, 255, 256, chance.getrandbits(9)))
                    most = (1 << piece.width) - 1
                    word = word & ~(most << piece.at) | (value & most) << piece.at
            word = word & ~fmt.pattern.mask | fmt.pattern.match
    return found


def printed(processor, code: bytes, pc: int) -> tuple[int, str]:
    """Size and text of the instruction at the beginning of code, looked at by itself."""
    try:
        insn = decode(processor, code, pc)
    except SoftcardError:
        return 4, f".long {int.from_bytes(code[:4], 'little'):#010x}"
    words = ", ".join(f"{word:#010x}" for word in insn.words)
    is_same = assemble_one(processor, text(insn), pc) == code[: insn.size]
    return insn.size, text(insn) if is_same else f".long {words} ; {text(insn)}"


@pytest.mark.parametrize("name", ["gfx700", "gfx803", "gfx900", "gfx906"])
def test_a_line_says_what_its_instruction_alone_would(name):
    processor = target(name)
    chance = random.Random(f"listing {name}")
    words = likely_words(processor.level, chance, 6000)
    code = b"".join(word.to_bytes(4, "little") for word in words)
    at = templated = 0
    for line in listing(processor, code):
        size, expected = printed(processor, code[at : at + LONGEST], at)
        assert (line.pc, line.code) == (at, code[at : at + size])
        assert (line.refusal is not None) == (line.insn is None)
        if line.insn is None or branch_target(line.insn) is None:
            assert line.shown == expected
            templated += line.insn is not None
        at += size
    assert at == len(code)
    assert templated > 1000


@pytest.mark.parametrize("words", [(0x7E0002FF,), (0xD8D80000,), (0x810000FF,), ()])
def test_code_that_ends_inside_an_instruction(words):
    gfx9 = target("gfx900")
    code = b"".join(word.to_bytes(4, "little") for word in words)
    lines = listing(gfx9, code + b"\1\2")
    assert [line.shown for line in lines] == [f".long {word:#010x}" for word in words]
    assert all("the code ends inside it" in str(line.refusal) for line in lines)
