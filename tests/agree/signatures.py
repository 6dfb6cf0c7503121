"""Programs that leave signatures, in the manner of architecture tests: all instructions of a family on all combinations
of corner values, with what it gave and the float flags that it raised, one after the other in memory.

They are made from the tables of instructions, and run on our engines and on qemu-riscv64 alike: at their end they write
the signature to standard output.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

from softcard.isa.riscv.table import BASE, FURTHER, HALFWORDS
from softcard.riscv import assemble_program

FAMILIES: Final = ("M", "A", "F", "D", "C", "Zba", "Zbb", "Zbs", "Zbc", "Zfh")
LEFT_OUT: Final = frozenset({"c.ebreak"})
"""Of the families: it ends a program."""
MASK64: Final = (1 << 64) - 1
INTEGERS: Final = tuple(
    sorted(
        {value & MASK64 for value in (0, 1, 2, 3, -1, -2, -3, 5, 255, 256, 1 << 31, (1 << 31) - 1, -(1 << 31))}
        | {value & MASK64 for value in ((1 << 32) - 1, 1 << 32, (1 << 32) + 1, -(1 << 32), (1 << 63) - 1, 1 << 63)}
        | {0x5555_5555_5555_5555, 0xAAAA_AAAA_AAAA_AAAA, 0x3333_3333_3333_3333, 0xB504_F333_F9DE_6484, 1 << 62}
        | {0x0123_4567_89AB_CDEF, 0xFF00_FF00_FF00_FF00, 0x8000_0000_0000_0001, 63, 64, 31, 32}
    )
)
DOUBLES: Final = (
    0, 1 << 63, 1, (1 << 63) + 1, 0x000F_FFFF_FFFF_FFFF, 0x0010_0000_0000_0000, 0x3FF0_0000_0000_0000,
    0xBFF0_0000_0000_0000, 0x3FF0_0000_0000_0001, 0x3FEF_FFFF_FFFF_FFFF, 0x3FE0_0000_0000_0000, 0x3FF8_0000_0000_0000,
    0xC004_0000_0000_0000, 0x41DF_FFFF_FFE0_0000, 0xC1E0_0000_0020_0000, 0x41EF_FFFF_FFF0_0000, 0x43E0_0000_0000_0000,
    0x43F0_0000_0000_0000, 0xC3E0_0000_0000_0001, 0x47EF_FFFF_E000_0000, 0x47EF_FFFF_F000_0000, 0x3690_0000_0000_0000,
    0x380F_FFFF_F000_0000, 0x7FEF_FFFF_FFFF_FFFF, 0xFFEF_FFFF_FFFF_FFFF, 0x7FF0_0000_0000_0000, 0xFFF0_0000_0000_0000,
    0x7FF8_0000_0000_0000, 0x7FF0_0000_0000_0001, 0xFFF8_1234_5678_9ABC,
)  # fmt: skip
SINGLES: Final = (
    0, 1 << 31, 1, 0x8000_0001, 0x007F_FFFF, 0x0080_0000, 0x3F80_0000, 0xBF80_0000, 0x3F80_0001, 0x3F7F_FFFF,
    0x3F00_0000,
    0x3FC0_0000, 0xC020_0000, 0x4EFF_FFFF, 0x4F00_0000, 0xCF00_0001, 0x4F7F_FFFF, 0x5F00_0000, 0x5F80_0000, 0xDF00_0001,
    0x4780_0000, 0x3380_0000, 0x7F7F_FFFF, 0xFF7F_FFFF, 0x7F80_0000, 0xFF80_0000, 0x7FC0_0000, 0x7F80_0001, 0xFFC1_2345,
)  # fmt: skip
HALVES: Final = (
    0, 0x8000, 1, 0x8001, 0x03FF, 0x0400, 0x3C00, 0xBC00, 0x3C01, 0x3BFF, 0x3800, 0x3E00, 0xC100, 0x7BFF, 0xFBFF,
    0x7C00,
    0xFC00, 0x7E00, 0x7C01, 0xFE12, 0x7800, 0x6400, 0x1400,
)  # fmt: skip
FLOATS: Final = {
    "D": DOUBLES,
    "F": (*(0xFFFF_FFFF << 32 | each for each in SINGLES), 0x3F80_0000),
    "Zfh": (*(0xFFFF_FFFF_FFFF << 16 | each for each in HALVES), 0xFFFF_FFFF_3F80_3C00),
}
"""The last ones of the narrower formats are not boxed."""
FEW: Final = 7
"""Values of each operand where there are three."""
MODES: Final = 5
OUTPUT: Final = {"rd": ("a2", "sd"), "fd": ("fa2", "fsd")}


@cache
def rows(family: str) -> tuple[tuple[str, str], ...]:
    """Names and operands of the instructions of a family."""
    if family == "C":
        return tuple((row.name, row.operands) for row in HALFWORDS if row.name not in LEFT_OUT)
    return tuple((row.name, row.operands) for table in (BASE, FURTHER) for row in table if row.what.extension == family)


class Program:
    """Assembly text that grows; `size` is what its signature will take."""

    def __init__(self, family: str) -> None:
        self.family = family
        self.code: list[str] = []
        self.tables: dict[tuple[int, ...], str] = {}
        self.size = 0
        self._labels = 0
        self.done: set[str] = set()

    def label(self) -> str:
        """A new one."""
        self._labels += 1
        return f"at{self._labels}"

    def each(self, values: tuple[int, ...], pointer: str, count: str, load: str) -> tuple[str, str]:
        """What begins a loop over values, and what ends it."""
        table = self.tables.setdefault(values, f"table{len(self.tables)}")
        head = self.label()
        begin = f"la {pointer}, {table}; li {count}, {len(values)}; {head}: {load}"
        return begin, f"addi {pointer}, {pointer}, 8; addi {count}, {count}, -1; bne {count}, zero, {head}"

    def loops(self, body: str, tables: list[tuple[tuple[int, ...], str]], words: int, times: int = 1) -> None:
        """`body` for each combination of values, loaded as said, which leaves so many words at s1."""
        opened = [
            self.each(values, pointer, count, load.format(pointer))
            for (values, load), pointer, count in zip(tables, ("s2", "s3", "s6"), ("s4", "s5", "s7"), strict=False)
        ]
        self.code += [begin for begin, _ in opened]
        self.code += [body, f"addi s1, s1, {8 * words}"]
        self.code += [end for _, end in reversed(opened)]
        total = words * times
        for values, _ in tables:
            total *= len(values)
        self.size += 8 * total

    def text(self) -> str:
        """All of it."""
        tables = [f"{name}: .dword {', '.join(map(hex, values))}" for values, name in self.tables.items()]
        return "\n".join(
            [
                ".globl _start",
                "_start: la s1, begin_signature",
                *"; ".join(self.code).split("; "),
                "la a1, begin_signature",
                "li a0, 1",
                "sub a2, s1, a1",
                "li a7, 64",
                "ecall",
                "li a0, 0",
                "li a7, 93",
                "ecall",
                ".data",
                ".balign 16",
                "cell: .dword 0, 0",
                "fields: .zero 1024",
                *tables,
                ".bss",
                ".balign 16",
                ".globl begin_signature",
                f"begin_signature: .zero {self.size}",
                ".globl end_signature",
                "end_signature: .zero 16",
            ]
        )


def _operands(family: str, name: str, parts: list[str]) -> list[tuple[tuple[int, ...], str]]:
    """Values of the sources, and how they are loaded."""
    found: list[tuple[tuple[int, ...], str]] = []
    sources = [part for part in parts if part[:2] in ("rs", "fs")]
    for part, letter in zip(sources, "013", strict=False):
        if part[0] == "r":
            found.append((INTEGERS, f"ld a{letter}, 0({{}})"))
        else:
            kind = {"h": "Zfh", "s": "F", "d": "D"}.get(name.rpartition(".")[2], family)
            kind = "D" if name == "fmv.x.d" else "Zfh" if name == "fmv.x.h" else "F" if name == "fmv.x.w" else kind
            values = FLOATS[kind]
            if len(sources) == 3:
                values = tuple(values[k] for k in range(0, len(values), -(-len(values) // FEW)))
            found.append((values, f"fld fa{letter}, 0({{}})"))
    return found


def _computing(program: Program, name: str, operands: str) -> None:
    """An instruction that computes from registers, and perhaps a number."""
    rounds = "[, rm]" in operands
    parts = operands.replace("[, rm]", "").replace("[, exact]", "").split(", ")
    out, store = OUTPUT[parts[0]]
    sources = iter("013")
    words = [f"{'f' if part[0] == 'f' else ''}a{next(sources)}" for part in parts[1:] if part[:2] in ("rs", "fs")]
    wide = 64 if "w" not in name.replace("clmul", "") or name in ("slli.uw",) else 32
    amounts = [(0, 1, 31, wide - 1)] if "shamt" in parts else [(None,)]
    tables = _operands(program.family, name, parts[1:])
    floats = program.family in FLOATS
    for amount in amounts[0]:
        last = [] if amount is None else [str(amount)]
        body = f"{name} {', '.join([out, *words, *last])}; {store} {out}, 0(s1)"
        if not floats:
            program.loops(body, tables, 1)
            continue
        body = f"csrrwi zero, fflags, 0; {body}; csrrs a4, fflags, zero; sd a4, 8(s1)"
        modes, head = MODES if rounds else 1, program.label()
        program.code.append(f"li s8, 0; {head}: csrrw zero, frm, s8")
        program.loops(body, tables, 2, modes)
        program.code.append(f"addi s8, s8, 1; li t2, {modes}; bne s8, t2, {head}")


def _atomic(program: Program, name: str) -> None:
    """A word in memory and a register; lr and sc as pairs."""
    w = name[-1]
    if name.startswith(("lr", "sc")):
        act = f"lr.{w} a2, (t0); sc.{w} a3, a1, (t0); add a2, a2, a3"
    else:
        act = f"{name} a2, a1, (t0)"
    body = f"la t0, cell; sd a0, 0(t0); {act}; ld a3, 0(t0); sd a2, 0(s1); sd a3, 8(s1)"
    program.loops(body, [(INTEGERS, "ld a0, 0({})"), (INTEGERS, "ld a1, 0({})")], 2)


def _moving(program: Program, name: str) -> None:
    """Loads and stores of floats."""
    if name in ("fld", "flw", "flh"):
        body = f"la t0, cell; sd a0, 8(t0); {name} fa2, 8(t0); fsd fa2, 0(s1)"
    else:
        body = f"la t0, cell; sd zero, 8(t0); fmv.d.x fa2, a0; {name} fa2, 8(t0); ld a2, 8(t0); sd a2, 0(s1)"
    program.loops(body, [(tuple(dict.fromkeys((*DOUBLES, *INTEGERS))), "ld a0, 0({})")], 1)


IMMEDIATES: Final = {
    "c.addi": (1, -1, 31, -32), "c.addiw": (0, 1, -1, 31, -32), "c.li": (0, 1, -1, 31, -32),
    "c.andi": (0, 1, -1, 31, -32),
    "c.lui": (1, 31), "c.slli": (1, 31, 32, 63), "c.srli": (1, 31, 32, 63), "c.srai": (1, 31, 32, 63),
}  # fmt: skip
OFFSETS: Final = {"8": (0, 8, 64, 248), "4": (0, 4, 64, 124)}


def _compressed(program: Program, name: str, operands: str) -> None:
    """Each form on every value."""
    one, two = [(INTEGERS, "ld a0, 0({})")], [(INTEGERS, "ld a0, 0({})"), (INTEGERS, "ld a1, 0({})")]
    if operands == "rd, rs2":
        program.loops(f"mv a2, a0; {name} a2, a1; sd a2, 0(s1)", two, 1)
    elif name in IMMEDIATES:
        for number in IMMEDIATES[name]:
            program.loops(f"mv a2, a0; {name} a2, {number}; sd a2, 0(s1)", one, 1)
    elif name in ("c.beqz", "c.bnez", "c.j"):
        skip = program.label()
        test = "" if name == "c.j" else "a0, "
        program.loops(f"li a2, 1; {name} {test}{skip}; li a2, 2; {skip}: sd a2, 0(s1)", one, 1)
    elif name in ("c.jr", "c.jalr"):
        to = program.label()
        program.loops(f"la a3, {to}; li a2, 1; {name} a3; li a2, 2; {to}: sd a2, 0(s1)", one, 1)
    elif name == "c.addi4spn":
        for number in (4, 512, 1020):
            program.loops(f"mv t1, sp; mv sp, a0; c.addi4spn a2, sp, {number}; mv sp, t1; sd a2, 0(s1)", one, 1)
    elif name == "c.addi16sp":
        for number in (16, -16, 496, -512):
            program.loops(f"mv t1, sp; mv sp, a0; c.addi16sp sp, {number}; mv a2, sp; mv sp, t1; sd a2, 0(s1)", one, 1)
    elif name == "c.nop":
        program.loops("c.nop; sd a0, 0(s1)", one, 1)
    else:
        _compressed_access(program, name, one)


def _compressed_access(program: Program, name: str, one: list[tuple[tuple[int, ...], str]]) -> None:
    """A load or store at a few offsets, from a register or from sp."""
    on_stack, is_float = name.endswith("sp"), name.startswith("c.f")
    width = "4" if "w" in name else "8"
    base = "sp" if on_stack else "a3"
    for offset in OFFSETS[width]:
        place = f"{offset}({base})"
        setup = f"la a3, fields; sd zero, {offset & ~7}(a3); mv t1, sp; {'mv sp, a3; ' if on_stack else ''}"
        if name[2:].startswith(("l", "fl")):
            act = f"sd a0, {offset & ~7}({base}); {name} {'fa2' if is_float else 'a2'}, {place}; mv sp, t1"
            act += "; fmv.x.d a2, fa2" if is_float else ""
        else:
            value = "fmv.d.x fa0, a0; " if is_float else ""
            act = f"{value}{name} {'fa0' if is_float else 'a0'}, {place}; mv sp, t1; ld a2, {offset & ~7}(a3)"
        program.loops(f"{setup}{act}; sd a2, 0(s1)", one, 1)


def program(family: str, names: Iterable[str] = ()) -> Program:
    """All instructions of a family, or these."""
    made = Program(family)
    for name, operands in _wanted(family, names):
        if family == "C":
            _compressed(made, name, operands)
        elif family == "A":
            _atomic(made, name)
        elif "(rs1)" in operands:
            _moving(made, name)
        else:
            _computing(made, name, operands)
        made.done.add(name)
    return made


def _wanted(family: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    chosen = set(names)
    return ((name, operands) for name, operands in rows(family) if not chosen or name in chosen)


def elf(family: str, names: Iterable[str] = ()) -> bytes:
    """The program as a file."""
    return assemble_program(program(family, names).text())
