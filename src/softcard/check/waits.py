"""A static check for missing waits: it models the counters of pending operations on all paths of kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from softcard.core.diagnostics import Diagnostic
from softcard.core.errors import WireError
from softcard.core.findings import Level
from softcard.engine.gcn.waits.board import CHECK, finding
from softcard.engine.gcn.waits.checker import LIMIT, missed, reachable
from softcard.image.amdcl2.container import read_container
from softcard.image.amdcl2.load import load
from softcard.image.hsa import targets
from softcard.image.hsa.code_object import CodeObject, read_code_object
from softcard.image.hsa.records import KernelCode, Rsrc1
from softcard.isa.gcn.encoding.decode import decode
from softcard.isa.gcn.encoding.formats import LONGEST
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.state import Mode
from softcard.isa.gcn.target import TARGETS, Target, target

BASE: Final = 0x10_0000
"""The address at which the analysis assumes the code to be loaded; findings give offsets from it."""


@dataclass(frozen=True, slots=True)
class Code:
    """The machine code of a file. `entries` maps the names of its kernels and functions to (address, initial MODE)."""

    target: Target
    data: bytes
    entries: Mapping[str, tuple[int, int]]
    replays: Mapping[str, bool]
    """True, by kernel name, for each kernel that may run with XNACK on."""

    def fetch(self, pc: int) -> Insn:
        """Return the instruction at an address."""
        if not BASE <= pc < BASE + len(self.data):
            raise WireError(f"execution would leave the code object, at offset {pc - BASE:#x}")
        return decode(self.target, self.data[pc - BASE : pc - BASE + LONGEST], pc)


def code_object_waits(data: bytes, agent: str = "") -> Iterator[Diagnostic]:
    """Yield a finding for each missing wait in the kernels and functions of a code object.

    Yield nothing if the code object's processor is not modelled.
    """
    for code in codes_of(read_code_object(data, agent), agent):
        yield from waits(code)


def codes_of(found: CodeObject, agent: str = "") -> list[Code]:
    """Return the machine code in a code object; an empty list if its processor is not modelled."""
    processor = targets.read_as(targets.of_target_id(agent)[0] or found.target)
    if processor not in TARGETS:
        return []
    loaded = bytes(found.load(BASE, dict.fromkeys(found.missing, 0)).data)
    stated = found.features.get("xnack", "")
    entries, replays = {}, {}
    for name, place in found.functions.items():
        entries[name] = (BASE + place, Mode().encode())
        replays[name] = stated != "off"
    for name, kernel in found.kernels.items():
        header = kernel.header
        entries[name] = (BASE + kernel.entry, _mode(header.compute_pgm_rsrc1))
        is_on = isinstance(header, KernelCode) and bool(header.kernel_code_properties.is_xnack_enabled)
        replays[name] = stated != "off" if stated or not isinstance(header, KernelCode) else is_on
    return [Code(target(processor), loaded, entries, replays)]


def program_waits(data: bytes, agent: str = "") -> Iterator[Diagnostic]:
    """Yield a finding for each missing wait in the kernels of an AMD OpenCL 2.0 program."""
    found = read_container(data)
    loaded = load(found, BASE)
    entries, replays = {}, {}
    for name, address in loaded.kernels.items():
        header = found.kernels[name].header
        entries[name] = (address + header.kernel_code_entry_byte_offset, _mode(header.compute_pgm_rsrc1))
        replays[name] = bool(header.kernel_code_properties.is_xnack_enabled)
    yield from waits(Code(target(agent or found.target.name), bytes(loaded.data), entries, replays))


def waits(code: Code) -> Iterator[Diagnostic]:
    """Yield a finding for each missing wait on any path of each kernel and function.

    A missing wait in code that two kernels share is reported once.
    """
    reported = set()
    for name in sorted(code.entries):
        entries = [code.entries[name]]
        reached = reachable(entries, code.fetch)
        if not reached.is_whole:
            text = f"only the first {LIMIT} instructions of the kernel were checked"
            yield Diagnostic(Level.NOTE, CHECK, text, name, kernel=name)
        for each in missed(reached, entries, replays=code.replays[name]):
            if each.is_likely and each.key not in reported:
                reported.add(each.key)
                yield finding(each, BASE, name)


def _mode(rsrc1: Rsrc1) -> int:
    """Return the initial value of the register MODE for a kernel whose compute program resource word is `rsrc1`."""
    return Mode.of_rsrc1(int.from_bytes(rsrc1.pack(), "little")).encode()
