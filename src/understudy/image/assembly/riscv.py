"""Assembly files of RISC-V as gcc and clang write them, to programs: linked at a base address, nothing relaxed.

Sources: the RISC-V Assembly Programmer's Manual (pseudo-instructions, relocation functions, ``.option``) and the psABI,
chapter "Relocations". Compressed instructions are chosen where they mean the same, as GNU's and LLVM's assemblers do;
branches that do not reach become longer ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from understudy.core.errors import WireError
from understudy.image.assembly.assembly import Assembly, Section, defined
from understudy.image.assembly.expressions import Function, Value
from understudy.image.assembly.source import RISCV, Statement, operands, string
from understudy.image.elf.layout import (
    ET_EXEC,
    MACHINE_RISCV,
    PF_R,
    PF_W,
    PF_X,
    PT_LOAD,
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHF_WRITE,
    SHN_ABS,
    SHT_NOBITS,
    SHT_PROGBITS,
)
from understudy.image.elf.writer import ElfPlan, SectionPart, SegmentPart, SymbolWriter
from understudy.isa.riscv.assembler import row_of, word_of
from understudy.isa.riscv.compress import compressed, shortest
from understudy.isa.riscv.csrnames import CSR_NUMBERS
from understudy.isa.riscv.format import FLOAT_REGISTERS, REGISTERS, ROUNDING
from understudy.isa.riscv.pseudo import IMMEDIATES, PSEUDO, load_constant
from understudy.isa.riscv.table import BASE, PARCELS

BASE_ADDRESS: Final = 0x1_0000
"""Where programs are linked unless somebody says otherwise."""
PAGE: Final = 4096
FLOAT_ABI_DOUBLE: Final = 4
RVC: Final = 1
"""Bits of e_flags."""
NOP, C_NOP = bytes.fromhex("13000000"), bytes.fromhex("0100")
MASK64: Final = (1 << 64) - 1
_REGISTERS: Final = frozenset(
    [*REGISTERS, *FLOAT_REGISTERS, "fp", *(f"x{n}" for n in range(32)), *(f"f{n}" for n in range(32))]
)
_WORDS: Final = _REGISTERS | frozenset(ROUNDING) | CSR_NUMBERS.keys() | {f"v{n}" for n in range(32)}
_VTYPE: Final = re.compile(r"v0\.t|e\d+|mf?\d|[tm][au]")
"""What else stands in the operands of vector instructions."""
_FUNCTION: Final = re.compile(r"%(\w+)\(")
_INDIRECT: Final = re.compile(r"(.*)\(\s*(\w+)\s*\)", re.DOTALL)
INVERSE: Final = {"beq": "bne", "bne": "beq", "blt": "bge", "bge": "blt", "bltu": "bgeu", "bgeu": "bltu"}
ADDRESSED: Final = ("la", "lla", "call", "tail", "jump")
JUMPS: Final = ("c.j", "c.beqz", "c.bnez")
LOADS: Final = ("lb", "lh", "lw", "ld", "lbu", "lhu", "lwu")
MOVES: Final = ("sb", "sh", "sw", "sd", "flw", "fld", "fsw", "fsd")
"""With the name of a place, these take a register for its address."""
_ORDER: Final = re.compile("[iorw]+")


class RiscvMachine:
    """RV64GC. The program is linked at `base`."""

    syntax = RISCV
    align_is_power = True

    @property
    def functions(self) -> Mapping[str, Function]:
        """See `Machine`."""
        return {}

    def __init__(self, base: int = BASE_ADDRESS) -> None:
        self._base = base
        self._is_short = True
        self._saved: list[bool] = []
        self._got: dict[str, int] = {}
        self._high: dict[int, int] = {}
        """What each %pcrel_hi of this pass means, by the address of its instruction."""
        self._last_high: dict[int, int] = {}

    def begin(self, assembly: Assembly) -> None:
        """See `Machine`."""
        self._is_short, self._saved, self._got = True, [], {}
        self._last_high, self._high = self._high, {}

    def mode(self) -> str:
        """See `Machine`."""
        return "c" if self._is_short else ""

    def padding(self, size: int) -> bytes:
        """See `Machine`."""
        return NOP * (size // 4) + C_NOP * (size % 4 // 2) + bytes(size % 2)

    def absolute(self, assembly: Assembly, offset: int, address: int, size: int) -> None:
        """See `Machine`."""

    # ---- directives ------------------------------------------------------------------------------------------------

    def directive(self, assembly: Assembly, statement: Statement) -> bool:
        """See `Machine`."""
        words = operands(statement.rest)
        if statement.name == ".option":
            self._option(words)
        elif statement.name == ".attribute":
            if len(words) == 2 and words[0] in ("arch", "5"):
                self._architecture(string(words[1]).decode("ascii", "replace"))
        elif statement.name == ".insn" and len(words) == 1:
            word = assembly.number_of(words[0], 0, 0xFFFF_FFFF, "an instruction")
            assembly.emit(word.to_bytes(4 if word & 3 == 3 else 2, "little"), statement)
        elif statement.name in (".sdata", ".sbss", ".srodata"):
            flags = "a" if statement.name == ".srodata" else "aw"
            assembly.enter(assembly.section(statement.name, flags, statement.name == ".sbss"))
        else:
            return statement.name in (".variant_cc",)
        return True

    def _option(self, words: list[str]) -> None:
        match words:
            case ["push"]:
                self._saved.append(self._is_short)
            case ["pop"]:
                if not self._saved:
                    raise WireError(".option pop without push")
                self._is_short = self._saved.pop()
            case ["rvc"] | ["norvc"]:
                self._is_short = words == ["rvc"]
            case ["arch", *changes]:
                for each in changes:
                    if each.startswith("rv"):
                        self._architecture(each)
                    elif each[1:] in ("c", "zca"):
                        self._is_short = each[0] == "+"
            case ["pic"]:
                raise WireError("programs are linked statically here: compile without -fpic")
            case ["nopic"] | ["relax"] | ["norelax"]:
                pass
            case _:
                raise WireError(f".option {', '.join(words)} is not known")

    def _architecture(self, name: str) -> None:
        if not name.startswith("rv64"):
            raise WireError(f"architecture {name!r}, expected rv64gc or a part of it")
        first, *others = re.sub(r"\d+p\d+", "", name.removeprefix("rv64")).split("_")
        self._is_short = "c" in first or "c" in others or "zca" in others

    # ---- instructions ----------------------------------------------------------------------------------------------

    def instruction(self, assembly: Assembly, statement: Statement) -> bytes:
        """See `Machine`."""
        return self._made(assembly, statement.name, operands(statement.rest), 0)

    def _made(self, assembly: Assembly, name: str, given: list[str], done: int) -> bytes:
        """The instructions of a statement, of which `done` bytes stand already."""
        parts = self._expanded(assembly, name, given)
        if parts is None:
            if name in ADDRESSED or self._is_addressed(name, given):
                return self._reach(assembly, name, given, done)
            if name in IMMEDIATES and len(given) == 3 and given[2] not in _REGISTERS:
                name = IMMEDIATES[name]
            return self._one(assembly, name, given, done)
        data = b""
        for part, text in parts:
            data += self._made(assembly, part, operands(text), done + len(data))
        return data

    def _expanded(self, assembly: Assembly, name: str, given: list[str]) -> list[tuple[str, str]] | None:
        """What a pseudo-instruction stands for that needs no address; None for any other."""
        if name == "li":
            if len(given) != 2:
                raise WireError("li needs operands 'rd, imm'")
            value = assembly.value(given[1]).number
            if not -(1 << 63) <= value < 1 << 64:
                raise WireError(f"{given[1]} does not fit 64 bits")
            return load_constant(given[0], (value + (1 << 63) & MASK64) - (1 << 63))
        if name == "jr" and len(given) == 1 and given[0].endswith(")"):
            return [("jalr", f"zero, {given[0]}")]
        for form in PSEUDO.get(name, ()):
            if len(form.operands) == len(given) and not (name in BASE and given and given[-1].endswith(")")):
                return form.expand(given)
        return None

    @staticmethod
    def _is_addressed(name: str, given: list[str]) -> bool:
        """Whether a load or store names a place in the file."""
        if name in LOADS and len(given) == 2:
            return not given[1].endswith(")")
        return name in MOVES and len(given) == 3

    def _reach(self, assembly: Assembly, name: str, given: list[str], done: int) -> bytes:
        """auipc, and an instruction with the rest of the distance."""
        least, most = {"call": (1, 2), "tail": (1, 1)}.get(name, (3, 3) if name in MOVES else (2, 2))
        if not least <= len(given) <= most:
            raise WireError(f"{name} needs {most} operands, not {len(given)}")
        place = given[-1] if name not in (*MOVES, "jump") else given[-2]
        distance = self._place(assembly, place).number - (assembly.pc + done)
        high, low = _halves(distance)
        link = given[0] if len(given) > 1 else "ra"
        register, rest = {
            "call": (link, f"jalr {link}, {low}({link})"),
            "tail": ("t1", f"jalr zero, {low}(t1)"),
            "jump": (given[-1], f"jalr zero, {low}({given[-1]})"),
        }.get(name, (given[-1], f"{name} {given[0]}, {low}({given[-1]})"))
        if name in ("la", "lla"):
            register, rest = given[0], f"addi {given[0]}, {given[0]}, {low}"
        elif name in LOADS and len(given) == 2:
            register, rest = given[0], f"{name} {given[0]}, {low}({given[0]})"
        second, _, text = rest.partition(" ")
        words = word_of("auipc", f"{register}, {high:#x}"), word_of(second, text)
        return b"".join(word.to_bytes(4, "little") for word in words)

    def _place(self, assembly: Assembly, text: str) -> Value:
        """The place that a text names; unknown ones are taken for near."""
        value = assembly.value(text.removesuffix("@plt"))
        return value if value.is_known else Value(assembly.pc, is_known=False)

    def _one(self, assembly: Assembly, name: str, given: list[str], done: int) -> bytes:
        """One instruction; a branch that does not reach is two."""
        if name in INVERSE or name == "jal":
            return self._branch(assembly, name, given, done)
        known = [self._number(assembly, name, each, done) for each in given]
        text = ", ".join(shown for shown, _ in known)
        if name in PARCELS:
            form = PARCELS[name]
            pc = assembly.pc + done if "target" in form.operands else None
            return PARCELS.encode(name, PARCELS.read(form, text, pc)).to_bytes(2, "little")
        word = word_of(name, text)
        if self._is_short and all(is_plain for _, is_plain in known):
            return shortest(word)
        return word.to_bytes(4, "little")

    def _branch(self, assembly: Assembly, name: str, given: list[str], done: int) -> bytes:
        """The shortest form that reaches, but never a shorter one than in the pass before."""
        if not given:
            raise WireError(f"{name} needs a target")
        distance = self._place(assembly, given[-1]).number - (assembly.pc + done)
        others = ", ".join((*given[:-1], ""))
        for size in range(assembly.grown.get(assembly.number, 0), 3):
            data = self._jump(name, others, distance, size)
            if data is not None:
                assembly.grown[assembly.number] = size
                return data
        raise WireError(f"{given[-1]} is {distance} bytes away: {name} does not reach it")

    def _jump(self, name: str, others: str, distance: int, size: int) -> bytes | None:
        """A branch of 2 bytes, 4, or around a jal, by `size`; None where that one does not reach."""
        fields = BASE.read(BASE[name], f"{others}.{distance:+d}", None)
        try:
            if size == 0:
                parcel = compressed(name, fields) if self._is_short else None
                return None if parcel is None else parcel.to_bytes(2, "little")
            if size == 1:
                return BASE.encode(name, fields).to_bytes(4, "little")
            if name == "jal":
                return None
            parcel = compressed(INVERSE[name], fields | {"imm": 6}) if self._is_short else None
            around = BASE.encode(INVERSE[name], fields | {"imm": 8}).to_bytes(4, "little")
            if parcel is not None:
                around = parcel.to_bytes(2, "little")
            return around + BASE.encode("jal", {"imm": distance - len(around)}).to_bytes(4, "little")
        except WireError:
            return None

    def _number(self, assembly: Assembly, name: str, text: str, done: int) -> tuple[str, bool]:
        """An operand with a number in the place of its expression, and whether that is no matter of addresses."""
        is_vector = name.startswith("v") and _VTYPE.fullmatch(text)
        if text in _WORDS or is_vector or (name.startswith("fence") and _ORDER.fullmatch(text)):
            return text, True
        called = _FUNCTION.match(text)
        register = ""
        if called is None:
            found = _INDIRECT.fullmatch(text)
            if found is not None and found[2] in _REGISTERS:
                text, register = found[1].strip(), f"({found[2]})"
            value = self._place(assembly, text) if name in JUMPS else assembly.value(text) if text else Value(0)
            if register and not value.number and name not in PARCELS and "imm(" not in row_of(name).operands:
                return register, True  # an address without an offset, though 0 may be written
            return f"{value.number}{register}", value.is_known and not value.section
        end = _closing(text, called.end())
        number = self._function(assembly, called[1], text[called.end() : end], done)
        return f"{number}{text[end + 1 :].strip()}", False

    def _function(self, assembly: Assembly, name: str, text: str, done: int) -> int:
        """The value of a relocation function."""
        pc = assembly.pc + done
        if name == "pcrel_lo":
            at = assembly.value(text).number
            return _halves(self._high.get(at, self._last_high.get(at, at)) - at)[1]
        if name == "got_pcrel_hi":
            place = assembly.bases.get(".got", pc) + self._got.setdefault(text.strip(), 8 * len(self._got))
        else:
            place = self._place(assembly, text).number
        match name:
            case "hi":
                if not -(1 << 31) - 0x800 <= place < (1 << 31) - 0x800 and not assembly.is_first:
                    raise WireError(f"{text} lies at {place:#x}, which lui does not reach: use -mcmodel=medany")
                return _halves(place)[0]
            case "lo":
                return _halves(place)[1]
            case "pcrel_hi" | "got_pcrel_hi":
                self._high[pc] = place
                return _halves(place - pc)[0]
        raise WireError(f"%{name} is not known here: there are %hi, %lo, %pcrel_hi, %pcrel_lo, %got_pcrel_hi")

    # ---- the file --------------------------------------------------------------------------------------------------

    def finish(self, assembly: Assembly) -> None:
        """See `Machine`."""
        if self._got:
            here = Statement(0, ".got")
            assembly.current = assembly.section(".got", "aw")
            assembly.align(8, here)
            for name in self._got:
                assembly.emit((assembly.value(name).number & MASK64).to_bytes(8, "little"), here)

    def addresses(self, assembly: Assembly) -> Mapping[str, int]:
        """See `Machine`."""
        plan = self._plan(_parts(assembly), 0)
        return {part.name: address for part, address in zip(plan.sections, plan.addresses, strict=True)}

    def write(self, assembly: Assembly) -> bytes:
        """The program: an executable ELF file. It starts at ``_start``, or where its code begins."""
        parts = _parts(assembly)
        numbers = {part.name: number for number, part in enumerate(parts, 1)}
        table, local = SymbolWriter(64), 1
        for symbol, said in defined(assembly):
            place = assembly.bases[symbol.section] if symbol.section else 0
            number = numbers.get(symbol.section, 0) if symbol.section else SHN_ABS
            local += not said.binding
            table.add(symbol.name, number, place + symbol.value & MASK64, said.size, said.kind, said.binding,
                      said.visibility)  # fmt: skip
        entry = assembly.bases.get(".text", self._base)
        if assembly.is_symbol("_start"):
            entry = assembly.address("_start")
        return self._plan([*parts, *table.sections(local)], entry).pack()

    def _plan(self, parts: list[SectionPart], entry: int) -> ElfPlan:
        """The file: code and what is read in one segment with the headers, what is written in another."""
        fixed = tuple(each.name for each in parts if each.is_loaded and not each.flags & SHF_WRITE)
        data = tuple(each.name for each in parts if each.is_loaded and each.flags & SHF_WRITE)
        segments = [SegmentPart(PT_LOAD, PF_R | PF_X, fixed, PAGE, with_headers=True)] if fixed else []
        if data:
            segments.append(SegmentPart(PT_LOAD, PF_R | PF_W, data, PAGE))
        flags = FLOAT_ABI_DOUBLE | RVC
        return ElfPlan(
            64, MACHINE_RISCV, ET_EXEC, flags, tuple(parts), tuple(segments), is_mapped=True, room=2, base=self._base,
            entry=entry,
        )  # fmt: skip


def _parts(assembly: Assembly) -> list[SectionPart]:
    """Sections in the order of a linked program: code, what is read, what is written, what is empty at first."""

    def rank(section: Section) -> int:
        return 0 if section.is_code else 1 if "w" not in section.flags else 3 if section.is_empty else 2

    found: list[SectionPart] = []
    is_written = False
    for each in sorted(assembly.sections.values(), key=rank):
        if not each.is_loaded or not (each.size or each.name == ".text"):
            continue
        alignment = max(each.alignment, PAGE if "w" in each.flags and not is_written else 2)
        is_written = is_written or "w" in each.flags
        flags = SHF_ALLOC | SHF_EXECINSTR * each.is_code | SHF_WRITE * ("w" in each.flags)
        kind, bss = (SHT_NOBITS, each.size) if each.is_empty else (SHT_PROGBITS, 0)
        found.append(SectionPart(each.name, kind, bytes(each.data), flags, alignment, bss_bytes=bss, is_loaded=True))
    return found


def _halves(distance: int) -> tuple[int, int]:
    """The upper 20 bits and the signed lower 12 that make a distance of 32 bits."""
    return distance + 0x800 >> 12 & 0xFFFFF, (distance & 0xFFF ^ 0x800) - 0x800


def _closing(text: str, at: int) -> int:
    """Where the bracket closes that opened before `at`."""
    depth = 1
    for place in range(at, len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if not depth:
            return place
    raise WireError(f"{text!r}: a ) is missing")
