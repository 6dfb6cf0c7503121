"""Whether the machine code of a file waits where it must: the scoreboard over all paths of its kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from understudy.core.diagnostic import Diagnostic, Level
from understudy.core.errors import WireError
from understudy.engine.gcn.waits.flow import LIMIT, missed, reachable
from understudy.engine.gcn.waits.report import CHECK, finding
from understudy.image.amdcl2.container import read_container
from understudy.image.amdcl2.load import load
from understudy.image.hsa import targets
from understudy.image.hsa.code_object import CodeObject, read_code_object
from understudy.image.hsa.records import KernelCode, Rsrc1
from understudy.isa.gcn.encoding.decode import decode
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.state import Mode
from understudy.isa.gcn.target import TARGETS, Target, target

BASE: Final = 0x10_0000
"""Where code is put to be looked at; places in findings do not count it."""
LONGEST: Final = 12
"""Bytes of an instruction at most."""


@dataclass(frozen=True, slots=True)
class Code:
    """Machine code of a file: kernels and functions by name, each with its address and first MODE."""

    target: Target
    data: bytes
    entries: Mapping[str, tuple[int, int]]
    replays: Mapping[str, bool]
    """Whether XNACK may be on for a kernel."""

    def fetch(self, pc: int) -> Insn:
        """The instruction at an address."""
        if not BASE <= pc < BASE + len(self.data):
            raise WireError(f"code leaves the object at {pc - BASE:#x}")
        return decode(self.target, self.data[pc - BASE : pc - BASE + LONGEST], pc)


def code_object_waits(data: bytes, agent: str = "") -> Iterator[Diagnostic]:
    """What the kernels and functions of a code object do not wait for; nothing where its processor is not modelled."""
    for code in codes_of(read_code_object(data, agent), agent):
        yield from waits(code)


def codes_of(found: CodeObject, agent: str = "") -> list[Code]:
    """The code of a code object that was read; none where its processor is not modelled."""
    processor = targets.read_as(agent or found.target)
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
    """What the kernels of an AMD OpenCL 2.0 program do not wait for."""
    found = read_container(data)
    loaded = load(found, BASE)
    entries, replays = {}, {}
    for name, address in loaded.kernels.items():
        header = found.kernels[name].header
        entries[name] = (address + header.kernel_code_entry_byte_offset, _mode(header.compute_pgm_rsrc1))
        replays[name] = bool(header.kernel_code_properties.is_xnack_enabled)
    yield from waits(Code(target(agent or found.target.name), bytes(loaded.data), entries, replays))


def waits(code: Code) -> Iterator[Diagnostic]:
    """What each kernel and function misses, on whatever path; what two of them share is told once."""
    told = set()
    for name in sorted(code.entries):
        entries = [code.entries[name]]
        reached = reachable(entries, code.fetch)
        if not reached.is_whole:
            text = f"only the first {LIMIT} of its instructions were looked at"
            yield Diagnostic(Level.NOTE, CHECK, text, name, kernel=name)
        for each in missed(reached, entries, replays=code.replays[name]):
            if each.is_likely and each.key not in told:
                told.add(each.key)
                yield finding(each, BASE, name)


def _mode(rsrc1: Rsrc1) -> int:
    """The word MODE that a kernel begins with."""
    return Mode.of_rsrc1(int.from_bytes(rsrc1.pack(), "little")).encode()
