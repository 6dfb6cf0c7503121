"""The assembler's back end for RISC-V: it makes programs from text of gcc and clang, linked without relaxation.

Sources: the RISC-V Assembly Programmer's Manual (pseudo-instructions, relocation functions, ``.option``) and the psABI,
chapter "Relocations". Equivalent compressed instructions are chosen as GNU's and LLVM's assemblers do; branches whose
targets are too far away become longer sequences.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from softcard.core.display import count
from softcard.core.errors import WireError
from softcard.core.words import align_up
from softcard.image.assembly.assembly import Assembly, Section, defined
from softcard.image.assembly.expressions import Function, Value
from softcard.image.assembly.source import RISCV, Statement, operands, string
from softcard.image.elf.layout import (
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
from softcard.image.elf.writer import ElfPlan, SectionPart, SegmentPart, SymbolWriter
from softcard.isa.riscv.assembler import IMMEDIATES, PSEUDO, compressed, load_constant, row_of, shortest, word_of
from softcard.isa.riscv.csrnames import CSR_NUMBERS
from softcard.isa.riscv.format import FLOAT_REGISTERS, REGISTERS, ROUNDING
from softcard.isa.riscv.table import BASE, FURTHER, HALFWORDS, VECTOR

BASE_ADDRESS: Final = 0x1_0000
"""The default link address of programs."""
PAGE: Final = 4096
FLOAT_ABI_DOUBLE: Final = 4
RVC: Final = 1
"""The flag EF_RISCV_RVC of e_flags: the program contains compressed instructions."""
NOP, C_NOP = bytes.fromhex("13000000"), bytes.fromhex("0100")
MASK64: Final = (1 << 64) - 1
_REGISTERS: Final = frozenset(
    [*REGISTERS, *FLOAT_REGISTERS, "fp", *(f"x{n}" for n in range(32)), *(f"f{n}" for n in range(32))]
)
_WORDS: Final = _REGISTERS | frozenset(ROUNDING) | CSR_NUMBERS.keys() | {f"v{n}" for n in range(32)}
_VTYPE: Final = re.compile(r"v0\.t|e\d+|mf?\d|[tm][au]")
"""The pattern of words in operands of vector instructions that are not symbols, such as ``e32``."""
_FUNCTION: Final = re.compile(r"%(\w+)\(")
_INDIRECT: Final = re.compile(r"(.*)\(\s*(\w+)\s*\)", re.DOTALL)
INVERSE: Final = {"beq": "bne", "bne": "beq", "blt": "bge", "bge": "blt", "bltu": "bgeu", "bgeu": "bltu"}
ADDRESSED: Final = ("la", "lla", "call", "tail", "jump")
PSEUDO_NAMES: Final = (*PSEUDO, *ADDRESSED)
JUMPS: Final = ("c.j", "c.beqz", "c.bnez")
LOADS: Final = ("lb", "lh", "lw", "ld", "lbu", "lhu", "lwu")
MOVES: Final = ("sb", "sh", "sw", "sd", "flw", "fld", "fsw", "fsd")
"""The loads and stores with a pseudo-instruction form whose address is a symbol.

Its last operand is a register that receives the upper part of the address.
"""
_ORDER: Final = re.compile("[iorw]+|unknown")


class RiscvMachine:
    """The assembler's target for RV64GC. The program is linked at `base`.

    With `is_file` False, the result is bare machine code that begins at `base`. The code may then use all extensions,
    and is not compressed by default.
    """

    syntax = RISCV
    align_is_power = True

    @property
    def functions(self) -> Mapping[str, Function]:
        """The functions that expressions may call; see `Machine`."""
        return {}

    def __init__(self, base: int = BASE_ADDRESS, is_file: bool = True) -> None:
        self._base = base
        self._is_file = is_file
        self._is_short = self._has_zbb = is_file
        self._saved: list[bool] = []
        self._got: dict[str, int] = {}
        self._high: dict[int, int] = {}
        """The value of each ``%pcrel_hi`` of the current pass, by the address of its instruction."""
        self._last_high: dict[int, int] = {}

    def begin(self, assembly: Assembly) -> None:
        """Reset the state at the start of a pass; see `Machine`."""
        self._is_short, self._has_zbb = self._is_file, not self._is_file
        self._saved, self._got = [], {}
        self._last_high, self._high = self._high, {}

    def mode(self) -> str:
        """Return as text the state that affects the encoding of instructions; see `Machine`."""
        return "c" if self._is_short else ""

    def padding(self, size: int) -> bytes:
        """Return bytes that fill a gap between instructions; see `Machine`."""
        return NOP * (size // 4) + C_NOP * (size % 4 // 2) + bytes(size % 2)

    def absolute(self, assembly: Assembly, offset: int, address: int, size: int) -> None:
        """Do nothing for an address in data: programs are linked at fixed addresses; see `Machine`."""

    # ---- directives ------------------------------------------------------------------------------------------------

    def directive(self, assembly: Assembly, statement: Statement) -> bool:
        """Execute a directive of this machine; see `Machine`."""
        words = operands(statement.rest)
        if statement.name == ".option":
            self._option(words)
        elif statement.name == ".attribute":
            if len(words) == 2 and words[0] in ("arch", "5"):
                self._architecture(string(words[1]).decode("ascii", "replace"))
        elif statement.name == ".insn" and 1 <= len(words) <= 2:
            word = assembly.number_of(words[-1], 0, 0xFFFF_FFFF, "an instruction")
            size = 4 if word & 3 == 3 else 2
            if len(words) == 2 and assembly.number_of(words[0], 2, 4, "the bytes of an instruction") != size:
                raise WireError(
                    f"{words[1]} encodes an instruction of {size} bytes, expected {words[0]} (the first operand)"
                )
            assembly.emit(word.to_bytes(size, "little"), statement)
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
                    raise WireError(".option pop has no .option push before it")
                self._is_short = self._saved.pop()
            case ["rvc"] | ["norvc"]:
                self._is_short = words == ["rvc"]
            case ["arch", *changes]:
                for each in changes:
                    if each.startswith("rv"):
                        self._architecture(each)
                    elif each[1:] in ("c", "zca"):
                        self._is_short = each[0] == "+"
                    elif each[1:] in ("b", "zbb"):
                        self._has_zbb = each[0] == "+"
            case ["pic"]:
                raise WireError("position-independent code is not supported: compile without -fpic")
            case ["nopic"] | ["relax"] | ["norelax"]:
                pass
            case _:
                raise WireError(f"unknown .option {', '.join(words)}")

    def _architecture(self, name: str) -> None:
        if not name.startswith("rv64"):
            raise WireError(f"the architecture is {name!r}, expected rv64gc or a part of it")
        first, *others = re.sub(r"\d+p\d+", "", name.removeprefix("rv64")).split("_")
        self._is_short = "c" in first or "c" in others or "zca" in others
        self._has_zbb = "b" in first or "b" in others or "zbb" in others

    # ---- instructions ----------------------------------------------------------------------------------------------

    def instruction(self, assembly: Assembly, statement: Statement) -> bytes:
        """Return the bytes of an instruction; see `Machine`."""
        return self._made(assembly, statement.name, operands(statement.rest), 0)

    def _made(self, assembly: Assembly, name: str, given: list[str], done: int) -> bytes:
        """Return the machine code of the instruction or pseudo-instruction `name` with the operands `given`.

        It follows `done` bytes that the same statement has already produced."""
        parts = self._expanded(assembly, name, given)
        if parts is None:
            if name in ADDRESSED or self._is_addressed(name, given):
                return self._reach(assembly, name, given, done)
            if name in IMMEDIATES and len(given) == 3 and given[2].replace(" ", "") not in _REGISTERS:
                name = IMMEDIATES[name]
            return self._one(assembly, name, given, done)
        data = b""
        for part, text in parts:
            data += self._made(assembly, part, operands(text), done + len(data))
        return data

    def _expanded(self, assembly: Assembly, name: str, given: list[str]) -> list[tuple[str, str]] | None:
        """Return the instructions that replace a pseudo-instruction; None for any other statement.

        It is also None for pseudo-instructions with an address operand, which `_reach` expands."""
        if name == "li":
            if len(given) != 2:
                raise WireError("li needs operands 'rd, imm'")
            value = assembly.value(given[1]).number
            if not -(1 << 63) <= value < 1 << 64:
                raise WireError(f"{given[1]} does not fit 64 bits").in_operand(given[1], 1)
            return load_constant(given[0], (value + (1 << 63) & MASK64) - (1 << 63))
        if name in ("jr", "jalr") and len(given) == 1 and given[0].endswith(")"):
            return [("jalr", f"{'zero' if name == 'jr' else 'ra'}, {given[0]}")]
        if name == "jalr" and len(given) == 2 and given[1] not in _REGISTERS and not given[1].endswith(")"):
            return [("jalr", f"ra, {given[1]}({given[0]})")]
        if name in ("sext.b", "sext.h", "zext.h") and self._has_zbb:
            return None
        if name in ("vmsltu.vi", "vmsgeu.vi") and len(given) > 2 and not assembly.value(given[2]).number:
            return [
                ("vmsne.vv" if name == "vmsltu.vi" else "vmseq.vv", ", ".join([*given[:2], *given[1:2], *given[3:]]))
            ]
        if name in ("vmsge.vx", "vmsgeu.vx") and len(given) == 5:
            less, (to, source, number, mask, spare) = name.replace("ge", "lt"), given
            if to == "v0":
                return [(less, f"{spare}, {source}, {number}"), ("vmandn.mm", f"{to}, {to}, {spare}")]
            merge = f"{spare}, {mask.removesuffix('.t')}, {spare}"
            keep = f"{to}, {to}, {mask.removesuffix('.t')}"
            return [(less, f"{spare}, {source}, {number}"), ("vmandn.mm", merge), ("vmandn.mm", keep),
                    ("vmor.mm", f"{to}, {spare}, {to}")]  # fmt: skip
        for form in PSEUDO.get(name, ()):
            if len(form.operands) == len(given) and not (name in BASE and given and given[-1].endswith(")")):
                return form.expand(given)
        if name in PSEUDO and name not in ADDRESSED and not _is_instruction(name):
            raise WireError(_takes(name, given))
        return None

    @staticmethod
    def _is_addressed(name: str, given: list[str]) -> bool:
        """Return True if the address operand of a load or store is a symbol of the file."""
        if name in LOADS and len(given) == 2:
            return not given[1].endswith(")")
        return name in MOVES and len(given) == 3

    def _reach(self, assembly: Assembly, name: str, given: list[str], done: int) -> bytes:
        """Return the machine code of a pc-relative access: auipc and a second instruction.

        The second instruction adds the low 12 bits of the distance.
        """
        least, most = {"call": (1, 2), "tail": (1, 1)}.get(name, (3, 3) if name in MOVES else (2, 2))
        if not least <= len(given) <= most:
            needs = count(most, "operand") if least == most else f"{least} or {count(most, 'operand')}"
            raise WireError(f"{name} needs {needs}, not {len(given)}")
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
        """Return the address that the operand `text` denotes.

        Unknown addresses, and plain numbers in the first pass, are assumed to be close to the current pc.
        """
        value = assembly.value(text.removesuffix("@plt"))
        is_near = not value.is_known or (assembly.is_first and not value.section)
        return Value(assembly.pc, is_known=False) if is_near else value

    def _one(self, assembly: Assembly, name: str, given: list[str], done: int) -> bytes:
        """Return the machine code of an instruction; a branch that is out of range becomes two instructions."""
        if name in INVERSE or name == "jal":
            return self._branch(assembly, name, given, done)
        if name not in HALFWORDS:
            row_of(name, PSEUDO_NAMES)  # an unknown mnemonic is reported before its operands
        known = [self._number(assembly, name, each, done) for each in given]
        try:
            return self._encoded(assembly, name, known, done)
        except WireError as error:
            raise _as_written(error, given, [shown for shown, _ in known]) from None

    def _encoded(self, assembly: Assembly, name: str, known: list[tuple[str, bool]], done: int) -> bytes:
        """Return the machine code of an instruction with the operands `known`, which `_number` has returned."""
        text = ", ".join(shown for shown, _ in known)
        if name in HALFWORDS:
            form = HALFWORDS[name]
            pc = assembly.pc + done if "target" in form.operands else None
            return HALFWORDS.encode(name, HALFWORDS.read(form, text, pc)).to_bytes(2, "little")
        word = word_of(name, text)
        if self._is_short and all(is_plain for _, is_plain in known):
            return shortest(word)
        return word.to_bytes(4, "little")

    def _branch(self, assembly: Assembly, name: str, given: list[str], done: int) -> bytes:
        """Return the machine code of a branch in its shortest form that reaches the target.

        The form is never shorter than in an earlier pass.
        """
        if not given:
            raise WireError(f"{name} needs a target")
        distance = self._place(assembly, given[-1]).number - (assembly.pc + done)
        distance = (distance + (1 << 63) & MASK64) - (1 << 63)
        others = ", ".join((*given[:-1], ""))
        for size in range(assembly.grown.get(assembly.number, 0), 3):
            data = self._jump(name, others, distance, size)
            if data is not None:
                assembly.grown[assembly.number] = size
                return data
        raise WireError(f"{given[-1]} is {distance} bytes away, too far for {name}").in_operand(given[-1])

    def _jump(self, name: str, others: str, distance: int, size: int) -> bytes | None:
        """Return the machine code of a branch over `distance` in a given form; None if it does not reach.

        `size` selects the form: 0 is a compressed branch, 1 a branch of 4 bytes, and 2 an inverse branch around a jal.
        `others` are the operands before the target.
        """
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
        """Return the operand `text` with its expression replaced by a number, and True if the operand is final.

        The operand is not final if its number is an address, or may still change in a later pass."""
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
            if register and not value.number and name not in HALFWORDS and "imm(" not in row_of(name).operands:
                return register, True  # an address without an offset, which may also be written as 0
            return f"{value.number}{register}", value.is_known and not value.section
        end = _closing(text, called.end())
        number = self._function(assembly, called[1], text[called.end() : end], done)
        return f"{number}{text[end + 1 :].strip()}", False

    def _function(self, assembly: Assembly, name: str, text: str, done: int) -> int:
        """Return the value of a relocation function such as ``%lo(symbol)``."""
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
                    raise WireError(f"{text} lies at {place:#x}, which lui cannot address: use -mcmodel=medany")
                return _halves(place)[0]
            case "lo":
                return _halves(place)[1]
            case "pcrel_hi" | "got_pcrel_hi":
                self._high[pc] = place
                return _halves(place - pc)[0]
        raise WireError(f"unknown function %{name}, expected %hi, %lo, %pcrel_hi, %pcrel_lo or %got_pcrel_hi")

    # ---- the file --------------------------------------------------------------------------------------------------

    def finish(self, assembly: Assembly) -> None:
        """Append sections that the source does not contain, at the end of a pass; see `Machine`."""
        if self._got:
            here = Statement(0, ".got")
            assembly.current = assembly.section(".got", "aw")
            assembly.align(8, here)
            for name in self._got:
                assembly.emit((assembly.value(name).number & MASK64).to_bytes(8, "little"), here)

    def addresses(self, assembly: Assembly) -> Mapping[str, int]:
        """Return the address of each loaded section; see `Machine`."""
        if not self._is_file:
            return self._addresses_of_code(assembly)
        plan = self._plan(_parts(assembly), 0)
        return {part.name: address for part, address in zip(plan.sections, plan.addresses, strict=True)}

    def _addresses_of_code(self, assembly: Assembly) -> Mapping[str, int]:
        """Return the section addresses of bare code: sections lie one after another from `base`."""
        found: dict[str, int] = {}
        at = self._base
        for part in _parts(assembly, page=1):
            if found:
                at = align_up(at, part.alignment)
            elif at % part.alignment and not assembly.is_first:
                raise WireError(f"section {part.name} begins at {at:#x}, expected a multiple of {part.alignment}")
            found[part.name] = at
            at += part.size
        return found

    def write(self, assembly: Assembly) -> bytes:
        """Return the program as an executable ELF file. Its entry is ``_start``, or the start of its code."""
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
        """Return the layout of the file.

        Code and read-only data are in one segment with the headers, writable data is in another.
        """
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


def _parts(assembly: Assembly, page: int = PAGE) -> list[SectionPart]:
    """Return sections in file order: code, read-only data, writable data, sections without bytes."""

    def rank(section: Section) -> int:
        return 0 if section.is_code else 1 if "w" not in section.flags else 3 if section.is_empty else 2

    found: list[SectionPart] = []
    is_written = False
    for each in sorted(assembly.sections.values(), key=rank):
        if not each.is_loaded or not (each.size or each.name == ".text"):
            continue
        alignment = max(each.alignment, page if "w" in each.flags and not is_written else 2)
        is_written = is_written or "w" in each.flags
        flags = SHF_ALLOC | SHF_EXECINSTR * each.is_code | SHF_WRITE * ("w" in each.flags)
        kind, bss = (SHT_NOBITS, each.size) if each.is_empty else (SHT_PROGBITS, 0)
        found.append(SectionPart(each.name, kind, bytes(each.data), flags, alignment, bss_bytes=bss, is_loaded=True))
    return found


def _halves(distance: int) -> tuple[int, int]:
    """Return the upper 20 bits and the signed lower 12 bits of a signed distance of 32 bits."""
    return distance + 0x800 >> 12 & 0xFFFFF, (distance & 0xFFF ^ 0x800) - 0x800


def _as_written(error: WireError, given: list[str], shown: list[str]) -> WireError:
    """Return an error about one of the operands `shown` as an error about that operand as it is written, in `given`.

    `shown` are the operands after expressions were replaced by numbers.
    """
    part = error.operands[0][0] if error.operands else ""
    number = next((n for n, each in enumerate(shown) if each == part), -1)
    if number < 0 and part:
        number = next((n for n, each in enumerate(shown) if each.startswith(f"{part}(")), -1)
    if number < 0:
        return error
    made = WireError(error.message.replace(repr(part), repr(given[number])))
    return made.in_operand(given[number])


def _closing(text: str, at: int) -> int:
    """Return the index of the bracket that closes the bracket at index `at` - 1."""
    depth = 1
    for place in range(at, len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if not depth:
            return place
    raise WireError(f"{text!r} has no closing )")


def _is_instruction(name: str) -> bool:
    """Return True if a mnemonic is a machine instruction; a pseudo-instruction may have the same name."""
    return name in BASE or name in VECTOR or name in FURTHER or name in HALFWORDS


def _takes(name: str, given: list[str]) -> str:
    """Return the error message for a pseudo-instruction whose operands do not match any of its forms."""
    forms = [", ".join(form.operands) for form in PSEUDO[name]]
    needs = " or ".join(repr(each) if each else "none" for each in forms)
    takes = "takes no operands" if forms == [""] else f"needs operands {needs}"
    return f"{name} {takes}, not {repr(', '.join(given)) if given else 'none'}"
