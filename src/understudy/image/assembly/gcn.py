"""Assembly files of AMD GPUs as clang and llvm-mc write them, to code objects: V2 (amd_kernel_code_t) to V6.

Sources: LLVM's "User Guide for AMDGPU Backend", chapters "Source Languages, Assembler" (directives of code object V2
and of V3 and later) and "Relocation Records"; what they leave open is as LLVM's assembler does it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Final

from understudy.core.errors import WireError
from understudy.core.words import align_up
from understudy.image.assembly.assembly import Assembly, Attributes, Section, Symbol, defined
from understudy.image.assembly.expressions import NAME, Function
from understudy.image.assembly.gcn_kernels import Block, amd_kernel_code, descriptor, extra_sgprs
from understudy.image.assembly.source import GCN, Statement, operands, string
from understudy.image.elf.layout import (
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHF_WRITE,
    SHT_NOBITS,
    SHT_PROGBITS,
    STT_OBJECT,
)
from understudy.image.elf.writer import SectionPart, note
from understudy.image.hsa import msgpack, targets, yaml_text
from understudy.image.hsa.elf import STT_HSA_KERNEL
from understudy.image.hsa.notes import (
    NT_AMD_CODE_OBJECT_VERSION,
    NT_AMD_ISA_NAME,
    NT_AMD_ISA_VERSION,
    NT_AMD_METADATA,
    NT_AMDGPU_METADATA,
    CodeObjectVersionNote,
    IsaVersionNote,
)
from understudy.image.hsa.records import KERNEL_CODE_ALIGNMENT, KernelDescriptor
from understudy.image.hsa.writer import (
    METADATA_VERSION,
    PAGE,
    Marked,
    machine_flags,
    notes_part,
    pack_object,
    section_places,
)
from understudy.isa.gcn.asm.assembler import assemble_one
from understudy.isa.gcn.asm.constants import register
from understudy.isa.gcn.asm.parser import split
from understudy.isa.gcn.target import TARGETS, Target

S_NOP: Final = bytes.fromhex("000080bf")
DEFAULT_PROCESSOR: Final = "gfx900"
NEWEST: Final = "V5"
"""The version of a file that names none."""
_RELOCATION: Final = re.compile(rf"({NAME})@((?:abs32|rel32|gotpcrel32)@(?:lo|hi)|rel32)(.*)")
_WORD: Final = re.compile(rf"(?<![\w.$]){NAME}(?![\w.$\[@])|(?<![\w.$])\d+[bf]\b")
LABEL: Final = ".goal"
"""What a branch's label is called where the instruction is assembled."""
_BRANCHES: Final = re.compile(r"s_(c?branch\w*|call_b64|subvector_loop\w*)")
_METADATA: Final = (".amdgpu_metadata", ".amd_amdgpu_hsa_metadata")
_ENDS: Final = {".amdhsa_kernel": ".end_amdhsa_kernel", ".amd_kernel_code_t": ".end_amd_kernel_code_t"}


@dataclass(slots=True)
class Object:
    """What the directives of a file say of the whole: its processor and features, and its version."""

    processor: str
    features: dict[str, str]
    version: str = ""


class GcnMachine:
    """GFX7 to GFX9. `processor`, perhaps with features (``gfx906:xnack+``), must be that of a file that names one."""

    syntax = GCN
    align_is_power = False

    def __init__(self, processor: str = "") -> None:
        self._wanted, features = targets.of_name(f"amdgcn-amd-amdhsa--{processor}") if processor else ("", {})
        if processor and self._wanted not in TARGETS and targets.read_as(self._wanted) not in TARGETS:
            raise WireError(f"no processor {processor!r}: there are {', '.join(TARGETS)}")
        self._features = features
        self._block: Block | None = None
        self._has_kernels = False
        self._notes = b""
        self.relocations: list[tuple[str, int, int]] = []
        """Section and offset of each address in data, and what it is."""
        self._got: dict[str, int] = {}
        self.object = Object(DEFAULT_PROCESSOR, {})

    @property
    def functions(self) -> Mapping[str, Function]:
        """See `Machine`: what newer LLVM calls where it does not know yet what a kernel's callees take."""
        level = self.target.level
        return {
            "max": max,
            "or": lambda *values: reduce(or_, values),
            "alignto": lambda value, step: align_up(value, max(step, 1)),
            "totalnumvgprs": lambda accumulators, vgprs: max(accumulators, vgprs),
            "extrasgprs": lambda vcc, flat, xnack: extra_sgprs(level, bool(vcc), bool(flat), bool(xnack)),
        }

    @property
    def target(self) -> Target:
        """The instruction set."""
        return TARGETS[targets.read_as(self.object.processor)]

    def begin(self, assembly: Assembly) -> None:
        """See `Machine`."""
        self.object = Object(self._wanted or DEFAULT_PROCESSOR, dict(self._features))
        self._block, self._has_kernels, self._notes = None, False, b""
        self.relocations, self._got = [], {}

    def mode(self) -> str:
        """See `Machine`."""
        return self.object.processor

    # ---- instructions ----------------------------------------------------------------------------------------------

    def instruction(self, assembly: Assembly, statement: Statement) -> bytes:
        """See `Machine`."""
        name, rest = statement.name, statement.rest
        named = self._symbols(assembly, rest)
        if not named:
            return assemble_one(self.target, statement.text, 0, {})
        if not (_BRANCHES.fullmatch(name) and named == [rest]):
            return assemble_one(self.target, f"{name} {self._resolved(assembly, rest)}", 0, {})
        goal = assembly.value_of(rest)
        labels = {LABEL: goal.number if goal.is_known else assembly.pc}
        try:
            return assemble_one(self.target, f"{name} {LABEL}", assembly.pc, labels)
        except WireError as error:
            raise WireError(error.message.replace(LABEL, rest)) from None

    def _symbols(self, assembly: Assembly, text: str) -> list[str]:
        """The symbols that operands name."""
        return [
            word
            for word in _WORD.findall(text)
            if word[0].isdigit() or (assembly.is_symbol(word) and not register(self.target, word))
        ] + [found[1] for found in _RELOCATION.finditer(text)]

    def _resolved(self, assembly: Assembly, rest: str) -> str:
        """The operands with numbers in the place of expressions."""
        parts = split(rest, ",")
        modifiers: list[str] = []
        if " " in parts[-1] and not self._symbols(assembly, parts[-1].partition(" ")[2]):
            parts[-1], *modifiers = split(parts[-1], " ")
        found = [self._operand(assembly, each) if self._symbols(assembly, each) else each for each in parts]
        return " ".join((", ".join(found), *modifiers))

    def _operand(self, assembly: Assembly, text: str) -> str:
        relocation = _RELOCATION.fullmatch(text)
        if relocation:
            return f"lit({self._relocated(assembly, *relocation.groups()):#x})"
        value = assembly.value(text)
        if value.is_known and all(not assembly.value_of(word).section for word in self._symbols(assembly, text)):
            return str(value.number)  # a number as good as any
        return f"lit({value.number & 0xFFFF_FFFF:#x})"

    def _relocated(self, assembly: Assembly, name: str, kind: str, addend: str) -> int:
        """The 32 bits of a relocated literal, which stands behind an instruction's first word."""
        place = assembly.pc + 4
        value = assembly.value_of(name).number
        if kind.startswith("gotpcrel32"):
            value = assembly.bases.get(".got", 0) + self._got.setdefault(name, 8 * len(self._got))
        elif kind.startswith("abs32"):
            if assembly.value_of(name).section:
                raise WireError(f"{name}@{kind}: nobody knows where the code will lie, expected @rel32 or @gotpcrel32")
            place = 0
        value += assembly.value(addend).number if addend.strip() else 0
        if not kind.startswith("abs32"):
            value -= place
        return value >> (32 if kind.endswith("@hi") else 0) & 0xFFFF_FFFF

    # ---- directives ------------------------------------------------------------------------------------------------

    def directive(self, assembly: Assembly, statement: Statement) -> bool:
        """See `Machine`."""
        name, rest = statement.name, statement.rest
        if self._block is not None:
            self._in_block(assembly, statement)
        elif name in _ENDS:
            self._block = Block(rest, _ENDS[name], statement.line)
        elif name == ".amdgcn_target":
            self._is_for(*targets.of_name(string(rest).decode("utf-8", "replace")), rest)
        elif name == ".hsa_code_object_isa":
            self._isa(assembly, rest)
        elif name == ".hsa_code_object_version":
            self.object.version = "V2"
            major, minor = (assembly.value(word).number for word in (*operands(rest), "0", "0")[:2])
            self._notes += note(
                "AMD", NT_AMD_CODE_OBJECT_VERSION, CodeObjectVersionNote(major=major, minor=minor).pack()
            )
        elif name == ".amd_amdgpu_isa":
            self.object.version = "V2"
            self._notes += note("AMD", NT_AMD_ISA_NAME, string(rest))
        elif name == ".amdgpu_hsa_kernel":
            self.object.version = "V2"
            assembly.attribute(rest).kind = STT_HSA_KERNEL
        elif name == ".amdhsa_code_object_version":
            version = f"V{assembly.number_of(rest, 2, 6, 'the code object version')}"
            self.object.version = version
        elif name in _METADATA:
            self._metadata(name, statement.body)
        else:
            return False
        return True

    def _in_block(self, assembly: Assembly, statement: Statement) -> None:
        block = self._block
        assert block is not None
        if statement.name != block.end:
            name, _, value = statement.rest.partition(",") if statement.name == ".set" else (
                statement.name, "", statement.rest
            )  # fmt: skip
            if name in block.fields:
                raise WireError(f"{name} stands twice")
            block.fields[name] = assembly.value(value).number
            return
        self._block = None
        if block.end == _ENDS[".amdhsa_kernel"]:
            self._describe(assembly, block, statement)
        else:
            assembly.emit(amd_kernel_code(block, self.object.processor).pack(), statement)

    def _is_for(self, processor: str, features: dict[str, str], shown: str) -> None:
        if not processor:
            raise WireError(f'{shown} is no target, expected one like "amdgcn-amd-amdhsa--gfx900:xnack+"')
        known = targets.read_as(processor)
        if known not in TARGETS:
            raise WireError(f"no processor {processor!r}: there are {', '.join(TARGETS)}")
        if self._wanted and not targets.runs_on(processor, self._wanted):
            raise WireError(f"the file is for {processor}, expected {self._wanted}")
        self.object.processor = processor
        self.object.features = self._features | features

    def _isa(self, assembly: Assembly, rest: str) -> None:
        words = operands(rest)
        if len(words) not in (0, 3, 5):
            raise WireError('.hsa_code_object_isa takes major, minor, stepping, "AMD", "AMDGPU"')
        if words:
            version = [assembly.number_of(word, 0, 99, "a version") for word in words[:3]]
            self._is_for(targets.of_version(version[0], version[1], version[2]), {}, rest)
        name = self.object.processor.removeprefix("gfx")
        isa = IsaVersionNote(
            vendor_name_size=4,
            architecture_name_size=7,
            major=int(name[:-2]),
            minor=int(name[-2]),
            stepping=int(name[-1], 16),
        )
        self.object.version = "V2"
        self._notes += note("AMD", NT_AMD_ISA_VERSION, isa.pack() + b"AMD\0AMDGPU\0")

    def _metadata(self, name: str, body: str) -> None:
        if name == ".amd_amdgpu_hsa_metadata":
            self.object.version = "V2"
            self._notes += note("AMD", NT_AMD_METADATA, body.strip("\n").encode() + b"\n")
            return
        document = yaml_text.parse(body)
        if not isinstance(document, dict):
            raise WireError(f"the metadata is a {type(document).__name__}, expected a map")
        said = document.get("amdhsa.version")
        found = next((version for version, pair in METADATA_VERSION.items() if list(pair) == said), "")
        self.object.version = self.object.version or found
        self._notes += note("AMDGPU", NT_AMDGPU_METADATA, msgpack.pack(_ordered(document)))

    def absolute(self, assembly: Assembly, offset: int, address: int, size: int) -> None:
        """See `Machine`."""
        if not assembly.current.is_loaded:
            return
        if size != 8:
            raise WireError("an address takes 8 bytes here: nobody knows where the code will lie")
        self.relocations.append((assembly.current.name, offset, address))

    def padding(self, size: int) -> bytes:
        """See `Machine`."""
        return bytes(size % 4) + S_NOP * (size // 4)

    # ---- the file --------------------------------------------------------------------------------------------------

    @property
    def version(self) -> str:
        """The version of the code object."""
        return self.object.version or NEWEST

    @property
    def has_kernels(self) -> bool:
        """Whether the file describes kernels, or its processor: else it is bare code."""
        return self._has_kernels or bool(self._notes)

    def finish(self, assembly: Assembly) -> None:
        """See `Machine`."""
        if self._block is not None:
            raise WireError(f"{self._block.end} is missing").at("line", self._block.line)
        if self._got:
            assembly.current = assembly.section(".got", "aw")
            assembly.align(8, Statement(0, ".got"))
            for name in self._got:
                address = assembly.address(name)
                self.absolute(assembly, assembly.current.size, address, 8)
                assembly.emit(address.to_bytes(8, "little"), Statement(0, ".got"))

    def _describe(self, assembly: Assembly, block: Block, statement: Statement) -> None:
        """Put a kernel's descriptor here, aligned as the hardware has it."""
        if not assembly.is_symbol(block.name):
            raise WireError(f"kernel {block.name} is defined nowhere in this file")
        if not assembly.current.is_loaded:
            raise WireError(f'section {assembly.current.name} is not loaded: write .section .rodata,"a" before it')
        self._has_kernels = True
        made = descriptor(block, self.object.processor, self.object.features)
        assembly.align(KERNEL_CODE_ALIGNMENT, statement)
        entry = assembly.value_of(block.name).number - assembly.pc
        name = f"{block.name}.kd"
        assembly.define(name)
        code = assembly.attribute(block.name)
        assembly.attributes[name] = Attributes(code.binding, STT_OBJECT, code.visibility, KernelDescriptor.size_bytes)
        assembly.emit(replace(made, kernel_code_entry_byte_offset=entry).pack(), statement)

    def addresses(self, assembly: Assembly) -> Mapping[str, int]:
        """See `Machine`."""
        return section_places(self.version, self._parts(assembly))

    def _parts(self, assembly: Assembly) -> list[SectionPart]:
        """Sections in the order of a linked file: notes, read-only data, code, data, empty data."""
        found = [notes_part(self.version, self._notes)]
        rank = -1
        for each in sorted(assembly.sections.values(), key=_rank):
            if not each.is_loaded or not (each.size or each.name == ".text"):
                continue
            alignment = max(each.alignment, PAGE if _rank(each) != rank and _rank(each) in (1, 2) else 1)
            if _rank(each) == 3 and rank < 2:
                alignment = max(alignment, PAGE)
            rank = _rank(each)
            flags = SHF_ALLOC | SHF_EXECINSTR * each.is_code | SHF_WRITE * ("w" in each.flags)
            kind = SHT_NOBITS if each.is_empty else SHT_PROGBITS
            bss = each.size if each.is_empty else 0
            found.append(
                SectionPart(each.name, kind, bytes(each.data), flags, alignment, bss_bytes=bss, is_loaded=True)
            )
        return found

    def write(self, assembly: Assembly) -> bytes:
        """The code object."""
        flags = machine_flags(self.version, self.object.processor, self.object.features)
        symbols = [_marked(symbol, said) for symbol, said in defined(assembly)]
        relocations = [
            (assembly.bases[section] + offset, address) for section, offset, address in self.relocations
        ]  # fmt: skip
        return pack_object(self.version, flags, self._parts(assembly), symbols, relocations)


def _ordered(value: object) -> object:
    """Maps with their keys in order, as LLVM writes them."""
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in sorted(value)}
    return [_ordered(each) for each in value] if isinstance(value, list) else value


def _rank(section: Section) -> int:
    return 1 if section.is_code else 0 if "w" not in section.flags else 3 if section.is_empty else 2


def _marked(symbol: Symbol, said: Attributes) -> Marked:
    return Marked(symbol.name, symbol.section, symbol.value, said.size, said.kind, said.binding, said.visibility)
