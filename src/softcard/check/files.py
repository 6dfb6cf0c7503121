"""The static checks that apply to whole files of each kind; the code in them is not run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from softcard.core.diagnostics import Diagnostic, Location
from softcard.core.errors import SoftcardError, WireError
from softcard.core.findings import Level
from softcard.core.rule import Rule

TEXT_OF_COMMAND: Final = "user command"
_GPU: Final = ("object", "instruction", "waits")
CHECKS: Final = {
    "hsa": (*_GPU, "registers"),
    "amdcl2": _GPU,
    "riscv": ("attributes", "loadable", "symbols", "kernels", "segment"),
}
"""The names of the static checks of code, by kind of file."""


def code(document: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """Yield the warnings in `document`, the decoded description of an AMD GPU program.

    They concern the file, its kernel headers, and words of its code that cannot be decoded."""
    for warning in document["warnings"]:
        yield Diagnostic(Level.WARNING, "object", warning)
    chunks = document["code"] if "code" in document else [each["code"] for each in document["kernels"]]
    for chunk in chunks:
        for line in chunk["lines"]:
            if "refusal" in line:
                name, pc = ", ".join(chunk["names"]), line["pc"]
                where = f"pc {pc:#x} ({name})" if name else f"pc {pc:#x}"
                text = line["refusal"].removesuffix(f", at pc {pc:#x}")
                yield Diagnostic(Level.WARNING, "instruction", text, where, pc=pc, kernel=name)


def with_source_lines(data: bytes, agent: str, findings: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """Yield the findings in a code object, with the source lines of their instructions if it has line tables."""
    from softcard.image.elf.lines import read_lines
    from softcard.image.hsa.code_object import read_code_object

    lines = read_lines(read_code_object(data, agent).elf)
    for each in findings:
        place = None if each.pc is None else lines.at(each.pc)
        if place is None:
            yield each
        else:
            location = Location(place.file, place.line, place.column, pc=each.pc, code=each.kernel)
            yield replace(each, location=location)


def riscv(data: bytes) -> Iterator[Diagnostic]:
    """Yield the properties of a RISC-V program that can prevent RefSi's harts from running it or its functions."""
    from softcard.host.refsi.program import ELF_BASE
    from softcard.image.elf.layout import PF_W, PF_X
    from softcard.image.elf.reader import ElfFile
    from softcard.image.riscv.attributes import read_attributes
    from softcard.image.riscv.kind import loadable
    from softcard.image.riscv.program import read_elf

    image = read_elf(data)
    try:
        read_attributes(ElfFile(data, image.bits))
    except WireError as error:
        yield Diagnostic(Level.WARNING, "attributes", str(error))
    try:
        loadable(image, data, ELF_BASE)
    except SoftcardError as error:
        yield Diagnostic(Level.ERROR, "loadable", str(error))
    if image.symbols is None:
        yield Diagnostic(
            Level.WARNING, "symbols", "the file has no symbol table (stripped): kernels cannot be launched by name"
        )
    elif not image.kernels:
        yield Diagnostic(
            Level.WARNING,
            "kernels",
            "the file has no global function in an executable segment: nothing can be launched",
        )
    for each in image.segments:
        if each.flags & PF_W and each.flags & PF_X:
            text = "the segment is writable and executable: run FENCE.I before code that a store has changed"
            yield Diagnostic(Level.NOTE, "segment", text, f"address {each.address:#x}")


def refsi(data: bytes, *, harts: int, profile: str) -> Iterator[Diagnostic]:
    """Yield the mistakes in a RefSi command buffer for a device with `harts` harts and the profile `profile`."""
    from softcard.device.refsi.toolkit.lint import lint

    yield from (each.diagnostic() for each in lint(data, harts=harts, profile=profile))


def acceldev(data: bytes) -> Iterator[Diagnostic]:
    """Yield the user commands in `data` that an Acceldev rejects, and those that have no effect."""
    from softcard.device.acceldev import rules
    from softcard.device.acceldev.commands import USER_CMD_BYTES, Fence, Fill, Nop, decode_user_command

    for at in range(0, len(data), USER_CMD_BYTES):
        number, part = at // USER_CMD_BYTES, data[at : at + USER_CMD_BYTES]
        where = f"byte {at:#x}, command {number}"

        def found(level: Level, text: str, rule: Rule, where: str = where, at: int = at) -> Diagnostic:
            return Diagnostic(level, TEXT_OF_COMMAND, text, where, byte=at, rule=rule)

        if len(part) < USER_CMD_BYTES:
            text = f"a user command has {USER_CMD_BYTES} bytes, but the last one has {len(part)}"
            yield found(Level.ERROR, text, rules.USER_COMMAND_FULL)
            return
        try:
            command = decode_user_command(part)
        except WireError as error:
            yield found(Level.ERROR, error.message, rules.USER_COMMANDS)
            continue
        if command.unused_header or (isinstance(command, (Nop, Fence)) and any(command.unused)):
            yield found(Level.WARNING, f"{command.TYPE.name} has bits set that the device ignores", rules.USER_COMMANDS)
        if isinstance(command, Fill) and not command.length:
            yield found(Level.NOTE, "FILL has length 0, so it writes nothing", rules.USER_COMMANDS)


def schema(data: bytes, *, bus_width: int = 32) -> Iterator[Diagnostic]:
    """Yield the points on which Fletcher's generator and its run-time library disagree about a design.

    The design has one Arrow schema, whose serialised form is `data`, and a bus of `bus_width` bits."""
    from softcard.device.fletcher.map.checker import check_design
    from softcard.image.arrow_schema import read_arrow

    yield from (each.diagnostic() for each in check_design([read_arrow(data)], bus_width=bus_width).findings)


def registers(data: bytes, agent: str = "") -> Iterator[Diagnostic]:
    """Yield the kernels of a code object whose code names a vector register that they do not allocate."""
    import numpy as np

    from softcard.device.hsa.rules import ALLOCATED_REGISTERS
    from softcard.image.hsa.code_object import read_code_object
    from softcard.isa.gcn.allocation import beyond_allocation

    found = read_code_object(data, agent)
    loaded = bytes(found.load(BASE, dict.fromkeys(found.missing, 0)).data)
    for name, kernel in sorted(found.kernels.items()):
        if kernel.target is None or kernel.entry % 4:
            continue
        words = np.frombuffer(loaded, np.uint32, (len(loaded) - kernel.entry) // 4, kernel.entry)
        beyond, _ = beyond_allocation(kernel.target, words, kernel.entry, kernel.vgprs, kernel.accs)
        if beyond is not None:
            pc, rule = beyond.insn.pc, ALLOCATED_REGISTERS
            yield Diagnostic(
                Level.ERROR, "registers", beyond.message, f"pc {pc:#x} ({name})", pc=pc, kernel=name, rule=rule
            )


def memory_orders(data: bytes, agent: str, order: str, pcie: bool) -> Iterator[Diagnostic]:
    """Yield the atomics of a code object that lack the memory order `order` at agent scope.

    With `pcie`, yield also the atomics that PCIe cannot carry.
    """
    from softcard.check.memory_model import gaps
    from softcard.device.hsa.memory.memory_model import Order
    from softcard.image.hsa.code_object import read_code_object

    found = read_code_object(data, agent)
    for name in sorted(found.kernels):
        for gap in gaps(atomics_of(found, name, agent), Order(order) if order else Order.RELAXED, pcie):
            check = "pcie" if gap.other is None else "memory-order"
            text = f"{gap.text}: {gap.missing}" + (f", see pc {gap.other - BASE:#x}" if gap.other is not None else "")
            pc = gap.pc - BASE
            yield Diagnostic(Level.ERROR, check, text, f"pc {pc:#x} ({name})", pc=pc, kernel=name)


BASE: Final = 0x10_0000


def atomics_of(found: Any, name: str, agent: str = "") -> Any:
    """Return the atomics of the kernel `name` in the code object `found`."""
    from softcard.check.memory_model import atomics
    from softcard.image.hsa import targets
    from softcard.isa.gcn.encoding.decode import decode
    from softcard.isa.gcn.encoding.formats import LONGEST
    from softcard.isa.gcn.target import target

    chosen, kernel = target(targets.read_as(targets.of_target_id(agent)[0] or found.target)), found.kernel(name)
    data = bytes(found.load(BASE).data)

    def fetch(pc: int) -> Any:
        if not BASE <= pc < BASE + len(data):
            raise WireError(f"execution would leave the code object, at offset {pc - BASE:#x}")
        return decode(chosen, data[pc - BASE : pc - BASE + LONGEST], pc)

    properties = kernel.header.kernel_code_properties
    return atomics(BASE + kernel.entry, fetch, bool(properties.enable_sgpr_private_segment_buffer))
